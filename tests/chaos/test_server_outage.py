"""The PostgreSQL server crashes, restarts, is read-only or has no connection left: tq waits, says so, and goes on."""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest

from tests.chaos.checker import check, unfinished
from tests.chaos.databases import PostgresSchema, on, rows
from tests.chaos.rig import Program, Rig, wait_until
from tests.chaos.server import OwnServer
from tests.postgres import new_schema, run_sql, server_url
from tq.errors import StorageBusy

RESUME_SECONDS = 5.0 + 5.0  # the promise, and as much again for a machine that does other things too


@pytest.fixture(scope="module")
def server() -> Iterator[OwnServer]:
    server = OwnServer()
    yield server
    server.close()


@pytest.fixture
def own(server: OwnServer, folder: Path) -> Iterator[Rig]:
    """A rig on the server that the test may stop. Its workers' lease is shorter than a long outage."""
    server.start()
    rig = Rig(folder, PostgresSchema(server.url, new_schema(), durability="full"))
    yield rig
    rig.close()


_CUT = (
    "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
    "WHERE application_name = 'tq' AND datname = current_database()"
)


def _last(rig: Rig, what: str) -> float:
    return max((event.at for event in rig.history.events(what)), default=0.0)


def _work(rig: Rig) -> list[Program]:
    crew = [rig.start_ready("producer", 1), rig.start_ready("worker"), rig.start_ready("worker")]
    wait_until(lambda: len(rig.history.events("end")) > 20, "tasks run")
    return crew


def _resumes(rig: Rig) -> float:
    """How long it took until tasks were accepted and ran again."""
    back = time.monotonic()
    wait_until(lambda: min(_last(rig, "accepted"), _last(rig, "start")) > back, "work resumes", RESUME_SECONDS)
    return time.monotonic() - back


def _finish(rig: Rig, producer: Program) -> None:
    rig.allow("enough")
    assert producer.wait() == 0, producer.complaints()
    wait_until(lambda: unfinished(rig.database) == 0, "every task has ended")
    rig.stop_all()


def _each_completed_once(rig: Rig) -> None:
    """Nothing is lost, and nothing ran twice: nobody was taken for dead, because everybody was away."""
    check(rig.database, rig.history, {})
    assert set(rig.history.tasks("accepted")) <= {row[0] for row in rows(rig.database, "SELECT id FROM tasks")}
    assert rows(rig.database, "SELECT id FROM tasks WHERE status != 'success' OR crashes > 0") == []


def _troubles(program: Program) -> list[str]:
    return [line for line in program.complaints().splitlines() if line.startswith(("WARNING", "ERROR", "CRITICAL"))]


@pytest.mark.parametrize("mode", ["immediate", "fast"])
def test_work_goes_on_after_a_restart_of_the_server(own: Rig, server: OwnServer, mode: str) -> None:
    producer, *_ = _work(own)
    server.stop(mode)
    server.start()
    print(f"\nresumed {_resumes(own):.2f} s after a restart ({mode})")
    _finish(own, producer)
    _each_completed_once(own)


def test_an_outage_longer_than_the_lease_robs_nobody_and_is_told_every_ten_seconds(own: Rig, server: OwnServer) -> None:
    crew = _work(own)
    before = [len(_troubles(program)) for program in crew]
    server.stop("immediate")
    time.sleep(11)  # the outage itself: several leases, and long enough for a second line
    told = [len(_troubles(program)) - count for program, count in zip(crew, before, strict=True)]
    server.start()
    print(f"\nresumed {_resumes(own):.2f} s after 11 s without a server; lines told: {told}")
    assert all(1 <= count <= 2 for count in told), [program.complaints() for program in crew]
    _finish(own, crew[0])
    _each_completed_once(own)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_a_worker_whose_server_is_away(own: Rig, server: OwnServer, number: signal.Signals) -> None:
    worker = own.start_ready("worker")
    server.stop("fast")
    wait_until(lambda: _troubles(worker), "the worker has noticed")
    worker.send(number)
    assert worker.wait(15) == 0, worker.complaints()  # a few seconds, on a machine that does other things too


@on("postgres")
def test_work_goes_on_when_a_read_only_server_is_writable_again(rig: Rig) -> None:
    producer, *_ = _work(rig)
    (name,) = run_sql("SELECT current_database()")[0]
    with psycopg.connect(server_url(), autocommit=True) as operator:
        operator.execute("SET default_transaction_read_only = off")
        operator.execute(f'ALTER DATABASE "{name}" SET default_transaction_read_only = on')
        try:
            operator.execute(_CUT)
            wait_until(lambda: "read-only" in rig.programs[1].complaints(), "the worker has met it")
        finally:
            operator.execute(f'ALTER DATABASE "{name}" RESET default_transaction_read_only')
    print(f"\nresumed {_resumes(rig):.2f} s after the server was writable again")  # nobody has to cut its connections
    _finish(rig, producer)
    _each_completed_once(rig)


@on("postgres")
def test_a_worker_keeps_its_lease_while_all_connections_are_held(rig: Rig) -> None:
    queue, release = rig.queue(), threading.Event()
    queue("held").set_worker(lambda _: release.wait(60))
    running = queue("held").submit(1)
    wait_until(lambda: running.status() == "in-progress", "the task runs")
    (before,) = rows(rig.database, "SELECT id FROM workers")
    other = rig.start_ready("worker")  # it would take over
    refusals: list[Exception] = []

    def add() -> None:
        try:
            queue("plain").add({})
        except StorageBusy as error:
            refusals.append(error)

    threads = [threading.Thread(target=add) for _ in range(15)]
    with psycopg.connect(server_url()) as holder:
        holder.execute(f"LOCK TABLE {rig.database.schema}.task_inputs, {rig.database.schema}.tasks IN SHARE MODE")
        for thread in threads:
            thread.start()
        held_until = time.monotonic() + 3 * rig.database.lease
        lease = "SELECT lease_until - extract(epoch FROM clock_timestamp()) FROM workers WHERE id = ?"
        while time.monotonic() < held_until:
            assert rows(rig.database, lease, before[0])[0][0] > 0, "the lease ran out while others held all connections"
            time.sleep(0.1)
    for thread in threads:
        thread.join(60)
    assert not any(thread.is_alive() for thread in threads)
    assert all("use fewer threads" in str(error) for error in refusals)
    assert rows(rig.database, "SELECT count(*) FROM tasks WHERE type = 'plain'") == [(15 - len(refusals),)]
    release.set()
    wait_until(lambda: unfinished(rig.database) == 0, "every task has ended")
    assert rows(rig.database, "SELECT status, attempts FROM tasks WHERE id = ?", running.id) == [("success", 1)]
    assert queue.stop()
    other.send(signal.SIGTERM)
    assert other.wait() == 0
