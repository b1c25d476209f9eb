"""What both lanes are tested with: jobs, a basket that collects them, and handlers that wait to be told."""

from __future__ import annotations

import itertools
import threading
from typing import Any

from tests.waiting import eventually
from tq.clock import SystemClock
from tq.executor import Executor
from tq.lanes.job import Basket, Job, Lane, LaneParts
from tq.models import ClaimedTask, Outcome, TaskType

_numbers = itertools.count(1)


class Room:
    """A lane, and everything that a worker would have beside it."""

    def __init__(self) -> None:
        self.basket = Basket(enough=1000)
        self.started: list[str] = []
        self.stopping = False
        self.outcomes: dict[str, Outcome] = {}
        self.lane: Lane
        self.parts = LaneParts(Executor(), self.basket, SystemClock(), self._list, lambda: self.stopping)

    def _list(self, task: ClaimedTask) -> None:
        self.started.append(task.id)

    def abandon(self, job: Job) -> None:
        """As the worker does it."""
        assert job.give_up()
        self.lane.abandon(job)

    def job(self, handler: Any, type_: str = "email", worker_count: int = 1, is_async: bool = False) -> Job:
        kind = TaskType(type_, handler=handler, worker_count=worker_count, is_async=is_async)
        task = ClaimedTask(f"task-{next(_numbers)}", type_, "{}", 1, 1, 0, 3, None, 0.0, 0, 0.0)
        return Job(task, kind, 0.0, 300.0)

    def outcome(self, job: Job) -> Outcome:
        """Wait until the job lies in the basket."""
        eventually(lambda: self._collected(job))
        return self.outcomes[job.task.id]

    def _collected(self, job: Job) -> bool:
        self.outcomes.update((ended.task.id, outcome) for ended, outcome in self.basket.empty())
        return job.task.id in self.outcomes

    def has_started(self, job: Job) -> bool:
        return job.begun_at is not None


class Gate:
    """A handler that waits until it is let through, and knows how many were inside at once."""

    def __init__(self) -> None:
        self.open = threading.Event()
        self.inside = self.most = 0
        self._lock = threading.Lock()

    def handler(self, _: Any) -> str:
        with self._lock:
            self.inside += 1
            self.most = max(self.most, self.inside)
        self.open.wait(60)
        with self._lock:
            self.inside -= 1
        return "through"
