"""Presence: a worker is dead when its lock is free, and its list of started tasks outlives it."""

from __future__ import annotations

import os
import signal
import threading
from pathlib import Path

import pytest

from tests.claims import claimed
from tests.processes import child, in_child
from tests.waiting import eventually
from tq.ids import IdFactory
from tq.models import WorkerRecord
from tq.storage import presence
from tq.storage.driver import Autopsy
from tq.storage.presence import LockFilePresence, autopsy, bury, identity, sweep

new_id = IdFactory().new


def record(worker_id: str, pid: int | None = None, named: str = "some earlier process") -> WorkerRecord:
    return WorkerRecord(worker_id, "a-machine", pid or os.getpid(), named, 0.0)


def started_by_the_dead(folder: Path, worker_id: str) -> frozenset[str] | None:
    found = autopsy(folder, record(worker_id))
    assert found is not None, "the worker lives"
    return None if found.started is None else frozenset(task for task, _ in found.started)


@pytest.fixture
def seat(folder: Path) -> LockFilePresence:
    return LockFilePresence(folder, new_id())


def worker_id_of(seat: LockFilePresence) -> str:
    return seat._path.stem


def test_a_living_worker_has_no_autopsy(folder: Path, seat: LockFilePresence):
    assert autopsy(folder, record(worker_id_of(seat))) is None
    assert in_child(lambda: autopsy(folder, record(worker_id_of(seat))) is None)


def test_the_list_of_started_tasks_survives_kill_9(folder: Path):
    worker, tasks = new_id(), [new_id() for _ in range(1000)]

    def start_and_wait() -> None:
        mine = LockFilePresence(folder, worker)
        for task in tasks:
            mine.started(claimed(task))
        for task in tasks[::2]:
            mine.settled(task)
        (folder / "ready").touch()
        signal.pause()

    with child(start_and_wait) as (pid, _):
        eventually((folder / "ready").exists)
        assert autopsy(folder, record(worker)) is None
        os.kill(pid, signal.SIGSTOP)
        assert autopsy(folder, record(worker)) is None  # stopped is not dead
        os.kill(pid, signal.SIGKILL)
    assert started_by_the_dead(folder, worker) == frozenset(tasks[1::2])


def test_a_forked_child_does_not_keep_its_dead_parent_alive(folder: Path):
    worker = new_id()

    def die_with_a_child() -> None:
        mine = LockFilePresence(folder, worker)
        reader, writer = os.pipe()
        if os.fork() == 0:
            mine.drop()
            os.write(writer, b"dropped")
            eventually((folder / "over").exists)
            os._exit(0)
        os.read(reader, 7)
        os._exit(0)

    with child(die_with_a_child):
        try:
            eventually(lambda: autopsy(folder, record(worker)) is not None)
        finally:
            (folder / "over").touch()


def test_threads_may_start_and_settle_at_once(folder: Path, seat: LockFilePresence):
    tasks = [[new_id() for _ in range(300)] for _ in range(8)]

    def work(mine: list[str]) -> None:
        for task in mine:
            seat.started(claimed(task))
        for task in mine[:150]:
            seat.settled(task)

    threads = [threading.Thread(target=work, args=(mine,)) for mine in tasks]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    seat.drop()
    expected = frozenset(task for mine in tasks for task in mine[150:])
    assert started_by_the_dead(folder, worker_id_of(seat)) == expected


def test_settling_what_never_started_is_no_error(folder: Path, seat: LockFilePresence):
    seat.settled(new_id())
    seat.drop()
    assert started_by_the_dead(folder, worker_id_of(seat)) == frozenset()


def test_after_a_reboot_nobody_can_tell_what_had_started(folder: Path, seat: LockFilePresence, monkeypatch):
    seat.started(claimed(new_id()))
    seat.drop()
    another_boot = folder / "boot_id"
    another_boot.write_text("00000000-1111-2222-3333-444444444444\n")
    monkeypatch.setattr(presence, "_BOOT_ID", another_boot)
    assert autopsy(folder, record(worker_id_of(seat))) == Autopsy(None)


@pytest.mark.parametrize("content", [b"", b"\0" * 64, b"\xff" * 200], ids=["empty", "blank", "garbage"])
def test_a_damaged_list_tells_nothing(folder: Path, content: bytes):
    worker = new_id()
    (folder / f"{worker}.lock").write_bytes(content)
    assert autopsy(folder, record(worker)) == Autopsy(None)


def test_without_its_file_a_worker_lives_as_long_as_its_process(folder: Path):
    worker = new_id()
    assert autopsy(folder, record(worker, named=identity(os.getpid()))) is None
    assert autopsy(folder, record(worker)) == Autopsy(None)


def test_no_two_processes_have_one_identity(folder: Path):
    mine, childs = identity(os.getpid()), in_child(lambda: identity(os.getpid()))
    assert mine != childs
    assert identity(os.getpid()) == mine
    assert identity(2**22 + 1).endswith(":")  # no such process


def test_a_worker_that_leaves_leaves_nothing(folder: Path, seat: LockFilePresence):
    seat.started(claimed(new_id()))
    assert len(list(folder.iterdir())) == 2
    seat.leave()
    assert list(folder.iterdir()) == []
    seat.ring()  # somebody may still think that the worker is there


def test_the_files_are_written_and_not_holes(folder: Path, seat: LockFilePresence):
    for _ in range(300):  # more than fit at first
        seat.started(claimed(new_id()))
    status = seat._path.stat()
    assert status.st_blocks * 512 >= status.st_size


def test_only_their_owner_may_read_the_files(folder: Path, seat: LockFilePresence):
    assert {path.stat().st_mode & 0o777 for path in folder.iterdir()} == {0o600}


# --- cleaning up ---------------------------------------------------------------------------------------------------


def test_a_buried_worker_leaves_nothing(folder: Path, seat: LockFilePresence):
    seat.drop()
    bury(folder, worker_id_of(seat))
    bury(folder, worker_id_of(seat))
    assert list(folder.iterdir()) == []


def test_stale_files_are_swept_and_those_in_use_are_kept(folder: Path, seat: LockFilePresence):
    stale, known = LockFilePresence(folder, new_id()), LockFilePresence(folder, new_id())
    stale.drop()
    known.drop()
    os.mkfifo(folder / f"{new_id()}.bell")
    for foreign in ("write.lock", "notes.txt", "short.bell"):
        (folder / foreign).touch()
    sweep(folder, {worker_id_of(known)})
    assert {path.name for path in folder.iterdir()} == {
        *(f"{worker_id_of(each)}{suffix}" for each in (seat, known) for suffix in (".lock", ".bell")),
        *("write.lock", "notes.txt", "short.bell"),
    }
