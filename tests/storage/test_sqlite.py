"""The SQLite driver: its connections, its file, its forks, and what happens when it is interrupted or closed."""

from __future__ import annotations

import contextlib
import sqlite3
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from tests.contract.vocabulary import NOW, add, claim, decide_at, enlist, ids, numbered, task_id
from tests.interrupting import InterruptAt
from tests.processes import child, in_child
from tests.storage.taking_part import taking_part
from tests.waiting import eventually
from tq.errors import DatabaseReplaced, DatabaseUnusable, NotInitialised, StorageBusy, StorageError, StorageFull
from tq.models import Want
from tq.storage import group_commit, sql, sqlite, write_lock
from tq.storage.driver import Autopsy
from tq.storage.sqlite import SqliteDriver, SqliteSession
from tq.storage.store import Store

ROOT = Path(__file__).parents[2]


@pytest.fixture
def path(folder: Path) -> Path:
    return folder / "tasks.db"


@pytest.fixture
def driver(path: Path) -> Iterator[SqliteDriver]:
    driver = SqliteDriver(path, "normal")
    yield driver
    driver.close()


@pytest.fixture
def store(driver: SqliteDriver) -> Store:
    return Store(driver)


def pragma(connection: sqlite3.Connection, name: str) -> Any:
    return connection.execute(f"PRAGMA {name}").fetchone()[0]


# --- connections ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("durability", "synchronous"), [("full", 2), ("normal", 1)])
def test_every_connection_has_the_same_settings(path: Path, durability: str, synchronous: int):
    driver = SqliteDriver(path, durability)
    for connection in (driver._writer._connection, driver._reader._connection):
        assert pragma(connection, "journal_mode") == "wal"
        assert pragma(connection, "synchronous") == synchronous
        assert pragma(connection, "wal_autocheckpoint") == 0
        assert pragma(connection, "busy_timeout") == 5000
        assert pragma(connection, "temp_store") == 2
        assert pragma(connection, "mmap_size") == 0
        assert connection.isolation_level is None
    driver.close()


def test_nothing_but_the_folder_and_sqlites_own_files_stand_beside_the_database(path: Path, store: Store):
    add(store, 1)
    _, presence = enlist(store)
    assert {each.name for each in path.parent.iterdir()} == {"tasks.db", "tasks.db-wal", "tasks.db-shm", "tasks.db-tq"}
    presence.leave()
    assert {each.name for each in (path.parent / "tasks.db-tq").iterdir()} == {"write.lock"}


def test_the_folder_may_be_deleted_when_nobody_runs(path: Path):
    for number in range(2):
        driver = SqliteDriver(path)
        assert add(Store(driver), number) == numbered(number)
        driver.close()
        (driver.folder / "write.lock").unlink()
        driver.folder.rmdir()


def test_a_folder_that_was_deleted_too_early_costs_no_accepted_task(driver: SqliteDriver, store: Store):
    claim(store)  # a worker wanted more than there was: somebody is to be rung for
    (driver.folder / "write.lock").unlink()
    driver.folder.rmdir()
    assert add(store, 1) == numbered(1)
    assert store.status(task_id(1)) == ("to-do", False)


def test_the_log_is_checkpointed_by_us(driver: SqliteDriver, store: Store, path: Path):
    wal = path.with_name("tasks.db-wal")
    before = path.stat().st_size
    for batch in range(12):
        add(store, *range(batch * 100, batch * 100 + 100))
    assert path.stat().st_size > before  # rows have reached the database itself
    assert driver._lock.uncheckpointed < 1000
    assert wal.stat().st_size < 64 * 1024 * 1024


def test_a_lock_that_a_foreign_program_holds_for_a_while_is_waited_for(path: Path, store: Store):
    foreign = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
    foreign.execute("BEGIN IMMEDIATE")
    timer = threading.Timer(0.3, lambda: foreign.execute("COMMIT"))
    timer.start()
    assert add(store, 1) == numbered(1)
    timer.join()
    foreign.close()


def test_links_to_a_file_share_its_locks(path: Path, driver: SqliteDriver):
    link = path.with_name("link.db")
    link.symlink_to(path)
    other = SqliteDriver(link)
    assert other.folder == driver.folder
    other.close()
    assert not path.with_name("link.db-tq").exists()


def test_links_that_go_round_in_a_circle_are_refused(folder: Path):
    (folder / "a.db").symlink_to(folder / "b.db")
    (folder / "b.db").symlink_to(folder / "a.db")
    with pytest.raises(DatabaseUnusable):
        SqliteDriver(folder / "a.db")


# --- the file --------------------------------------------------------------------------------------------------


def test_a_deleted_file_is_noticed(path: Path, store: Store):
    path.unlink()
    for use in (lambda: add(store, 1), store.stats):
        with pytest.raises(DatabaseReplaced, match="deleted or replaced"):
            use()


def test_a_replaced_file_is_noticed_and_left_alone(path: Path, store: Store):
    path.rename(path.with_name("moved.db"))
    path.write_bytes(b"")
    with pytest.raises(DatabaseReplaced):
        add(store, 1)
    assert path.read_bytes() == b""


def test_a_file_that_is_put_back_goes_on(path: Path, store: Store):
    path.rename(path.with_name("moved.db"))
    with pytest.raises(DatabaseReplaced):
        add(store, 1)
    path.with_name("moved.db").rename(path)
    assert add(store, 1) == numbered(1)


# --- trouble ---------------------------------------------------------------------------------------------------


class Troubled(SqliteSession):
    """A session whose disk fails as often as it is told to."""

    failures: int = 0
    failing_connections: int = 0

    def __init__(self, connection: sqlite3.Connection, statements: dict[str, str]) -> None:
        if Troubled.failing_connections:
            Troubled.failing_connections -= 1
            raise sqlite3.OperationalError("disk I/O error")
        super().__init__(connection, statements)

    def _execute(self, statement: str, parameters: Any) -> sqlite3.Cursor:
        if Troubled.failures:
            Troubled.failures -= 1
            raise sqlite3.OperationalError("disk I/O error")
        return super()._execute(statement, parameters)


@pytest.mark.parametrize("failing_connections", [0, 1, 3])
def test_the_queue_recovers_from_disk_errors(path: Path, failing_connections: int):
    driver = SqliteDriver(path, session=Troubled)
    store = Store(driver)
    add(store, 1)
    Troubled.failures, Troubled.failing_connections = 1, failing_connections
    for _ in range(1 + failing_connections):
        with pytest.raises(StorageFull):
            add(store, 2)
    assert add(store, 3) == numbered(3)
    assert [store.status(task_id(number)) for number in (1, 2, 3)] == [("to-do", False), None, ("to-do", False)]
    driver.close()


def test_an_operation_that_cannot_be_bound_changes_nothing(store: Store):
    with pytest.raises(StorageError):
        add(store, 1, timeout=object())
    with pytest.raises((StorageError, ValueError)):
        add(store, 1, input_="\ud800")
    assert store.stats()["byType"] == {}
    assert add(store, 1) == numbered(1)


# --- recovery --------------------------------------------------------------------------------------------------


class Blinking(SqliteDriver):
    """Sees a dead worker's lock as held at the second look: another rescuer holds it for a moment."""

    looks = 0

    def autopsy(self, session: SqliteSession, worker: Any) -> Autopsy | None:
        self.looks += 1
        return None if self.looks == 2 else super().autopsy(session, worker)


def test_a_rescuer_that_comes_second_does_not_bury_what_the_first_still_needs(path: Path):
    driver = Blinking(path)
    store = Store(driver)
    worker, presence = enlist(store)
    add(store, 1, max_attempts=1)
    claim(store, worker=worker)
    presence.drop()  # dies before the handler started
    assert store.recover("rescuer", decide_at(NOW), NOW) == []
    assert ids(store.recover("rescuer", decide_at(NOW), NOW)) == numbered(1)
    assert store.status(task_id(1)) == ("to-do", False)  # the list of started tasks was still there
    driver.close()


def test_a_new_worker_sweeps_what_the_dead_have_left(driver: SqliteDriver, store: Store):
    _, forgotten = enlist(store)
    forgotten.drop()
    for worker in store.workers():
        store.retire(worker.id)  # the database has forgotten it, its files are still there
    worker, _ = enlist(store)
    assert {each.name for each in driver.folder.iterdir()} == {"write.lock", f"{worker}.lock", f"{worker}.bell"}


# --- interrupts ------------------------------------------------------------------------------------------------

FILES = [group_commit.__file__, sqlite.__file__, write_lock.__file__, contextlib.__file__]


def interrupted(work: Callable[[], Any], line: int) -> bool:
    """Do the work with a Ctrl-C before the n-th line of the storage; whether it came to that."""
    try:
        with InterruptAt(FILES, line) as interrupt:
            work()
    except KeyboardInterrupt:
        pass
    return interrupt.struck


def test_an_interrupt_between_any_two_lines_of_a_write_leaves_a_working_store(store: Store, driver: SqliteDriver):
    line = 1
    while interrupted(lambda: add(store, line), line):  # noqa: B023
        assert add(store, 10_000 + line) == numbered(10_000 + line), f"line {line}"
        assert not driver._writer.in_transaction
        line += 1
    assert line > 50
    assert store.stats()["to-do"] >= line - 1


def test_an_interrupt_between_any_two_lines_of_a_read_leaves_a_working_store(store: Store):
    line = 1
    while interrupted(store.stats, line):
        assert store.stats()["to-do"] == line - 1
        add(store, line)
        line += 1
    assert line > 20


def test_an_interrupt_of_the_leader_repeats_nothing_for_those_who_went_with_it(store: Store, driver: SqliteDriver):
    """A claim that was committed and then repeated would leave tasks that nobody runs."""
    add(store, *range(1000))
    line, struck = 1, [True]
    while struck[-1]:
        claimed: list[str] = []
        gate = threading.Event()
        busy = threading.Thread(target=driver.write, args=(lambda session: gate.wait(),))  # noqa: B023
        busy.start()
        eventually(lambda: driver._group._leader is not None)
        known = len(struck)
        leader = threading.Thread(
            target=lambda: struck.append(interrupted(lambda: store.resume("nothing"), line))  # noqa: B023
        )
        leader.start()
        eventually(lambda: len(taking_part(driver._group)) == 2 or len(struck) > known)  # noqa: B023
        follower = threading.Thread(target=lambda: claimed.extend(ids(claim(store, 2, worker=f"w{line}"))))  # noqa: B023
        follower.start()
        eventually(lambda: len(taking_part(driver._group)) >= 2)
        gate.set()
        for thread in (busy, leader, follower):
            thread.join(60)
            assert not thread.is_alive(), f"line {line}"
        assert sorted(task.id for task in store.owned_by(f"w{line}")) == sorted(claimed)
        line += 1
    assert line > 50


def test_a_commit_that_leaves_one_hungry_and_brings_another_task_rings(store: Store, driver: SqliteDriver):
    """A worker's claim and another thread's add may share a commit: the worker must still hear of the task."""
    worker, presence = enlist(store)
    gate = threading.Event()
    busy = threading.Thread(target=driver.write, args=(lambda session: gate.wait(),))
    busy.start()
    eventually(lambda: driver._group._leader is not None)
    look = partial(store.exchange, worker, [], [Want("email", 1)], lambda: NOW)
    threads = [threading.Thread(target=look), threading.Thread(target=add, args=(store, 1))]
    for count, thread in enumerate(threads, 2):
        thread.start()
        eventually(lambda: len(taking_part(driver._group)) == count)  # noqa: B023
    gate.set()
    for thread in (busy, *threads):
        thread.join(60)
    assert presence.wait(60)


def test_a_use_inside_a_use_by_the_same_thread_is_refused_and_hangs_nobody(store: Store, driver: SqliteDriver):
    """As by a signal handler that adds while its thread adds."""
    with pytest.raises(StorageBusy, match="set a flag there"):
        driver.write(lambda session: add(store, 1))
    assert add(store, 2) == numbered(2)


# --- closing ---------------------------------------------------------------------------------------------------


def test_a_closed_store_says_so(store: Store):
    store.close()
    store.close()
    for use in (lambda: add(store, 1), store.stats, lambda: enlist(store)):
        with pytest.raises(NotInitialised, match="closed"):
            use()


def test_closing_while_others_write_and_read_loses_nothing_that_was_accepted(path: Path):
    for round_ in range(5):
        store = Store(SqliteDriver(path, "normal"))
        accepted: list[str] = []
        trouble: list[BaseException] = []

        def work(first: int) -> None:
            try:
                for number in range(first, first + 10_000):
                    accepted.extend(add(store, number))  # noqa: B023
                    store.status(task_id(number))  # noqa: B023
            except BaseException as error:
                trouble.append(error)  # noqa: B023

        threads = [threading.Thread(target=work, args=(round_ * 10**6 + n * 10**5,)) for n in range(8)]
        for thread in threads:
            thread.start()
        eventually(lambda: len(accepted) > 50)  # noqa: B023
        store.close()
        for thread in threads:
            thread.join()
        assert {type(error) for error in trouble} == {NotInitialised}
        again = Store(SqliteDriver(path, "normal"))
        assert all(again.status(each) == ("to-do", False) for each in accepted)
        again.close()


# --- forks -----------------------------------------------------------------------------------------------------


def test_a_forked_child_has_connections_of_its_own(store: Store, driver: SqliteDriver):
    add(store, 1)
    parents = driver._writer

    def write() -> bool:
        add(store, 2)
        return driver._writer is not parents

    assert in_child(write)
    assert add(store, 3) == numbered(3)
    assert store.stats()["to-do"] == 3


def test_a_forked_child_can_enlist_a_worker_first_of_all(store: Store):
    add(store, 1)
    assert in_child(lambda: enlist(store)[0])


def test_a_child_whose_threads_all_begin_at_once_opens_the_database_once(store: Store):
    def write() -> int:
        sys.setswitchinterval(1e-6)
        together = threading.Barrier(8)

        def work(number: int) -> None:
            together.wait()
            for step in range(20):
                add(store, number * 100 + step)
                store.stats()

        threads = [threading.Thread(target=work, args=(number,)) for number in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        return int(store.stats()["to-do"])

    assert in_child(write) == 160
    assert store.stats()["to-do"] == 160


def test_a_child_that_cannot_open_the_database_never_uses_its_parents_connection(store: Store, path: Path):
    def try_twice() -> list[str]:
        path.rename(path.with_name("moved.db"))
        path.mkdir()
        heard = []
        for _ in range(2):
            try:
                add(store, 1)
            except StorageError as error:
                heard.append(type(error).__name__)
        path.rmdir()
        path.with_name("moved.db").rename(path)
        add(store, 2)
        return heard

    assert in_child(try_twice) == ["DatabaseUnusable", "DatabaseUnusable"]
    assert store.status(task_id(2)) == ("to-do", False)


FORKING_PROGRAM = """
import os, sys, warnings
from pathlib import Path
from tests.contract.vocabulary import add
from tq.storage.sqlite import SqliteDriver
from tq.storage.store import Store

store = Store(SqliteDriver(Path(sys.argv[1])))
add(store, 1)
for number in (2, 3, 4):
    if os.fork() == 0:
        if number != 4:  # 4 has never used the queue
            add(store, number)
            store.close()
        sys.exit(0)
    assert os.wait()[1] == 0
    add(store, 10 + number)
store.close()
"""


def test_children_that_end_like_any_program_leave_the_parents_database_whole(path: Path):
    program = [sys.executable, "-X", "dev", "-W", "error", "-c", FORKING_PROGRAM, str(path)]
    ended = subprocess.run(program, cwd=ROOT, capture_output=True, text=True, timeout=100, check=False)
    assert (ended.returncode, ended.stderr) == (0, "")
    with contextlib.closing(sqlite3.connect(path)) as connection:
        assert connection.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
        assert connection.execute("SELECT count(*) FROM tasks").fetchall() == [(6,)]


def test_a_fork_while_other_threads_write_leaves_both_working(store: Store):
    stop = threading.Event()

    def keep_writing(first: int) -> None:
        for number in range(first, first + 100_000):
            if stop.is_set():
                return
            add(store, number)

    threads = [threading.Thread(target=keep_writing, args=(1_000_000 * n,)) for n in range(1, 4)]
    for thread in threads:
        thread.start()
    try:
        for number in range(5):
            with child(lambda: add(store, number)) as (_, answer):  # noqa: B023
                assert answer() == numbered(number)
    finally:
        stop.set()
        for thread in threads:
            thread.join()


def test_all_statements_are_parsed_with_their_names():
    statements = sql.statements("sqlite")
    assert statements["delete_worker"].startswith("DELETE FROM workers")
    assert all(text and not text.endswith(";") and "--" not in text for text in statements.values())
