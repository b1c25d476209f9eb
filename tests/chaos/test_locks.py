"""Who is dead: the lock file of a worker decides, and where it is missing, the process."""

from __future__ import annotations

import fcntl
import os
import shutil
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.chaos.checker import check
from tests.chaos.databases import rows
from tests.chaos.rig import Program, Rig, wait_until
from tests.claims import claimed
from tq import TaskQueue
from tq.clock import SystemClock
from tq.errors import NotInitialised
from tq.ids import IdFactory
from tq.models import TaskType, Want, WorkerRecord
from tq.scheduler import Scheduler
from tq.storage.driver import Autopsy
from tq.storage.presence import LockFilePresence, autopsy
from tq.storage.sqlite import SqliteDriver
from tq.storage.store import Store
from tq.storage.write_lock import WriteLock

DEAD = WorkerRecord("d" * 36, "host", 1, "", 0.0)
SCHEDULER = Scheduler(SystemClock(), IdFactory(), TaskType)


def _worker_with_running_task(rig: Rig) -> Program:
    queue = TaskQueue().init(rig.database)
    queue("plain").add({"gate": "gate"})
    queue.stop()
    program = rig.start_ready("worker", 1)
    wait_until(lambda: rig.history.events("start"), "the task runs")
    return program


def _let_another_worker_look(rig: Rig) -> None:
    """A new worker examines all others before it does anything else: once it has run a task, it has looked."""
    rig.start_ready("worker", 1)
    queue = TaskQueue().init(rig.database)
    task = queue("async").submit({"seconds": 0})
    wait_until(lambda: task.id in rig.history.tasks("end"), "the other worker has looked")
    queue.stop()


def test_a_living_worker_whose_lock_file_was_deleted_is_not_robbed(rig: Rig) -> None:
    program = _worker_with_running_task(rig)
    for path in Path(f"{rig.database}-tq").glob("*.lock"):
        path.unlink()
    _let_another_worker_look(rig)
    rig.allow("gate")
    wait_until(lambda: rig.history.events("end"), "the task has ended")
    rig.stop_all()
    check(rig.database, rig.history, {})
    assert program.exit_code == 0


def test_workers_go_on_when_their_folder_is_deleted(rig: Rig) -> None:
    _worker_with_running_task(rig)
    shutil.rmtree(f"{rig.database}-tq")
    _let_another_worker_look(rig)
    rig.finish("add_some", 20)
    rig.allow("gate")
    wait_until(lambda: len(rig.history.events("end")) == 22, "all tasks have run")
    rig.stop_all()
    check(rig.database, rig.history, {})
    assert rig.complaints() == ""


def test_a_dead_worker_whose_lock_file_was_deleted_is_noticed_before_its_parent_asks_for_it(rig: Rig) -> None:
    program = _worker_with_running_task(rig)
    for path in Path(f"{rig.database}-tq").glob("*.lock"):
        path.unlink()
    program.kill()  # and nobody waits for it: it stays in the list of processes
    rig.allow("gate")
    rig.start("worker", 1)
    wait_until(lambda: rig.history.events("end"), "the task was taken over")
    program.wait()


def test_an_add_stands_although_the_folder_is_gone(folder: Path) -> None:
    queue = TaskQueue().init(folder / "tasks.db")
    queue("mail").set_worker(lambda _: None).add({})
    assert queue.join(60)
    shutil.rmtree(folder / "tasks.db-tq")
    queue("mail").add({})
    assert queue.join(60)
    queue.stop()


def test_writers_agree_on_one_lock_after_it_was_deleted(folder: Path) -> None:
    ours = WriteLock(folder / "write.lock")
    (folder / "write.lock").unlink()
    theirs = WriteLock(folder / "write.lock")
    fd = os.open(folder / "write.lock", os.O_RDWR)
    try:
        with ours.held():
            assert not _can_lock(fd), "we hold a lock that nobody else can see"
        assert _can_lock(fd)
    finally:
        os.close(fd)
        ours.close()
        theirs.close()


def test_adds_that_race_with_stop_are_kept_or_refused_by_name(folder: Path) -> None:
    for number in range(20):
        database = folder / f"{number}.db"
        queue = TaskQueue().init(database, durability="normal")
        accepted, refusals = _add_from_many_threads_until_refused(queue, lambda queue=queue: queue.stop())
        assert {type(error) for error in refusals} == {NotInitialised}
        assert {row[0] for row in rows(database, "SELECT id FROM tasks")} == set(accepted)


def _add_from_many_threads_until_refused(
    queue: TaskQueue, then: Callable[[], object]
) -> tuple[list[str], list[Exception]]:
    accepted: list[str] = []
    refusals: list[Exception] = []

    def keep_adding() -> None:
        try:
            while True:
                accepted.extend(queue.accept([queue.spec("mail", "{}", {})]))
        except Exception as error:
            refusals.append(error)

    threads = [threading.Thread(target=keep_adding) for _ in range(4)]
    for thread in threads:
        thread.start()
    wait_until(lambda: len(accepted) >= 20, "some were accepted")
    then()
    for thread in threads:
        thread.join()
    return accepted, refusals


def _can_lock(fd: int) -> bool:
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    fcntl.flock(fd, fcntl.LOCK_UN)
    return True


def test_two_who_examine_a_dead_worker_at_once_both_find_it_dead(folder: Path) -> None:
    LockFilePresence(folder, DEAD.id).drop()
    fd = os.open(folder / f"{DEAD.id}.lock", os.O_RDWR)
    try:
        fcntl.flock(fd, fcntl.LOCK_SH)  # as the other one does
        assert autopsy(folder, DEAD) is not None
    finally:
        os.close(fd)


class MistakenDriver(SqliteDriver):
    """Takes a worker for dead at first sight, and sees that it lives when it looks again."""

    looks = 0

    def autopsy(self, session: Any, worker: WorkerRecord) -> Autopsy | None:
        self.looks += 1
        return Autopsy(frozenset()) if self.looks == 1 else None


def test_the_files_of_a_worker_that_lives_after_all_stay(folder: Path) -> None:
    driver = MistakenDriver(folder / "tasks.db")
    store = Store(driver)
    presence = store.enlist(DEAD)
    store.add([SCHEDULER.spec("mail", "{}")])
    store.exchange(DEAD.id, [], [Want("mail", 1)], lambda: 0.0)
    assert store.recover("somebody else", SCHEDULER.decide, 0.0) == []
    assert (driver.folder / f"{DEAD.id}.lock").exists()
    assert rows(folder / "tasks.db", "SELECT status FROM tasks") == [("in-progress",)]
    presence.leave()
    store.close()


def test_lock_files_have_real_bytes_so_that_a_full_disk_cannot_kill_by_sigbus(folder: Path) -> None:
    presence = LockFilePresence(folder, DEAD.id)
    assert not _holes(folder)
    for number in range(257):  # one more than it has room for at first
        presence.started(claimed(f"{number:036}"))
    assert not _holes(folder)
    presence.drop()
    found = autopsy(folder, DEAD)
    assert found is not None and found.started == {(f"{number:036}", 1) for number in range(257)}


def _holes(folder: Path) -> bool:
    status = (folder / f"{DEAD.id}.lock").stat()
    return status.st_blocks * 512 < status.st_size
