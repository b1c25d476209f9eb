"""The loop lane: coroutines of all types on one loop, each type within its worker count, and no handler can stop it."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import pytest

from tests.lanes.lane_rooms import Room
from tests.waiting import eventually
from tq.errors import TaskTimeout
from tq.executor import current_task
from tq.lanes.job import Job
from tq.lanes.loop import LoopLane
from tq.models import Retry, Succeeded


def loop_threads() -> list[threading.Thread]:
    return [thread for thread in threading.enumerate() if thread.name == "tq-loop"]


class LoopRoom(Room):
    def __init__(self) -> None:
        super().__init__()
        self.lane = LoopLane(self.parts)

    def job(self, handler: Any, type_: str = "email", worker_count: int = 1, is_async: bool = True) -> Job:
        return super().job(handler, type_, worker_count, is_async)

    def strike(self, job: Job) -> None:
        self.lane.strike(job, TaskTimeout, "timed out after 5 s", 5.0)


@pytest.fixture
def room():
    room = LoopRoom()
    yield room
    room.lane.close()
    for thread in loop_threads():
        thread.join(60)
        assert not thread.is_alive(), "a loop goes on for ever"


class Gate:
    """A coroutine that waits until it is let through, and knows how many were inside at once."""

    def __init__(self) -> None:
        self.open = threading.Event()
        self.inside = self.most = 0

    async def handler(self, _: Any) -> str:
        self.inside += 1
        self.most = max(self.most, self.inside)
        while not self.open.is_set():
            await asyncio.sleep(0.001)
        self.inside -= 1
        return "through"


class Stubborn:
    """A coroutine that swallows its cancellation."""

    def __init__(self) -> None:
        self.go = threading.Event()
        self.struck = 0

    async def handler(self, _: Any) -> str:
        while not self.go.is_set():
            try:
                await asyncio.sleep(0.001)
            except asyncio.CancelledError:
                self.struck += 1
        return "at last"


class Blocking:
    """A coroutine that blocks the loop it runs on."""

    def __init__(self) -> None:
        self.go = threading.Event()

    async def handler(self, _: Any) -> str:
        self.go.wait(60)
        return "at last"


async def answer(_: Any) -> str:
    return current_task().type


def test_jobs_run_and_come_back_with_their_outcomes(room: LoopRoom):
    async def double(_: Any) -> str:
        await asyncio.sleep(0)
        return current_task().id

    jobs = [room.job(double) for _ in range(50)]
    room.lane.start(jobs)
    assert [room.outcome(job) for job in jobs] == [Succeeded(f'"{job.task.id}"') for job in jobs]
    assert room.started == [job.task.id for job in jobs]  # in their order
    assert len(loop_threads()) == 1


def test_no_more_of_a_type_run_at_once_than_it_has_workers(room: LoopRoom):
    gates = {"email": Gate(), "sms": Gate()}
    jobs = [
        room.job(gates[type_].handler, type_, count) for type_, count in (("email", 3), ("sms", 2)) for _ in range(9)
    ]
    room.lane.start(jobs)
    eventually(lambda: (gates["email"].inside, gates["sms"].inside) == (3, 2))
    for gate in gates.values():
        gate.open.set()
    for job in jobs:
        room.outcome(job)
    assert (gates["email"].most, gates["sms"].most) == (3, 2)


def test_a_thousand_coroutines_wait_at_once(room: LoopRoom):
    gate = Gate()
    jobs = [room.job(gate.handler, worker_count=1000) for _ in range(1000)]
    room.lane.start(jobs)
    eventually(lambda: gate.inside == 1000)
    gate.open.set()
    for job in jobs:
        room.outcome(job)


@pytest.mark.parametrize(
    "error",
    [ValueError("no"), SystemExit(1), KeyboardInterrupt(), asyncio.CancelledError()],
    ids=lambda e: type(e).__name__,
)
def test_a_handler_that_raises_does_not_stop_the_loop(room: LoopRoom, error: BaseException):
    async def handler(_: Any) -> None:
        raise error

    first, second = room.job(handler), room.job(answer)
    room.lane.start([first, second])
    assert isinstance(room.outcome(first), Retry)
    assert room.outcome(second) == Succeeded('"email"')


@pytest.mark.parametrize("error", [SystemExit, KeyboardInterrupt])
def test_what_a_handler_leaves_behind_on_the_loop_does_not_stop_it(room: LoopRoom, error: type[BaseException]):
    """Such an exception of a task that nobody awaits leaves run_forever()."""
    left: list[asyncio.Task[None]] = []

    async def exits() -> None:
        raise error

    async def handler(_: Any) -> str:
        left.append(asyncio.get_running_loop().create_task(exits()))
        return "left"

    first = room.job(handler)
    room.lane.start([first])
    assert room.outcome(first) == Succeeded('"left"')
    eventually(lambda: left[0].done())
    assert isinstance(left[0].exception(), error)
    second = room.job(answer)
    room.lane.start([second])
    assert room.outcome(second) == Succeeded('"email"')


def test_a_struck_handler_is_cancelled_and_the_others_go_on(room: LoopRoom):
    gate, other = Gate(), Gate()
    first, second = room.job(gate.handler), room.job(other.handler, "sms")
    room.lane.start([first, second])
    eventually(lambda: first.running and second.running)
    room.strike(first)
    outcome = room.outcome(first)
    assert isinstance(outcome, Retry) and outcome.error == "timed out after 5 s"
    other.open.set()
    assert room.outcome(second) == Succeeded('"through"')


def test_a_strike_before_the_start_or_after_the_end_hits_nobody(room: LoopRoom):
    gate = Gate()
    first, second = room.job(gate.handler), room.job(gate.handler)
    room.lane.start([first, second])
    eventually(lambda: first.running)
    room.strike(second)
    gate.open.set()
    assert room.outcome(first) == Succeeded('"through"')
    room.strike(first)
    assert room.outcome(second) == Succeeded('"through"')


def test_a_handler_learns_that_it_should_stop(room: LoopRoom):
    async def patient(_: Any) -> str:
        while not current_task().stopping:
            await asyncio.sleep(0.001)
        return "stopped"

    job = room.job(patient)
    room.lane.start([job])
    eventually(lambda: job.running)
    room.stopping = True
    assert room.outcome(job) == Succeeded('"stopped"')


# --- handlers that will not stop -----------------------------------------------------------------------------------


def test_a_handler_that_swallows_its_cancellation_leaves_its_place_to_others(room: LoopRoom):
    stubborn = Stubborn()
    job, following = room.job(stubborn.handler), room.job(answer)
    room.lane.start([job, following])
    eventually(lambda: job.running)
    room.strike(job)
    eventually(lambda: stubborn.struck)
    room.abandon(job)
    assert room.outcome(following) == Succeeded('"email"')
    assert room.lane.overdue() == 1
    stubborn.go.set()
    eventually(lambda: room.lane.overdue() == 0)
    assert not room._collected(job)  # it was settled without its coroutine
    assert len(loop_threads()) == 1


def test_a_handler_that_blocks_the_loop_is_left_alone_with_it(room: LoopRoom):
    blocking = Blocking()
    job, following = room.job(blocking.handler), room.job(answer)
    room.lane.start([job, following])
    eventually(lambda: job.running)
    room.strike(job)
    room.abandon(job)
    assert room.outcome(following) == Succeeded('"email"')
    assert room.lane.overdue() == 1
    blocking.go.set()
    eventually(lambda: room.lane.overdue() == 0)
    eventually(lambda: len(loop_threads()) == 1)  # the old loop ends with its last handler


def test_those_who_run_beside_a_blocking_handler_come_back_when_it_ends(room: LoopRoom):
    gate, blocking = Gate(), Blocking()
    beside, job = room.job(gate.handler, "sms"), room.job(blocking.handler)
    room.lane.start([beside])
    eventually(lambda: beside.running)
    room.lane.start([job])
    eventually(lambda: job.running)
    room.abandon(job)
    gate.open.set()
    blocking.go.set()
    assert room.outcome(beside) == Succeeded('"through"')


# --- taking back, and closing --------------------------------------------------------------------------------------


def test_only_what_has_not_started_is_withdrawn(room: LoopRoom):
    gate = Gate()
    jobs = [room.job(gate.handler) for _ in range(3)]
    other = [room.job(gate.handler, "sms") for _ in range(3)]
    room.lane.start(jobs + other)
    eventually(lambda: jobs[0].running and other[0].running)
    assert room.lane.withdraw(lambda type_: type_ == "email") == jobs[1:]
    gate.open.set()
    for job in (jobs[0], *other):
        room.outcome(job)
    assert set(room.started) == {job.task.id for job in (jobs[0], *other)}


def test_a_closed_lane_finishes_what_runs_and_ends(room: LoopRoom):
    gate = Gate()
    first, second = room.job(gate.handler), room.job(gate.handler)
    room.lane.start([first, second])
    eventually(lambda: first.running)
    room.lane.close()
    gate.open.set()
    assert room.outcome(first) == Succeeded('"through"')
    eventually(lambda: not loop_threads())
    assert room.started == [first.task.id]


def test_a_lane_that_never_ran_anything_ends():
    lane = LoopRoom().lane
    lane.close()
    eventually(lambda: not loop_threads())
    lane.close()
