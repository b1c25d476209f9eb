"""Virtual handlers: they begin and end at moments that the seed chooses, and a real Executor says what came of them."""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any

from tests.simulation.scenario import Part
from tq.errors import StorageError
from tq.executor import Executor
from tq.lanes.job import Basket, Job, Strike
from tq.models import Cancelled, Outcome, Released, TaskType
from tq.storage.driver import Presence

if TYPE_CHECKING:
    from tests.simulation.processes import WorkerProcess


class VirtualLane:
    """The handlers of one type in one worker: as many at a time as its worker count."""

    def __init__(self, name: str, process: WorkerProcess, basket: Basket, presence: Presence) -> None:
        self._name = name
        self._process = process
        self._basket = basket
        self._presence = presence
        self._pending: deque[Job] = deque()
        self._busy = 0
        self._running: dict[Job, Part] = {}
        self._overdue: set[Job] = set()

    def start(self, jobs: list[Job]) -> None:
        self._process.record("handed", None, ids=[job.task.id for job in jobs])
        self._pending.extend(jobs)
        self._admit()

    def _admit(self) -> None:
        while self._pending and self._busy < self._pending[0].kind.worker_count:
            self._busy += 1
            self._soon(partial(self._process.spawn, "handler", partial(self._mark, self._pending.popleft())))

    def _soon(self, happens: Callable[[], None], seconds: float = 0.002) -> None:
        self._process.later(self._process.random.random() * seconds, happens)

    # --- the life of an attempt; a crash is possible between any two of these ------------------------------------

    def _mark(self, job: Job) -> None:
        if job.cancelled:
            self._make_room(job, Cancelled(job.cancelled))
            return
        try:
            self._presence.started(job.task)
        except StorageError:  # what cannot be listed as started must not start
            self._make_room(job, Released())
            return
        self._record("marked", job)
        self._soon(partial(self._begin, job))

    def _begin(self, job: Job) -> None:
        job.begun_at = self._process.clock.monotonic()
        part = self._process.world.scenario.cast(job.task.input, job.timeout, self._process.random)
        self._running[job] = part
        self._record("began", job, input=job.task.input, attempt=job.task.attempts)
        self._process.later(part.seconds, partial(self._end, job))

    def _end(self, job: Job) -> None:
        if job.ended:
            return
        part = self._running[job]
        if part.kills:
            self._process.life.doomed = True
            return
        outcome = None if job.struck else Executor().run(_playing(job, part), job.task, lambda: job.struck)
        assert job.begun_at is not None
        job.seconds = self._process.clock.monotonic() - job.begun_at
        job.end()
        self._record("ended", job, outcome=type(job.verdict(outcome)).__name__)
        self._soon(partial(self._hand_in, job, job.verdict(outcome)))

    def _hand_in(self, job: Job, outcome: Outcome) -> None:
        del self._running[job]
        if job.abandoned:
            self._overdue.discard(job)
            return
        self._make_room(job, outcome)

    def _make_room(self, job: Job, outcome: Outcome) -> None:
        self._busy -= 1
        self._basket.put(job, outcome, last=not self._pending)
        self._admit()

    # --- what the worker asks for --------------------------------------------------------------------------------

    def strike(self, job: Job, by: Strike, why: str, now: float) -> None:
        if job in self._running:
            job.strike(why, now, lambda: self._deliver(job))

    def _deliver(self, job: Job) -> None:
        self._record("struck", job)
        if self._running[job].obeys:
            self._soon(partial(self._end, job), seconds=0.5)

    def abandon(self, job: Job) -> None:
        job.abandoned = True
        self._busy -= 1
        self._overdue.add(job)
        self._record("gave up", job)

    def withdraw(self, concerns: Callable[[str], bool]) -> list[Job]:
        if not concerns(self._name):
            return []
        jobs = list(self._pending)
        self._pending.clear()
        return jobs

    def overdue(self) -> int:
        return len(self._overdue)

    def close(self) -> None:
        assert self._process.life.dead or not self._pending, "a worker leaves only when nothing is left to do"

    def _record(self, what: str, job: Job, **facts: Any) -> None:
        self._process.record(what, job.task.id, version=job.task.version, **facts)


def output_of(task_id: str, version: int) -> str:
    """What an attempt returns: nobody else could have."""
    return f"{task_id} at {version}"


def _playing(job: Job, part: Part) -> TaskType:
    def handler(_: Any) -> str:
        if part.error is not None:
            raise part.error
        return output_of(job.task.id, job.task.version)

    json.loads(job.task.input)  # a handler could read it
    return TaskType(job.kind.name, handler, no_retry=job.kind.no_retry)


class VirtualLanes:
    def __init__(self, process: WorkerProcess, basket: Basket, presence: Presence) -> None:
        self._parts = (process, basket, presence)
        self._lanes: dict[str, VirtualLane] = {}

    def lane_of(self, kind: TaskType) -> VirtualLane:
        if kind.name not in self._lanes:
            self._lanes[kind.name] = VirtualLane(kind.name, *self._parts)
        return self._lanes[kind.name]

    def all(self) -> list[VirtualLane]:
        return list(self._lanes.values())
