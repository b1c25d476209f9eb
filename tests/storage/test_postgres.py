"""The PostgreSQL driver: connections that are cut, a server that is away, and workers on several machines."""

from __future__ import annotations

import json
import logging
import os
import socket
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from itertools import count as count_up
from typing import Any

import psycopg
import pytest

from tests.chaos.proxy import Proxy
from tests.contract.vocabulary import DEAD_PROCESS, NOW, add, claim, enlist, ids, numbered, settle, spec, task_id
from tests.postgres import new_schema, run_sql, server_url
from tests.waiting import eventually
from tq import TaskQueue
from tq.errors import (
    DatabaseUnusable,
    InvalidOption,
    SchemaTooNew,
    StorageError,
    TaskInterrupted,
    TaskTimeout,
    TqError,
)
from tq.models import Action, Retry, Succeeded, Want
from tq.storage import postgres
from tq.storage.address import shown
from tq.storage.postgres import PostgresDriver, PostgresSession, array_literal
from tq.storage.postgres_presence import SYSTEM_TIMING
from tq.storage.postgres_schema import ddl
from tq.storage.store import Store


@pytest.fixture
def schema() -> Iterator[str]:
    name = new_schema()
    server_url()  # here, and not in several threads at once
    yield name
    run_sql(f"DROP SCHEMA IF EXISTS {name} CASCADE")


@pytest.fixture
def open_queue(schema: str) -> Iterator[Callable[..., TaskQueue]]:
    queues: list[TaskQueue] = []

    def opened(**options: Any) -> TaskQueue:
        queues.append(TaskQueue().init(server_url(), schema=schema, **options))
        return queues[-1]

    yield opened
    for queue in queues:
        queue.stop(timeout=0)


def cut_all_connections() -> int:
    """End every connection of tq on the server, as a failover or an impatient operator does."""
    return len(
        run_sql(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'tq' AND datname = "
            "current_database()"
        )
    )


def count(schema: str, table: str = "tasks") -> int:
    return run_sql(f"SELECT count(*) FROM {schema}.{table}")[0][0]


# --- opening -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["", "Tq", "1tq", "tq;drop", 'tq"', "x" * 49, 7])
def test_a_schema_that_is_not_a_plain_name_is_refused(name: Any):
    with pytest.raises(InvalidOption, match="schema="):
        PostgresDriver(server_url(), schema=name)


def test_a_password_is_never_shown():
    url = "postgresql://ada:secret@db.example.com:5433/app?sslmode=require"
    assert shown(url) == "postgresql://ada@db.example.com:5433/app?sslmode=require"
    assert shown("postgresql://ada@/app?host=/run/pg&password=secret") == "postgresql://ada@/app?host=/run/pg"
    for password in ("sec#ret", "sec?ret", "sec/ret", "sec@ret", "se%zzcret"):
        with pytest.raises(TqError) as broken:
            TaskQueue().init(f"postgresql://ada:{password}@localhost:1/app")
        assert "sec" not in str(broken.value) and "ret" not in str(broken.value)
    with pytest.raises(StorageError, match="cannot reach") as refused:
        TaskQueue().init("postgresql://ada:secret@localhost:1/app")
    assert "secret" not in str(refused.value)


@pytest.mark.parametrize(("option", "value"), [("schema", "jobs"), ("lease", 5), ("pooler", True)])
def test_options_of_postgresql_are_refused_for_a_file(folder, option: str, value: Any):
    with pytest.raises(InvalidOption, match=f"{option}= is for PostgreSQL"):
        TaskQueue().init(folder / "tasks.db", **{option: value})


def test_a_lease_that_no_worker_could_keep_is_refused():
    with pytest.raises(InvalidOption, match=r"lease=0\.001: give at least 1 second"):
        TaskQueue().init(server_url(), lease=0.001)


def test_an_unknown_part_of_an_address_is_named():
    with pytest.raises(InvalidOption, match='invalid URI query parameter: "bogus"'):
        TaskQueue().init("postgresql://ada:secret@localhost/app?bogus=1")


def test_a_database_that_does_not_exist_is_named():
    with pytest.raises(DatabaseUnusable, match="does not exist"):
        TaskQueue().init(server_url().replace("/tq_", "/no_such_"))


def test_a_newer_schema_is_refused(schema: str):
    PostgresDriver(server_url(), schema=schema).close()
    run_sql(f"UPDATE {schema}.tq_schema SET version = 99")
    with pytest.raises(SchemaTooNew, match="upgrade tq-tasks"):
        PostgresDriver(server_url(), schema=schema)


def test_many_may_open_a_fresh_database_at_once(schema: str):
    together = threading.Barrier(6)
    drivers: list[PostgresDriver] = []

    def open_one() -> None:
        together.wait()
        drivers.append(PostgresDriver(server_url(), schema=schema))

    threads = [threading.Thread(target=open_one) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(drivers) == 6
    assert count(schema, "tq_schema") == 1
    for driver in drivers:
        driver.close()


def test_the_ddl_alone_makes_a_schema_that_tq_can_use(schema: str):
    run_sql(ddl().replace("{schema}", schema))
    store = Store(PostgresDriver(server_url(), schema=schema))
    assert add(store, 1) == numbered(1)
    store.close()


NASTY = [
    "",
    " ",
    "NULL",
    "null",
    ",",
    "{}",
    '"',
    "\\",
    '\\"',
    "a\\",
    "a,b",
    "{a",
    "é☃𝄞",
    "line\nbreak\ttab",
    "'",
    "$1",
    "%s",
]


def test_every_text_and_number_survives_an_array():
    texts = [*NASTY, None]
    numbers = [0.0, -1.5, 1e-300, 1.7e308, 1700000000.123456, 5e-324, None]
    with psycopg.connect(server_url(), cursor_factory=psycopg.RawCursor) as connection:
        for values, kind in ((texts, "text"), (numbers, "float8"), ([0, -7, 2**31 - 1, None], "integer")):
            (found,) = connection.execute(f"SELECT $1::{kind}[]", (array_literal(values),)).fetchall()[0]
            assert found == values


@pytest.mark.parametrize("count", [1, 2])
def test_nasty_texts_are_stored_as_they_are(schema: str, count: int):
    store = Store(PostgresDriver(server_url(), schema=schema))
    for number, text in enumerate(NASTY, 1):
        specs = [spec(10 * number + each, type_=text or "empty", input_=json.dumps(text)) for each in range(count)]
        store.add(specs)
        assert [store.get(each.id).input for each in specs] == [text] * count
    store.close()


def test_options_in_the_address_are_kept(schema: str):
    driver = PostgresDriver(f"{server_url()}&options=-c%20work_mem%3D7MB", schema=schema, durability="normal")
    with driver.connect() as connection:
        shown_by_server = [connection.execute(f"SHOW {name}").fetchone() for name in ("work_mem", "synchronous_commit")]
    assert shown_by_server == [("7MB",), ("off",)]
    driver.close()


def plan(schema: str, statement: str) -> str:
    """How the server runs a statement when it does not know the parameters, as it does after a few times."""
    driver = PostgresDriver(server_url(), schema=schema)
    with driver.connect() as connection:
        connection.execute("SET plan_cache_mode = force_generic_plan")
        connection.execute("SET enable_seqscan = off")  # the tables are small here
        connection.execute(f"PREPARE planned AS {driver._statements[statement]}".encode())
        kinds = connection.execute("SELECT cardinality(parameter_types) FROM pg_prepared_statements").fetchone()
        nothing = ", ".join(["NULL"] * kinds[0])
        rows = connection.execute(f"EXPLAIN EXECUTE planned ({nothing})".encode()).fetchall()
    driver.close()
    return "\n".join(row[0] for row in rows)


@pytest.mark.parametrize(
    ("statement", "index", "never"),
    [
        ("claim", "tasks_ready", "tasks_running"),
        ("settle", "tasks_pkey", "tasks_running"),  # that of all running tasks, for each one that is settled
        ("promote_due", "tasks_due", "tasks_ready"),
        ("look_around", "tasks_due", "tasks_running"),
        ("running_of_type", "tasks_running", "tasks_ready"),
    ],
)
def test_a_statement_reads_its_own_index(schema: str, statement: str, index: str, never: str):
    store = Store(PostgresDriver(server_url(), schema=schema))
    add(store, *range(600))
    claim(store, 300)
    store.close()
    run_sql(f"ANALYZE {schema}.tasks")
    shown_plan = plan(schema, statement)
    assert index in shown_plan and never not in shown_plan, shown_plan


def test_behind_a_pooler_nothing_is_left_in_a_session(schema: str):
    """The next transaction may come over another session: no settings, no prepared statements, nobody listens."""
    queue = TaskQueue().init(server_url(), schema=schema, pooler=True, poll_interval=0.05)
    queue("work").set_worker(lambda number: number).set_rate_limit(1000)
    queue("work").add_many(range(50))
    for number in range(20):
        queue("work").add(number)
    assert queue.join(timeout=60)
    assert queue.stats()["success"] == 70
    assert _listeners() == 0
    assert queue.stop()
    driver = PostgresDriver(server_url(), schema=schema, pooler=True)
    store = Store(driver)
    for number in range(30):
        add(store, number)
    with driver._pool.connection() as connection:
        assert connection.execute("SELECT name FROM pg_prepared_statements").fetchall() == []
        assert connection.execute("SELECT name FROM pg_settings WHERE source = 'session'").fetchall() == []
    store.close()


def test_an_operation_gives_way_to_others_more_than_once_however_long_that_took(schema: str):
    """A deadlock shows after a second, which is all the patience that a worker's exchange has."""
    moments = count_up(0, 2)
    timing = SYSTEM_TIMING._replace(monotonic=lambda: float(next(moments)), sleep=lambda seconds: None)
    driver = PostgresDriver(server_url(), schema=schema, timing=timing)
    tries: list[int] = []

    def operation(session: PostgresSession) -> str:
        tries.append(1)
        if len(tries) < 3:
            raise psycopg.errors.DeadlockDetected("two were in each other's way")
        return "done"

    assert driver.write(operation) == "done"
    assert len(tries) == 3
    driver.close()


_PREPARED = "SELECT name, statement, cardinality(parameter_types) FROM pg_prepared_statements"


def test_a_plan_that_was_made_on_an_empty_queue_does_not_read_the_whole_table_later(schema: str):
    driver = PostgresDriver(server_url(), schema=schema)
    store = Store(driver)
    worker, presence = enlist(store)
    for number in range(30):  # psycopg prepares the sixth, and the server keeps the plan of the eleventh
        add(store, number)
        for task in claim(store, worker=worker):
            assert settle(store, task, Succeeded("1"), worker=worker)
    add(store, *range(1000, 3000))
    with driver._pool.connection() as connection:
        prepared = connection.execute(_PREPARED).fetchall()
        plans = [
            connection.execute(f"EXPLAIN EXECUTE {name} ({', '.join(['NULL'] * count)})".encode()).fetchall()
            for name, text, count in prepared
            if "UPDATE" in text and "tasks" in text
        ]
    assert len(plans) >= 2  # claim and settle, at least
    assert not [row for plan in plans for (row,) in plan if "Seq Scan" in row]
    presence.drop()
    store.close()


# --- connections are cut -------------------------------------------------------------------------------------------


class CutBeforeCommit(PostgresSession):
    """Its connection is ended by the server after the first insert, once."""

    __slots__ = ()
    cuts = 1

    def change_each(self, statement: str, rows: Any) -> set[int]:
        changed = super().change_each(statement, rows)
        if statement == "insert_task" and type(self).cuts:
            type(self).cuts -= 1
            run_sql("SELECT pg_terminate_backend(%s)", (self._connection.info.backend_pid,))
        return changed


class LosesTheAnswer(PostgresDriver):
    """The commit stands, and the connection is lost before anybody hears of it, once."""

    losses = 1

    def _transact(self, operation: Any) -> Any:
        value = super()._transact(operation)
        if self.losses:
            self.losses -= 1
            from tq.storage.postgres import _InDoubt

            raise _InDoubt from psycopg.OperationalError("server closed the connection unexpectedly")
        return value


def test_an_add_that_was_cut_before_its_commit_is_stored_once(schema: str):
    store = Store(PostgresDriver(server_url(), schema=schema, session=CutBeforeCommit))
    assert add(store, 1) == numbered(1)
    assert CutBeforeCommit.cuts == 0
    assert count(schema) == 1
    store.close()


@pytest.mark.parametrize("key", [None, "invoice-7"])
def test_an_add_whose_commit_was_not_answered_is_stored_once(schema: str, key: str | None):
    store = Store(LosesTheAnswer(server_url(), schema=schema))
    assert store.add([spec(1, key=key)]) == numbered(1)
    assert store.stats()["to-do"] == 1
    store.close()


def test_a_claim_whose_commit_was_not_answered_is_told_and_not_repeated(schema: str):
    driver = PostgresDriver(server_url(), schema=schema)
    store, doubtful = Store(driver), LosesTheAnswer(server_url(), schema=schema)
    worker, presence = enlist(store)
    add(store, 1, 2)
    with pytest.raises(StorageError):
        Store(doubtful).exchange(worker, [], [Want("email", 1)], lambda: NOW)
    assert ids(store.owned_by(worker)) == numbered(1)  # what the worker gives back when it looks
    presence.drop()
    driver.close()
    doubtful.close()


@pytest.mark.timeout(300)
def test_twenty_cuts_of_every_connection_lose_nothing_and_repeat_nothing(
    schema: str, open_queue: Callable[..., TaskQueue], caplog: pytest.LogCaptureFixture
):
    caplog.set_level(logging.ERROR, "tq")
    ran: Counter[int] = Counter()
    lock = threading.Lock()

    def handler(number: int) -> None:
        with lock:
            ran[number] += 1
        time.sleep(0.005)

    for _ in range(2):
        open_queue()("work").set_worker_count(4).set_max_attempts(20).set_worker(handler)
    producer = open_queue()
    for number in range(20):
        producer("work").add_many(range(100 * number, 100 * number + 100))
        assert cut_all_connections() > 0
        time.sleep(0.05)
    before = len(ran)
    # The promise is 5 s; as much again for a machine that does other things too.
    eventually(lambda: len(ran) > min(before, 1999) and _listeners() == 2, patience=10)
    assert producer.join(timeout=120)
    assert producer.stats()["success"] == 2000
    assert ran == dict.fromkeys(range(2000), 1)
    assert run_sql(f"SELECT sum(count) FROM {schema}.finished_counts")[0][0] == 2000
    messages = [record.getMessage() for record in caplog.records]
    assert all("cannot work for now" in message for message in messages)


def test_a_sleeping_worker_listens_again_after_its_connection_was_cut(open_queue: Callable[..., TaskQueue]):
    done = threading.Event()
    worker = open_queue(poll_interval=3600)
    worker("work").set_worker(lambda _: done.set())
    producer = open_queue()
    eventually(lambda: _listeners() == 1)
    cut_all_connections()
    eventually(lambda: _listeners() == 1)
    producer("work").add(1)
    assert done.wait(60)


def _listeners() -> int:
    return run_sql(
        "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND application_name = 'tq' "
        "AND query LIKE 'LISTEN%'"
    )[0][0]


def _connection_that_is_busy(session: Any) -> None:
    session._connection.pgconn.send_query(b"SELECT pg_sleep(60)")


def _connection_that_is_cut(session: Any) -> None:
    run_sql("SELECT pg_terminate_backend(%s)", (session._connection.info.backend_pid,))


@pytest.mark.parametrize("end", [TaskTimeout, TaskInterrupted, KeyboardInterrupt, ValueError])
@pytest.mark.parametrize("become", [_connection_that_is_busy, _connection_that_is_cut])
def test_what_ends_a_read_is_never_replaced_by_the_state_of_its_connection(
    schema: str, become: Callable[[Any], None], end: type[BaseException]
):
    driver = PostgresDriver(server_url(), schema=schema)
    runs = []

    def operation(session: Any) -> None:
        runs.append(1)
        become(session)
        raise end("its time is up")

    with pytest.raises(end, match="its time is up"):
        driver.read(operation)
    assert len(runs) == 1
    assert Store(driver).stats()["to-do"] == 0
    driver.close()


@pytest.mark.skipif(not hasattr(socket, "TCP_USER_TIMEOUT"), reason="this system has no such thing")
def test_a_network_that_is_silent_is_noticed_while_something_is_sent(schema: str):
    proxy = Proxy(server_url())
    driver = PostgresDriver(proxy.url, schema=schema)
    with driver.connect() as connection, socket.socket(fileno=os.dup(connection.fileno())) as line:
        assert line.getsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT) == 20_000
    driver.close()
    proxy.close()


@pytest.mark.parametrize("worker_has_left", [True, False])
def test_a_program_says_that_it_waits_where_no_worker_does(
    schema: str, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch, worker_has_left: bool
):
    monkeypatch.setattr(postgres, "_SHORT_PATIENCE_SECONDS", 0.0)
    monkeypatch.setattr(postgres, "_PATIENCE_SECONDS", 0.5)
    monkeypatch.setattr(postgres, "_FREE_CONNECTION_SECONDS", 0.1)
    proxy = Proxy(server_url())
    driver = PostgresDriver(proxy.url, schema=schema)
    presence = driver.enlist(DEAD_PROCESS)
    if worker_has_left:
        presence.drop()
    proxy.refusing = True
    cut_all_connections()
    with pytest.raises(StorageError, match="cannot reach"):
        Store(driver).stats()
    assert ("waiting for the database" in caplog.text) == worker_has_left
    proxy.refusing = False
    presence.drop()
    driver.close()
    proxy.close()


def refusal(store: Store) -> str:
    with pytest.raises(StorageError) as refused:
        store.exchange("w1", [], [Want("email", 1)], lambda: NOW)
    return str(refused.value)


def test_a_read_only_server_is_named_and_work_goes_on_after_it(schema: str):
    store = Store(PostgresDriver(server_url(), schema=schema))
    add(store, 1)
    (database,) = run_sql("SELECT current_database()")[0]
    run_sql(f'ALTER DATABASE "{database}" SET default_transaction_read_only = on')
    cut_all_connections()
    try:
        eventually(lambda: "read-only" in refusal(store))
    finally:
        with psycopg.connect(server_url(), options="-c default_transaction_read_only=off", autocommit=True) as one:
            one.execute(f'ALTER DATABASE "{database}" RESET default_transaction_read_only')
    cut_all_connections()
    assert ids(claim(store)) == numbered(1)
    store.close()


# --- clocks -------------------------------------------------------------------------------------------------------


def test_machines_whose_clocks_disagree_share_one_rate(schema: str):
    stores = [Store(PostgresDriver(server_url(), schema=schema)) for _ in range(2)]
    add(stores[0], *range(300))
    claimed = 0
    began = time.monotonic()
    for turn in range(20):
        ahead = 3600.0 * (turn % 2)
        worker, store = f"w{turn % 2}", stores[turn % 2]
        store.enlist_again(DEAD_PROCESS._replace(id=worker))
        claimed += len(store.exchange(worker, [], [Want("email", 50, rate_limit=5)], lambda a=ahead: a).claimed)
    assert claimed <= 5 + 5 * (time.monotonic() - began)
    for store in stores:
        store.close()


def test_a_due_task_is_due_by_the_servers_clock(schema: str):
    store = Store(PostgresDriver(server_url(), schema=schema))
    add(store, 1, run_after=NOW)  # long ago
    add(store, 2, run_after=time.time() + 3600)
    store.enlist_again(DEAD_PROCESS)
    for wrong in (0.0, 1e12):
        answer = store.exchange(DEAD_PROCESS.id, [], [Want("email", 1)], lambda now=wrong: now)
        assert ids(answer.claimed) == (numbered(1) if wrong == 0.0 else [])
        assert answer.look_again_in == pytest.approx(3600, abs=60)
    store.close()


# --- leases --------------------------------------------------------------------------------------------------------


def test_after_an_outage_nobody_is_taken_for_dead_until_all_had_time_to_renew(schema: str):
    stores = [Store(PostgresDriver(server_url(), schema=schema, settling_seconds=wait)) for wait in (3600.0, 0.0)]
    worker, presence = enlist(stores[0])
    add(stores[0], 1)
    claim(stores[0], worker=worker)
    run_sql(f"UPDATE {schema}.workers SET lease_until = 0")
    from tests.contract.vocabulary import decide_at

    assert stores[0].recover("other", decide_at(NOW), NOW) == []
    assert ids(stores[1].recover("other", decide_at(NOW), NOW)) == numbered(1)
    presence.drop()
    for store in stores:
        store.close()


def test_a_worker_whose_lease_ran_out_starts_nothing(schema: str):
    store = Store(PostgresDriver(server_url(), schema=schema))
    worker, presence = enlist(store)
    add(store, 1)
    (task,) = claim(store, worker=worker)
    presence._safe_until = 0.0  # as after SIGSTOP, or with a laptop that slept
    with pytest.raises(StorageError, match="starts nothing"):
        presence.started(task)
    assert presence.renew()
    presence.started(task)
    presence.drop()
    store.close()


def test_a_worker_that_was_taken_for_dead_comes_back(schema: str, open_queue: Callable[..., TaskQueue]):
    queue = open_queue(poll_interval=0.05)
    queue("work").set_worker(lambda number: number)
    eventually(lambda: count(schema, "workers") == 1)
    run_sql(f"DELETE FROM {schema}.workers")
    assert queue("work").submit(7).result(timeout=60) == 7
    assert count(schema, "workers") == 1


def test_an_exchange_cannot_claim_for_a_worker_that_is_being_declared_dead(schema: str):
    """The row of a worker is held: whoever declares it dead waits for its claim, and the other way round."""
    store = Store(PostgresDriver(server_url(), schema=schema))
    worker, presence = enlist(store)
    add(store, 1)
    with psycopg.connect(server_url()) as rescuer:
        rescuer.execute(f"DELETE FROM {schema}.workers WHERE id = %s", (worker,))
        answers: list[Any] = []
        claiming = threading.Thread(
            target=lambda: answers.append(store.exchange(worker, [], [Want("email", 1)], lambda: NOW))
        )
        claiming.start()
        eventually(lambda: run_sql("SELECT 1 FROM pg_stat_activity WHERE wait_event_type = 'Lock'"))
        rescuer.commit()
    claiming.join(60)
    assert (answers[0].claimed, answers[0].enlisted) == ([], False)
    assert store.status(task_id(1)) == ("to-do", False)
    presence.drop()
    store.close()


class HoldsARenewal(PostgresDriver):
    """A renewal has been decided on, and reaches the server a moment after the worker has left."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        self.renewing, self.go_on = threading.Event(), threading.Event()
        self.sent: list[str] = []
        super().__init__(*arguments, **options)

    def change_apart(self, statement: str, parameters: Any) -> int:
        if statement == "renew_lease":
            self.renewing.set()
            self.go_on.wait(60)
        self.sent.append(statement)
        return super().change_apart(statement, parameters)


def beating() -> set[threading.Thread]:
    return {thread for thread in threading.enumerate() if thread.name == "tq-lease"}


def test_a_renewal_that_is_under_way_does_not_outlive_the_end_of_a_lease(schema: str):
    before = beating()
    driver = HoldsARenewal(server_url(), schema=schema, lease_seconds=0.3)
    _, presence = enlist(Store(driver))
    assert driver.renewing.wait(60)
    threading.Timer(0.2, driver.go_on.set).start()
    presence.drop()
    eventually(lambda: beating() <= before)
    assert driver.sent == ["renew_lease", "end_lease"]
    presence.drop()  # once is enough
    assert driver.sent == ["renew_lease", "end_lease"]
    assert run_sql(f"SELECT lease_until FROM {schema}.workers") == [(0.0,)]
    driver.close()


def test_a_settlement_after_the_outage_still_counts(schema: str):
    store = Store(PostgresDriver(server_url(), schema=schema))
    worker, presence = enlist(store)
    add(store, 1)
    (task,) = claim(store, worker=worker)
    cut_all_connections()
    from tests.contract.vocabulary import settlement

    done = [settlement(task, Succeeded("1"))]

    def settled() -> bool:
        try:
            return not store.exchange(worker, done, [], lambda: NOW).lost
        except StorageError:
            return False

    eventually(settled)
    assert store.status(task.id) == ("success", True)
    presence.drop()
    store.close()


# --- operators and everybody else at once --------------------------------------------------------------------------


class DeletedMeanwhile(PostgresSession):
    """An operator deletes whoever holds a key, right before the key is looked up."""

    __slots__ = ()
    schema = ""

    def rows(self, statement: str, parameters: Any = ()) -> list[Any]:
        if statement == "find_key":
            run_sql(f"DELETE FROM {self.schema}.tasks WHERE completed_at IS NOT NULL")
        return super().rows(statement, parameters)


@pytest.mark.parametrize("count", [1, 2])
def test_an_add_whose_key_is_free_again_in_the_middle_is_accepted(schema: str, count: int):
    DeletedMeanwhile.schema = schema
    store = Store(PostgresDriver(server_url(), schema=schema, session=DeletedMeanwhile))
    add(store, 1, key="order-7")
    settle(store, claim(store)[0], Succeeded("1"))
    answered = store.add([spec(2, key="order-7"), *(spec(number) for number in range(3, 2 + count))])
    assert answered == numbered(*range(2, 2 + count))
    assert store.status(task_id(2)) == ("to-do", False)
    store.close()


def while_another_transaction(schema: str, change: str, act: Callable[[], Any]) -> Any:
    """What `act` answers, which has to wait for somebody who has changed task 1, and commits then."""
    answers: list[Any] = []
    with psycopg.connect(server_url()) as other:
        other.execute(f"UPDATE {schema}.tasks SET {change} WHERE id = '{task_id(1)}'")
        acting = threading.Thread(target=lambda: answers.append(act()))
        acting.start()
        eventually(lambda: run_sql("SELECT 1 FROM pg_stat_activity WHERE wait_event_type = 'Lock'"))
        other.commit()
    acting.join(60)
    return answers[0]


CANCEL = Action("a1", NOW, "ann", "cancel", "some")


@pytest.mark.parametrize(
    "change",
    [
        f"status = 'failed', version = version + 1, run_after = {NOW + 10}",
        "status = 'to-do', version = version + 1",
    ],
)
def test_a_cancellation_reaches_what_stops_running_at_that_moment(schema: str, change: str):
    store = Store(PostgresDriver(server_url(), schema=schema))
    add(store, 1)
    claim(store)
    assert while_another_transaction(schema, change, lambda: store.operators.cancel([task_id(1)], CANCEL)) == numbered(
        1
    )
    assert store.status(task_id(1)) == ("cancelled", True)
    store.close()


def test_a_cancellation_reaches_what_is_claimed_at_that_moment(schema: str):
    store = Store(PostgresDriver(server_url(), schema=schema))
    add(store, 1)
    change = "status = 'in-progress', version = version + 1, worker_id = 'w1'"
    assert while_another_transaction(schema, change, lambda: store.operators.cancel([task_id(1)], CANCEL)) == numbered(
        1
    )
    task = store.get(task_id(1))
    assert task is not None
    assert (task.status, task.cancelled_by) == ("in-progress", "ann")
    store.close()


@pytest.mark.parametrize(("outcome", "status"), [(Retry("again"), "cancelled"), (Succeeded("1"), "success")])
def test_a_settlement_heeds_the_cancellation_that_it_waited_for(schema: str, outcome: Any, status: str):
    store = Store(PostgresDriver(server_url(), schema=schema))
    add(store, 1)
    (task,) = claim(store)
    assert while_another_transaction(schema, "cancelled_by = 'ann'", lambda: settle(store, task, outcome))
    assert store.status(task.id) == (status, True)
    store.close()
