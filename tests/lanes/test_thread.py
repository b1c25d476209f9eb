"""The thread lane: as many threads as the type has workers, and no handler can take one away for good."""

from __future__ import annotations

import gc
import sys
import threading
from typing import Any

import pytest

from tests.lanes.lane_rooms import Gate, Room
from tests.waiting import eventually
from tq.errors import TaskTimeout
from tq.executor import current_task
from tq.lanes.job import Job
from tq.lanes.thread import ThreadLane
from tq.models import Retry, Succeeded


@pytest.fixture
def room():
    room = Room()
    room.lane = ThreadLane("email", room.parts)
    yield room
    room.lane.close()
    threads = [thread for thread in threading.enumerate() if thread.name.startswith("tq-email-")]
    for thread in threads:
        thread.join(60)


def strike(room: Room, job: Job, why: str = "timed out after 5 s") -> None:
    room.lane.strike(job, TaskTimeout, why, 5.0)


class Stubborn:
    """A handler that will not stop until it is let go."""

    def __init__(self) -> None:
        self.go = threading.Event()
        self.struck = 0

    def handler(self, _: Any) -> str:
        while not self.go.is_set():
            try:
                self.go.wait(0.01)
            except TaskTimeout:
                self.struck += 1
        return "at last"


def test_jobs_run_and_come_back_with_their_outcomes(room: Room):
    jobs = [room.job(lambda _, number=number: number) for number in range(50)]
    room.lane.start(jobs)
    assert [room.outcome(job) for job in jobs] == [Succeeded(str(number)) for number in range(50)]
    assert room.started == [job.task.id for job in jobs]  # in their order
    assert all(job.ended and job.begun_at is not None for job in jobs)


def test_no_more_run_at_once_than_the_type_has_workers(room: Room):
    gate = Gate()
    jobs = [room.job(gate.handler, worker_count=3) for _ in range(10)]
    room.lane.start(jobs)
    eventually(lambda: gate.inside == 3)
    gate.open.set()
    for job in jobs:
        room.outcome(job)
    assert gate.most == 3


def test_threads_are_made_when_they_are_needed(room: Room):
    def threads() -> int:
        return sum(thread.name.startswith("tq-email-") for thread in threading.enumerate())

    job = room.job(lambda _: 1, worker_count=8)
    room.lane.start([job])
    room.outcome(job)
    assert threads() == 1


def test_a_worker_count_that_grows_is_used(room: Room):
    gate = Gate()
    room.lane.start([room.job(gate.handler)])
    eventually(lambda: gate.inside == 1)
    more = [room.job(gate.handler, worker_count=4) for _ in range(3)]
    room.lane.start(more)
    eventually(lambda: gate.inside == 4)
    gate.open.set()
    for job in more:
        room.outcome(job)


@pytest.mark.parametrize(
    "error", [ValueError("no"), SystemExit(1), KeyboardInterrupt()], ids=lambda e: type(e).__name__
)
def test_a_handler_that_raises_costs_no_thread(room: Room, error: BaseException):
    def handler(_: Any) -> None:
        raise error

    first, second = room.job(handler), room.job(lambda _: threading.current_thread().name)
    room.lane.start([first, second])
    assert isinstance(room.outcome(first), Retry)
    assert room.outcome(second) == Succeeded('"tq-email-1"')


def test_a_struck_handler_stops_and_its_thread_goes_on(room: Room):
    def endless(_: Any) -> None:
        while True:
            pass

    first, second = room.job(endless), room.job(lambda _: threading.current_thread().name)
    room.lane.start([first, second])
    eventually(lambda: first.running)
    strike(room, first)
    outcome = room.outcome(first)
    assert isinstance(outcome, Retry) and outcome.error == "timed out after 5 s"
    assert "endless" in str(outcome.details)
    assert room.outcome(second) == Succeeded('"tq-email-1"')


def test_a_handler_learns_that_it_should_stop(room: Room):
    def patient(_: Any) -> str:
        while not current_task().stopping:
            threading.Event().wait(0.001)
        return "stopped"

    job = room.job(patient)
    room.lane.start([job])
    eventually(lambda: job.running)
    room.stopping = True
    assert room.outcome(job) == Succeeded('"stopped"')


def test_a_strike_before_the_start_or_after_the_end_hits_nobody(room: Room):
    gate = Gate()
    first, second = room.job(gate.handler), room.job(gate.handler)
    room.lane.start([first, second])
    eventually(lambda: first.running)
    strike(room, second)
    gate.open.set()
    assert room.outcome(first) == Succeeded('"through"')
    strike(room, first)
    assert room.outcome(second) == Succeeded('"through"')
    third = room.job(lambda _: 3)
    room.lane.start([third])
    assert room.outcome(third) == Succeeded("3")


def test_strikes_in_the_very_moment_of_the_end_hit_nobody_else(room: Room):
    """Many short handlers, each struck as soon as it begins: none of them, nor the lane, may be hit by another's."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    gc.disable()  # an exception that arrives while Python collects garbage is reported, and lost
    try:
        for _ in range(300):
            struck, neighbour = room.job(lambda _: sum(range(200))), room.job(lambda _: "untouched")
            room.lane.start([struck, neighbour])
            while not room._collected(struck):
                strike(room, struck)
            assert isinstance(room.outcomes[struck.task.id], (Retry, Succeeded))
            assert isinstance(room.outcomes[struck.task.id], Retry) == struck.struck
            assert room.outcome(neighbour) == Succeeded('"untouched"')
    finally:
        gc.enable()
        sys.setswitchinterval(before)


# --- handlers that will not stop -----------------------------------------------------------------------------------


def test_an_abandoned_handler_leaves_its_place_to_others(room: Room):
    stubborn = Stubborn()
    job, following = room.job(stubborn.handler), room.job(lambda _: "next")
    room.lane.start([job])
    eventually(lambda: job.running)
    strike(room, job)
    eventually(lambda: stubborn.struck)
    room.abandon(job)
    room.lane.start([following])
    assert room.outcome(following) == Succeeded('"next"')
    assert room.lane.overdue() == 1
    stubborn.go.set()
    eventually(lambda: room.lane.overdue() == 0)
    assert not room._collected(job)  # it was settled without its thread


def test_what_waits_behind_an_abandoned_handler_runs(room: Room):
    stubborn = Stubborn()
    job, waiting = room.job(stubborn.handler), room.job(lambda _: "next")
    room.lane.start([job, waiting])
    eventually(lambda: job.running)
    room.abandon(job)
    assert room.outcome(waiting) == Succeeded('"next"')
    stubborn.go.set()


def test_an_abandoned_attempt_that_ends_leaves_the_next_one_of_its_task_in_reach(room: Room):
    first, second = Stubborn(), Stubborn()
    abandoned = room.job(first.handler)
    room.lane.start([abandoned])
    eventually(lambda: abandoned.running)
    room.abandon(abandoned)
    again = Job(abandoned.task, room.job(second.handler).kind, 0.0, 300.0)
    room.lane.start([again])
    eventually(lambda: again.running)
    first.go.set()
    eventually(lambda: room.lane.overdue() == 0)
    room.lane.strike(again, TaskTimeout, "timed out", 0.0)
    assert again.struck
    room.abandon(again)
    second.go.set()


def test_only_what_has_not_started_is_withdrawn(room: Room):
    gate = Gate()
    jobs = [room.job(gate.handler) for _ in range(4)]
    room.lane.start(jobs)
    eventually(lambda: jobs[0].running)
    assert room.lane.withdraw(lambda type_: type_ == "sms") == []
    assert room.lane.withdraw(lambda type_: type_ == "email") == jobs[1:]
    gate.open.set()
    room.outcome(jobs[0])
    assert room.started == [jobs[0].task.id]


def test_a_closed_lane_starts_nothing_more_and_its_threads_end(room: Room):
    gate = Gate()
    jobs = [room.job(gate.handler) for _ in range(3)]
    room.lane.start(jobs)
    eventually(lambda: jobs[0].running)
    room.lane.close()
    gate.open.set()
    eventually(lambda: not any(thread.name.startswith("tq-email-") for thread in threading.enumerate()))
    assert room.started == [jobs[0].task.id]


def test_a_machine_without_another_thread_to_give_works_with_those_it_has(room: Room, monkeypatch):
    gate = Gate()
    first, second = room.job(gate.handler, worker_count=2), room.job(lambda _: "next", worker_count=2)
    room.lane.start([first])
    eventually(lambda: first.running)
    monkeypatch.setattr(threading.Thread, "start", refuse_to_start)
    room.lane.start([second])
    gate.open.set()
    assert room.outcome(second) == Succeeded('"next"')


def test_a_machine_without_a_thread_to_give_says_so_and_the_jobs_can_be_taken_back(room: Room, monkeypatch):
    job = room.job(lambda _: 1)
    monkeypatch.setattr(threading.Thread, "start", refuse_to_start)
    with pytest.raises(RuntimeError, match="can't start new thread"):
        room.lane.start([job])
    assert room.lane.withdraw(lambda type_: True) == [job]
    monkeypatch.undo()
    room.lane.start([job])
    assert room.outcome(job) == Succeeded("1")


def refuse_to_start(_: threading.Thread) -> None:
    raise RuntimeError("can't start new thread")


def test_after_a_strike_no_thread_looks_for_it_any_more(room: Room):
    """Python 3.11 hangs in a traced thread for as long as it looks for an exception that was taken back."""
    for _ in range(50):
        job = room.job(lambda _: sum(range(2000)))
        room.lane.start([job])
        while not room._collected(job):
            strike(room, job)
    traced = threading.Thread(target=trace_a_call, daemon=True)
    traced.start()
    traced.join(30)
    assert not traced.is_alive()


def trace_a_call() -> None:
    sys.settrace(lambda *_: None)
    threading.current_thread()
    sys.settrace(None)
