"""The write lock: one holder at a time, among threads and among processes, however a holder ends."""

from __future__ import annotations

import os
import signal
import threading
from pathlib import Path

import pytest

from tests.processes import child
from tests.waiting import eventually
from tq.errors import NotInitialised
from tq.storage.write_lock import WriteLock


@pytest.fixture
def path(folder: Path) -> Path:
    return folder / "write.lock"


@pytest.fixture
def lock(path: Path):
    lock = WriteLock(path)
    yield lock
    lock.close()


def count_up(lock: WriteLock, counter: Path, times: int) -> None:
    """Loses counts unless everybody is kept out in between."""
    for _ in range(times):
        with lock.held():
            counter.write_text(str(int(counter.read_text()) + 1))


def test_threads_are_kept_apart(lock: WriteLock, folder: Path):
    counter = folder / "counter"
    counter.write_text("0")
    threads = [threading.Thread(target=count_up, args=(lock, counter, 200)) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert counter.read_text() == "1600"


def test_processes_are_kept_apart(path: Path, folder: Path):
    counter = folder / "counter"
    counter.write_text("0")

    def work() -> None:
        count_up(WriteLock(path), counter, 300)

    with child(work) as (_, first), child(work) as (_, second), child(work) as (_, third):
        for answer in (first, second, third):
            answer()
    assert counter.read_text() == "900"


def test_a_holder_that_is_killed_lets_go(lock: WriteLock, path: Path, folder: Path):
    def hold_for_ever() -> None:
        with WriteLock(path).held():
            (folder / "held").touch()
            signal.pause()

    with child(hold_for_ever) as (pid, _):
        eventually((folder / "held").exists)
        os.kill(pid, signal.SIGKILL)
    with lock.held():
        pass


def test_an_error_lets_go(lock: WriteLock):
    with pytest.raises(KeyboardInterrupt), lock.held():
        raise KeyboardInterrupt
    with lock.held():
        pass


def test_a_forked_child_that_drops_the_lock_does_not_keep_it_for_a_dead_parent(
    lock: WriteLock, path: Path, folder: Path
):
    """The grandchild outlives the child that forked it while it held the lock."""

    def die_with_a_child() -> None:
        mine = WriteLock(path)
        with mine.held():
            reader, writer = os.pipe()
            if os.fork() == 0:
                mine.drop()
                os.write(writer, b"dropped")
                eventually((folder / "over").exists)
                os._exit(0)
            os.read(reader, 7)
            os._exit(0)

    with child(die_with_a_child) as (pid, _):
        eventually(lambda: os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT | os.WNOHANG) is not None)
        taken = threading.Thread(target=lambda: count_up(lock, folder / "counter", 1), daemon=True)
        (folder / "counter").write_text("0")
        taken.start()
        taken.join(30)
        (folder / "over").touch()
        assert not taken.is_alive(), "the lock outlived its holder"


def test_the_shared_bytes_are_shared(lock: WriteLock, path: Path):
    other = WriteLock(path)
    with lock.held():
        lock.hungry = True
        lock.uncheckpointed = 2**40
    with other.held():
        assert other.hungry
        assert other.uncheckpointed == 2**40
        other.hungry = False
    assert not lock.hungry
    other.close()


def test_opening_the_lock_again_keeps_its_bytes(lock: WriteLock, path: Path):
    lock.hungry = True
    lock.uncheckpointed = 7
    again = WriteLock(path)
    assert (again.hungry, again.uncheckpointed) == (True, 7)
    again.close()


def test_the_file_is_written_and_not_a_hole(lock: WriteLock, path: Path):
    assert path.stat().st_blocks > 0


def test_only_its_owner_may_read_the_file(lock: WriteLock, path: Path):
    assert path.stat().st_mode & 0o777 == 0o600


def test_whoever_waits_for_a_lock_that_is_closed_hears_so(path: Path):
    lock = WriteLock(path)
    heard: list[BaseException] = []

    def wait_for_it() -> None:
        try:
            with lock.held():
                pass
        except BaseException as error:
            heard.append(error)

    lock._threads.acquire()
    thread = threading.Thread(target=wait_for_it)
    thread.start()
    lock._threads.release()
    lock.close()
    thread.join()
    with pytest.raises(NotInitialised):
        lock.held().__enter__()
    assert all(isinstance(error, NotInitialised) for error in heard)
