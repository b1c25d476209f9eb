"""`tq move`: a queue goes from a SQLite file to PostgreSQL, whole, and the programs that use it follow."""

from __future__ import annotations

import contextlib
import os
import sqlite3
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import psycopg
import pytest

from tests.chaos.proxy import Proxy
from tests.contract.vocabulary import NOW, add, claim, decide_at, enlist, numbered, settle, spec, task_id
from tests.interrupting import InterruptAt
from tests.postgres import new_schema, run_sql, server_url
from tests.processes import child
from tests.waiting import eventually
from tq import TaskQueue
from tq.errors import InvalidOption, QueueMoved, StorageBusy, StorageError
from tq.ids import IdFactory
from tq.models import Failed, Retry, Succeeded
from tq.storage import move, move_copy, move_source, move_target, postgres
from tq.storage.move import Move
from tq.storage.postgres import PostgresDriver, PostgresSession
from tq.storage.sqlite import SqliteDriver
from tq.storage.store import Store

ROOT = Path(__file__).parents[2]


@pytest.fixture
def schema() -> Iterator[str]:
    name = new_schema()
    server_url()  # here, and not in a child, which would make another database
    yield name
    run_sql(f"DROP SCHEMA IF EXISTS {name} CASCADE")
    run_sql(f"DROP SCHEMA IF EXISTS {name}_moving CASCADE")


@pytest.fixture
def path(folder: Path) -> Path:
    return folder / "tasks.db"


@pytest.fixture
def full(path: Path) -> Path:
    """A file with a bit of everything in it."""
    store = Store(SqliteDriver(path))
    add(store, *range(1, 8), type_="email")
    store.add([spec(20, input_='"' + "x" * 5000 + '"', key="invoice-7", priority=3, max_attempts=2, timeout=1.5)])
    add(store, 21, type_="later", run_after=NOW + 1e9)
    add(store, 22, 23, type_="brief ünïcode ☃")
    done, broken, again, *_ = claim(store, 5)
    settle(store, done, Succeeded('{"sent": true}'))
    settle(store, broken, Failed("no such mailbox", "Traceback …"))
    settle(store, again, Retry("no answer"))
    store.pause("later")
    store.retire("w1")
    store.close()
    return path


def mover(path: Path, schema: str, tell: Callable[[str, int, int], None] = lambda *_: None) -> Move:
    return Move(path, server_url(), schema, IdFactory().new, tell)


def opened(schema: str) -> Store:
    return Store(PostgresDriver(server_url(), schema=schema, settling_seconds=0, server_clock=False))


def everything(store: Store) -> list[Any]:
    return [
        store.stats(),
        store.settings().paused,
        *([store.get(task_id(n)), store.attempts(task_id(n))] for n in range(300)),
    ]


def test_everything_arrives_as_it_was(full: Path, schema: str):
    source = Store(SqliteDriver(full))
    before = everything(source)
    source.close()
    groups = mover(full, schema).run()
    target = opened(schema)
    assert everything(target) == before
    assert sum(group.size for group in groups if group.name != "(attempts)") == 11
    assert target.add([spec(99, key="invoice-7")]) == numbered(20)  # keys hold
    target.close()


def test_a_move_leaves_no_traces_in_the_target(full: Path, schema: str):
    mover(full, schema).run()
    assert run_sql(f"SELECT 1 FROM pg_namespace WHERE nspname = '{schema}_moving'") == []
    tables = run_sql(f"SELECT tablename FROM pg_tables WHERE schemaname = '{schema}'")
    assert {name for (name,) in tables} == {*move_source.TABLES, "tq_schema"}
    indexes = {name for (name,) in run_sql(f"SELECT indexname FROM pg_indexes WHERE schemaname = '{schema}'")}
    assert {"tasks_key", "tasks_ready", "tasks_due", "tasks_running"} <= indexes


# --- it may be killed anywhere -------------------------------------------------------------------------------------


def killed_at(path: Path, schema: str, step: str, times: int = 1) -> bool:
    """Whether a move came to the n-th telling of a step, where it dies as by kill -9."""

    def tell(told: str, *_: int) -> None:
        nonlocal times
        times -= told == step
        if not times:
            os._exit(9)

    with child(lambda: bool(mover(path, schema, tell).run())) as (pid, answer):
        died = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 9
        return died or not answer()


STEPS = [("copy", 1), ("copy", 2), ("copy", 4), ("catch up", 1), ("catch up", 2), ("hold", 1), ("fence", 1)]
BEHIND_THE_FENCE = [("verify", 1), ("verify", 1), ("open", 1), ("finish", 1), ("finish", 1), ("done", 1)]


def test_killed_at_every_step_it_goes_on_where_it_was(full: Path, schema: str, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(move_copy, "_PAGE", 3)
    monkeypatch.setattr(move, "FEW_CHANGES", 0)
    for number, (step, times) in enumerate(STEPS):
        source = Store(SqliteDriver(full))  # the queue works on
        add(source, *range(100 + 10 * number, 107 + 10 * number), type_="more")
        settle(source, claim(source, 1, type_="more")[0], Succeeded("1"))
        source.retire("w1")
        before = everything(source)
        source.close()
        assert killed_at(full, schema, step, times)
    for step, times in BEHIND_THE_FENCE:
        assert killed_at(full, schema, step, times)
        assert fenced(full)
    with pytest.raises(InvalidOption, match=r"has moved to .* already"):
        mover(full, schema).run()
    target = opened(schema)
    assert everything(target) == before
    target.close()


def fenced(path: Path) -> bool:
    try:
        SqliteDriver(path).close()
    except QueueMoved:
        return True
    return False


# --- programs follow -----------------------------------------------------------------------------------------------


@pytest.fixture
def open_queue(path: Path) -> Iterator[Callable[..., TaskQueue]]:
    queues: list[TaskQueue] = []

    def open_one(**options: Any) -> TaskQueue:
        queues.append(TaskQueue().init(path, **options))
        return queues[-1]

    yield open_one
    for queue in queues:
        queue.stop(timeout=0)


def test_producers_and_workers_follow_while_they_work(
    path: Path, schema: str, open_queue: Callable[..., TaskQueue], caplog: pytest.LogCaptureFixture
):
    ran: Counter[int] = Counter()
    worker, producer = open_queue(), open_queue()
    worker("work").set_worker_count(4).set_worker(lambda number: ran.update([number]))
    moved, added = threading.Event(), []

    def produce() -> None:
        while not moved.is_set() or len(added) % 50:
            added.append(len(added))
            producer("work").add(added[-1])

    thread = threading.Thread(target=produce)
    thread.start()
    eventually(lambda: len(added) > 50)
    mover(path, schema).run()
    moved.set()
    thread.join()
    assert producer.join(timeout=60)
    assert ran == dict.fromkeys(added, 1)
    assert run_sql(f"SELECT count(*) FROM {schema}.tasks WHERE status = 'success'") == [(len(added),)]
    followed = [record for record in caplog.records if "followed the queue to postgresql://" in record.getMessage()]
    assert len(followed) == 2  # once for each of the two


def test_what_ran_during_the_move_is_settled_in_the_new_place(
    path: Path, schema: str, open_queue: Callable[..., TaskQueue]
):
    begun, go_on = threading.Event(), threading.Event()

    def handler(_: Any) -> str:
        begun.set()
        go_on.wait(60)
        return "done"

    queue = open_queue(poll_interval=0.05)
    handle = queue("work").set_worker(handler).submit({})
    assert begun.wait(60)
    mover(path, schema).run()
    eventually(lambda: run_sql(f"SELECT 1 FROM {schema}.workers WHERE lease_until < extract(epoch FROM now()) + 60"))
    go_on.set()
    assert handle.result(timeout=60) == "done"
    assert run_sql(f"SELECT status, attempts, crashes FROM {schema}.tasks") == [("success", 1, 0)]


def test_a_worker_that_sleeps_follows_too(path: Path, schema: str, open_queue: Callable[..., TaskQueue]):
    worker = open_queue(poll_interval=3600)
    worker("work").set_worker(lambda number: number + 1)
    assert worker("work").submit(1).result(timeout=60) == 2
    mover(path, schema).run()
    target = TaskQueue().init(server_url(), schema=schema)
    assert target("work").submit(2).result(timeout=60) == 3
    target.stop()


def test_a_program_that_starts_later_with_the_old_path_works_in_the_new_place(full: Path, schema: str):
    mover(full, schema).run()
    queue = TaskQueue().init(full)
    assert queue.get(task_id(20)).key == "invoice-7"
    queue("email").add({})
    queue.stop()
    assert run_sql(f"SELECT count(*) FROM {schema}.tasks") == [(12,)]


def test_a_program_without_psycopg_is_told_what_to_install(full: Path, schema: str):
    mover(full, schema).run()
    program = (
        "import sys; sys.modules['psycopg'] = None\n"
        "from tq import TaskQueue, TqError\n"
        "try: TaskQueue().init(sys.argv[1])\n"
        "except TqError as error: print(type(error).__name__, error)"
    )
    command = [sys.executable, "-c", program, str(full)]
    answer = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, check=True, timeout=60).stdout
    assert answer.startswith("QueueMoved the queue has moved to postgresql://")
    assert "pip install 'tq-tasks[postgres]'" in answer


def test_what_a_dead_worker_had_claimed_is_taken_over_in_the_new_place(path: Path, schema: str):
    source = Store(SqliteDriver(path))
    worker, presence = enlist(source)
    add(source, 1, 2, max_attempts=1)
    first, _ = claim(source, worker=worker)
    presence.started(first)
    presence.drop()
    source.close()
    mover(path, schema).run()
    target = opened(schema)
    assert len(target.recover("rescuer", decide_at(NOW), NOW)) == 2
    assert target.status(task_id(1)) == ("failed", True)  # it had started, and may not start again
    assert target.status(task_id(2)) == ("to-do", False)
    target.close()


# --- it does not always come to its end ----------------------------------------------------------------------------


def test_a_mover_that_dies_holds_nobody_for_long(path: Path, schema: str, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(move_source, "_HOLD_SECONDS", 0.05)
    source = Store(SqliteDriver(path))
    add(source, 1)
    assert killed_at(path, schema, "fence")
    assert source.settings().paused in ({""}, set())
    eventually(lambda: claim(source))
    source.close()


@pytest.mark.parametrize("step", ["copy", "fence", "verify"])
def test_a_cancelled_move_leaves_the_queue_as_it_was(full: Path, schema: str, step: str):
    with closing(sqlite3.connect(full)) as database:
        before = database.execute("SELECT name FROM sqlite_master ORDER BY name").fetchall()
    assert killed_at(full, schema, step)
    mover(full, schema).cancel()
    source = Store(SqliteDriver(full))
    assert source.settings().paused == {"later"}
    assert len(claim(source)) == 3
    source.close()
    with closing(sqlite3.connect(full)) as database:
        after = database.execute(
            "SELECT name FROM sqlite_master WHERE name != 'sqlite_sequence' ORDER BY name"
        ).fetchall()
    assert after == before
    assert run_sql(f"SELECT 1 FROM pg_namespace WHERE nspname LIKE '{schema}%'") == []


@pytest.mark.parametrize("step", ["open", "finish", "done"])
def test_a_move_that_may_have_opened_its_target_is_not_cancelled(full: Path, schema: str, step: str):
    assert killed_at(full, schema, step)
    if step == "open":  # not yet: it was killed before that step
        mover(full, schema).cancel()
        assert not fenced(full)
        return
    with pytest.raises(InvalidOption, match=r"has moved to|has opened in"):
        mover(full, schema).cancel()
    assert fenced(full)


def test_a_target_that_has_tasks_is_refused_and_nothing_is_touched(full: Path, schema: str):
    target = opened(schema)
    add(target, 1)
    with pytest.raises(InvalidOption, match="has tasks already"):
        mover(full, schema).run()
    assert not fenced(full)
    assert target.stats()["to-do"] == 1
    assert run_sql(f"SELECT 1 FROM pg_namespace WHERE nspname = '{schema}_moving'") == []
    target.close()


def test_tasks_that_appear_in_the_target_meanwhile_stop_the_move(full: Path, schema: str):
    target = opened(schema)

    def tell(step: str, *_: int) -> None:
        if step == "verify":
            add(target, 1000)

    with pytest.raises(InvalidOption, match="has tasks already"):
        mover(full, schema, tell).run()
    assert not fenced(full)
    assert target.stats()["to-do"] == 1
    target.close()


def test_workers_may_wait_in_the_empty_target(full: Path, schema: str):
    queue = TaskQueue().init(server_url(), schema=schema, poll_interval=0.05)
    queue("email").set_worker(lambda _: "sent")
    mover(full, schema).run()
    assert queue.handle(task_id(7)).result(timeout=60) == "sent"
    queue.stop()


def test_a_copy_that_differs_is_noticed_and_the_queue_stays(full: Path, schema: str):
    def tell(step: str, *_: int) -> None:
        if step == "verify":
            run_sql(f"UPDATE {schema}_moving.tasks SET error = 'no such Mailbox' WHERE status = 'failed'")

    with pytest.raises(StorageError, match=r"does not agree .* \(email failed\)"):
        mover(full, schema, tell).run()
    assert not fenced(full)
    with pytest.raises(StorageError, match="does not agree"):  # nothing has changed since, so nothing is copied again
        mover(full, schema).run()
    mover(full, schema).cancel()
    assert mover(full, schema).run()


def test_two_moves_into_one_schema_take_turns(full: Path, schema: str, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(move_source, "_LOCK_SECONDS", 0.1)

    def tell(step: str, *_: int) -> None:
        if step == "hold":
            with pytest.raises(StorageBusy, match="another move"):
                mover(full, schema).run()

    assert mover(full, schema, tell).run()


def test_another_target_is_refused_while_a_move_is_under_way(full: Path, schema: str):
    assert killed_at(full, schema, "hold")
    with pytest.raises(InvalidOption, match="is being moved to"):
        mover(full, f"{schema}_b").run()


def test_a_move_that_goes_elsewhere_is_not_cancelled_by_mistake(full: Path, schema: str):
    assert killed_at(full, schema, "hold")
    with pytest.raises(InvalidOption, match="and not to what you gave"):
        mover(full, f"{schema}_b").cancel()
    assert mover(full, f"{schema}").run()
    with pytest.raises(InvalidOption, match="already, and works there"):
        mover(full, f"{schema}_b").run()


def test_a_file_without_a_queue_is_refused_and_left_alone(path: Path, schema: str):
    with closing(sqlite3.connect(path)) as database:
        database.execute("CREATE TABLE users (name)")
    with pytest.raises(InvalidOption, match="there is no queue in"):
        mover(path, schema).run()
    with closing(sqlite3.connect(path)) as database:
        assert database.execute("SELECT name FROM sqlite_master").fetchall() == [("users",)]


def test_a_move_whose_server_is_gone_can_be_cancelled_until_the_fence(full: Path, schema: str):
    assert killed_at(full, schema, "hold")
    with closing(sqlite3.connect(full)) as database:
        database.execute("UPDATE tq_move SET target = 'postgresql://localhost:1/gone'")
        database.commit()
    Move(full, "postgresql://localhost:1/gone", schema, IdFactory().new, lambda *_: None).cancel()
    assert not fenced(full)


# --- what others have made there is not touched --------------------------------------------------------------------


def tables_in(schema: str) -> set[str]:
    return {
        name for (name,) in run_sql(f"SELECT table_name FROM information_schema.tables WHERE table_schema = '{schema}'")
    }


@pytest.mark.parametrize("kind", ["TABLE {}.{} AS", "VIEW {}.{} AS", "MATERIALIZED VIEW {}.{} AS"])
@pytest.mark.parametrize("name", ["settings", "workers", "tasks", "tq_schema"])
def test_tables_that_only_have_the_names_of_tqs_are_refused_and_not_dropped(
    full: Path, schema: str, kind: str, name: str
):
    run_sql(f"CREATE SCHEMA {schema}")
    run_sql(f"CREATE {kind.format(schema, name)} SELECT 'mine' AS mine")
    with pytest.raises(InvalidOption, match=rf"no queue of tq \({name}\); give another schema with --schema"):
        mover(full, schema).run()
    assert run_sql(f"SELECT mine FROM {schema}.{name}") == [("mine",)]
    assert run_sql(f"SELECT 1 FROM pg_namespace WHERE nspname = '{schema}_moving'") == []
    assert not fenced(full)


def test_tables_that_appear_in_the_target_meanwhile_are_not_dropped(full: Path, schema: str):
    def tell(step: str, *_: int) -> None:
        if step == "verify":
            run_sql(f"CREATE SCHEMA {schema}; CREATE TABLE {schema}.settings AS SELECT 'mine' AS mine")

    moving = mover(full, schema, tell)
    with pytest.raises(InvalidOption, match=r"\(settings\); forget this move with --cancel, then give another schema"):
        moving.run()
    assert run_sql(f"SELECT mine FROM {schema}.settings") == [("mine",)]
    assert not fenced(full)
    mover(full, schema).cancel()
    assert run_sql(f"SELECT mine FROM {schema}.settings") == [("mine",)]


@pytest.fixture
def queue_in_the_way(schema: str) -> Iterator[Store]:
    """A queue that lives where a move would put its copy."""
    store = opened(f"{schema}_moving")
    yield store
    store.close()


def test_a_queue_that_lives_where_the_copy_would_go_is_refused_and_not_emptied(
    full: Path, schema: str, queue_in_the_way: Store
):
    add(queue_in_the_way, 1)
    with pytest.raises(InvalidOption, match=rf"schema {schema}_moving of .* is in use; give another schema"):
        mover(full, schema).run()
    assert queue_in_the_way.status(task_id(1)) == ("to-do", False)


def test_a_worker_that_waits_where_the_copy_would_go_is_not_thrown_out(
    full: Path, schema: str, queue_in_the_way: Store
):
    _, presence = enlist(queue_in_the_way)
    with pytest.raises(InvalidOption, match="is in use"):
        mover(full, schema).run()
    assert len(queue_in_the_way.workers()) == 1
    presence.drop()


def test_a_refused_target_costs_nobody_the_schema_beside_it(full: Path, schema: str, queue_in_the_way: Store):
    target = opened(schema)
    add(target, 1)
    add(queue_in_the_way, 2)
    with pytest.raises(InvalidOption):
        mover(full, schema).run()
    assert queue_in_the_way.status(task_id(2)) == ("to-do", False)
    target.close()


def test_to_cancel_leaves_a_queue_alone_that_lives_where_the_copy_was(full: Path, schema: str):
    assert killed_at(full, schema, "hold")
    run_sql(f"DROP SCHEMA {schema}_moving CASCADE")
    other = opened(f"{schema}_moving")
    add(other, 1)
    mover(full, schema).cancel()
    assert other.status(task_id(1)) == ("to-do", False)
    other.close()
    with pytest.raises(InvalidOption, match="is not being moved"):
        mover(full, schema).cancel()


def test_foreign_tables_where_the_copy_would_go_are_refused_and_not_dropped(full: Path, schema: str):
    run_sql(f"CREATE SCHEMA {schema}_moving; CREATE TABLE {schema}_moving.vans AS SELECT 'mine' AS mine")
    with pytest.raises(InvalidOption, match=rf"schema {schema}_moving of .* not tq's \(vans\)"):
        mover(full, schema).run()
    assert tables_in(f"{schema}_moving") == {"vans"}


# --- opening the target --------------------------------------------------------------------------------------------


def at_statement(monkeypatch: pytest.MonkeyPatch, statement: str, happens: Callable[[], None]) -> None:
    """Something happens while the mover is about to run a statement."""
    change = PostgresSession.change

    def changing(self: PostgresSession, name: str, parameters: Any = ()) -> int:
        if name == statement:
            happens()
        return change(self, name, parameters)

    monkeypatch.setattr(PostgresSession, "change", changing)


def test_a_task_for_a_queue_that_is_made_while_the_target_opens_is_not_lost(
    full: Path, schema: str, monkeypatch: pytest.MonkeyPatch
):
    """It was found to be empty, and then a program comes, makes its tables and adds."""

    def program() -> None:
        store = opened(schema)
        add(store, 1000)
        store.close()

    adding = threading.Thread(target=program)

    def happens() -> None:
        adding.start()
        adding.join(0.5)  # it need not wait for us

    at_statement(monkeypatch, "write_moved_in", happens)
    mover(full, schema).run()
    adding.join()
    target = opened(schema)
    assert target.status(task_id(1000)) == ("to-do", False)
    assert target.status(task_id(21)) == ("to-do", False)
    target.close()


def test_a_worker_that_holds_one_table_of_the_target_and_wants_another_is_waited_for(full: Path, schema: str):
    """A mover that took the one and waited for the other would wait for ever, and so would the worker."""
    opened(schema).close()
    worker = psycopg.connect(server_url())
    worker.execute(f"SELECT 1 FROM {schema}.workers")

    def goes_on() -> None:
        with worker:
            worker.execute(f"SELECT 1 FROM {schema}.tasks")

    def tell(step: str, *_: int) -> None:
        if step == "open":
            threading.Timer(0.5, goes_on).start()

    groups = mover(full, schema, tell).run()
    assert sum(group.size for group in groups if group.name != "(attempts)") == 11
    assert worker.closed


def test_a_program_that_never_lets_go_of_the_target_stops_the_move_and_not_the_queue(
    full: Path, schema: str, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(move_target, "_OPEN_SECONDS", 0.1)
    opened(schema).close()
    with psycopg.connect(server_url()) as other:
        other.execute(f"SELECT 1 FROM {schema}.workers")
        with pytest.raises(StorageBusy, match="others were in the way"):
            mover(full, schema).run()
        assert not fenced(full)
    assert mover(full, schema).run()


def test_a_target_that_cannot_be_opened_leaves_the_queue_where_it_was(full: Path, schema: str):
    run_sql(f"CREATE SCHEMA {schema}; CREATE TABLE {schema}.tasks_ready ()")  # the name of an index of tq's
    with pytest.raises(StorageError, match="tasks_ready"):
        mover(full, schema).run()
    assert not fenced(full)
    source = Store(SqliteDriver(full))
    assert len(claim(source)) == 3
    source.close()
    run_sql(f"DROP TABLE {schema}.tasks_ready")
    assert mover(full, schema).run()


@pytest.mark.parametrize("step", ["copy", "hold", "fence", "verify", "open"])
def test_ctrl_c_before_the_target_has_opened_leaves_the_queue_where_it_was(full: Path, schema: str, step: str):
    def tell(told: str, *_: int) -> None:
        if told == step:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        mover(full, schema, tell).run()
    assert not fenced(full)
    assert mover(full, schema).run()


class ThenInterrupted(SqliteDriver):
    """Ctrl-C right after a commit."""

    def write(self, operation: Any, repeatable: bool = False, alone: bool = False) -> Any:
        super().write(operation, repeatable, alone)
        if operation is move_source.fence:
            raise KeyboardInterrupt


def test_ctrl_c_right_after_the_fence_takes_it_away_again(full: Path, schema: str, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(move_source, "SqliteDriver", ThenInterrupted)
    with pytest.raises(KeyboardInterrupt):
        mover(full, schema).run()
    assert not fenced(full)


def has_opened(schema: str) -> bool:
    return "settings" in tables_in(schema)


def test_ctrl_c_at_any_line_leaves_the_queue_in_one_place_or_the_other(full: Path, schema: str):
    """Never behind the fence and not yet opened: programs would stand still."""
    files = [str(file) for file in (ROOT / "tq/storage").glob("move*.py")]
    line, stood_still = 1, []
    while True:
        with contextlib.suppress(KeyboardInterrupt, StorageError), InterruptAt(files, line) as interrupt:
            mover(full, schema).run()
        if not interrupt.struck or (fenced(full) and has_opened(schema)):
            break
        stood_still += [line] if fenced(full) else []
        line += 13
    assert stood_still == []
    assert line > 500  # far behind the fence
    with contextlib.suppress(InvalidOption):  # it was interrupted after its very end
        mover(full, schema).run()
    assert fenced(full) and has_opened(schema)


@pytest.fixture
def proxy() -> Iterator[Proxy]:
    proxy = Proxy(server_url())
    yield proxy
    proxy.close()


def through(proxy: Proxy, path: Path, schema: str, tell: Callable[[str, int, int], None] = lambda *_: None) -> Move:
    return Move(path, proxy.url, schema, IdFactory().new, tell)


@pytest.mark.parametrize("fault", ["cut-before", "cut-after"])
def test_a_connection_that_is_lost_in_the_commit_that_opens_leaves_nothing_standing_still(
    full: Path, schema: str, proxy: Proxy, fault: str
):
    def tell(step: str, *_: int) -> None:
        if step == "open":
            proxy.at_next_commits(fault)

    if fault == "cut-after":  # it stands, and that is found out
        assert through(proxy, full, schema, tell).run()
        assert fenced(full)
    else:
        with pytest.raises(StorageError, match="cannot reach"):
            through(proxy, full, schema, tell).run()
        assert not fenced(full)
        assert through(proxy, full, schema).run()
    assert proxy.struck
    target = opened(schema)
    assert target.status(task_id(21)) == ("to-do", False)
    target.close()


@pytest.mark.parametrize("fault", ["cut-before", "cut-after"])
@pytest.mark.parametrize("cancelled", [True, False])
def test_a_server_that_is_away_when_nobody_knows_whether_it_opened_is_asked_by_the_next_run(
    full: Path, schema: str, proxy: Proxy, monkeypatch: pytest.MonkeyPatch, fault: str, cancelled: bool
):
    monkeypatch.setattr(postgres, "_PATIENCE_SECONDS", 0.1)

    def tell(step: str, *_: int) -> None:
        if step == "open":
            proxy.at_next_commits(fault)
            at_statement(monkeypatch, "open_target", lambda: setattr(proxy, "refusing", True))

    with pytest.raises(StorageError, match=r"whether the queue has opened in .* is not known.* until another run"):
        through(proxy, full, schema, tell).run()
    assert fenced(full)
    proxy.refusing = False
    stands = fault == "cut-after"
    if not cancelled:
        assert bool(through(proxy, full, schema).run()) == (not stands)  # nothing is compared twice
        assert fenced(full)
    elif stands:
        with pytest.raises(InvalidOption, match="has opened in"):
            through(proxy, full, schema).cancel()
    else:
        through(proxy, full, schema).cancel()
        assert not fenced(full)


def test_a_file_that_is_not_there_is_not_created(path: Path, schema: str):
    with pytest.raises(InvalidOption, match="there is no queue at"):
        mover(path, schema).run()
    assert not path.exists()
