"""The doorbell: it wakes, it is heard once, and it never disturbs anybody but its worker."""

from __future__ import annotations

import os
import signal
import threading
from pathlib import Path

import pytest

from tests.waiting import eventually
from tq.storage.bell import Bell, ring_all


@pytest.fixture
def bell(folder: Path):
    bell = Bell(folder / "w1.bell")
    yield bell
    bell.close()


def waiting_thread(bell: Bell, seconds: float = 60) -> threading.Thread:
    thread = threading.Thread(target=bell.wait, args=(seconds,))
    thread.start()
    return thread


def test_a_ring_wakes_the_one_who_waits(bell: Bell):
    thread = waiting_thread(bell)
    bell.ring()
    thread.join(50)
    assert not thread.is_alive()


def test_a_ring_before_the_wait_is_not_lost(bell: Bell):
    bell.ring()
    thread = waiting_thread(bell)
    thread.join(50)
    assert not thread.is_alive()


def test_many_rings_are_one(bell: Bell):
    for _ in range(100_000):  # more than the pipe holds
        bell.ring()
    for _ in range(2):  # a pipe holds more than one read takes
        bell.wait(0)
    thread = waiting_thread(bell, 0.05)
    thread.join(50)
    assert not thread.is_alive()


@pytest.mark.parametrize("seconds", [-1, 0, -1e300, float("-inf")])
def test_there_is_nothing_to_wait_for_in_the_past(bell: Bell, seconds: float):
    bell.wait(seconds)


@pytest.mark.parametrize("seconds", [1e7, 1e300, float("inf")])
def test_a_wait_may_be_as_long_as_anybody_likes(bell: Bell, seconds: float):
    bell.ring()
    bell.wait(seconds)


def test_everybody_is_rung_for(folder: Path):
    bells = [Bell(folder / f"w{number}.bell") for number in range(3)]
    threads = [waiting_thread(bell) for bell in bells]
    ring_all(folder)
    for thread in threads:
        thread.join(50)
        assert not thread.is_alive()
    for bell in bells:
        bell.remove()
        bell.close()
    assert list(folder.iterdir()) == []


def test_the_dead_are_passed_over(folder: Path, bell: Bell):
    os.mkfifo(folder / "a-dead-worker.bell")
    (folder / "write.lock").write_bytes(b"not a bell")
    (folder / "a-directory.bell").mkdir()
    thread = waiting_thread(bell)
    ring_all(folder)
    thread.join(50)
    assert not thread.is_alive()
    assert (folder / "write.lock").read_bytes() == b"not a bell"


def test_ringing_where_there_is_no_folder_is_no_error(folder: Path):
    ring_all(folder / "deleted")


def test_a_closed_bell_never_writes_into_a_file_that_got_its_descriptor(folder: Path):
    bell = Bell(folder / "w1.bell")
    descriptor = bell._fd
    bell.close()
    victim = os.open(folder / "a-database", os.O_RDWR | os.O_CREAT)
    try:
        if victim != descriptor:
            os.dup2(victim, descriptor)
        bell.ring()
        assert (folder / "a-database").read_bytes() == b""
    finally:
        for each in {victim, descriptor}:
            os.close(each)


def test_a_signal_that_rings_while_its_thread_rings_does_not_hang(bell: Bell):
    rung = threading.Event()

    def ring_too(*_: object) -> None:
        bell.ring()
        rung.set()

    before = signal.signal(signal.SIGUSR1, ring_too)
    try:
        os.kill(os.getpid(), signal.SIGUSR1)
        bell.ring()
        eventually(rung.is_set)
    finally:
        signal.signal(signal.SIGUSR1, before)
