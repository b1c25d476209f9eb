"""A claimed task on its way through a lane, and the basket where ended ones wait for the worker."""

from __future__ import annotations

import os
import threading
from collections import deque
from collections.abc import Callable
from typing import NamedTuple, Protocol

from tq.clock import Clock
from tq.executor import Executor
from tq.models import Cancelled, ClaimedTask, Outcome, Retry, TaskType

Strike = type[BaseException]


class Job:
    """One attempt. It is struck at most once (timeout, shutdown, cancel), and never after its handler has ended."""

    __slots__ = (
        "_lock", "abandoned", "begun_at", "cancelled", "claimed_at", "ended", "kind", "seconds", "struck_at",
        "struck_why", "task", "timeout",
    )  # fmt: skip

    def __init__(self, task: ClaimedTask, kind: TaskType, claimed_at: float, default_timeout: float) -> None:
        self.task = task
        self.kind = kind
        self.claimed_at = claimed_at  # by the monotonic clock, as all times of a job
        self.timeout = task.timeout or kind.timeout or default_timeout
        self.begun_at: float | None = None
        self.seconds = 0.0
        self.ended = False
        self.abandoned = False
        self.cancelled = ""  # what is to be said of it, once somebody has cancelled it
        self.struck_at: float | None = None
        self.struck_why = ""
        self._lock = threading.Lock()

    def end(self) -> None:
        with self._lock:
            self.ended = True

    def strike(self, why: str, now: float, deliver: Callable[[], None]) -> None:
        """Ask the handler to stop, by calling `deliver` while it surely runs."""
        with self._lock:
            if self.running and self.struck_at is None:
                self.struck_at, self.struck_why = now, why
                deliver()

    def give_up(self) -> bool:
        """Settle without the handler, which will not stop. False if it has ended after all, and will be heard."""
        with self._lock:
            if self.ended or self.abandoned:
                return False
            self.abandoned = True
            return True

    @property
    def running(self) -> bool:
        return self.begun_at is not None and not self.ended

    @property
    def struck(self) -> bool:
        return self.struck_at is not None

    def verdict(self, outcome: Outcome | None) -> Outcome:
        """What a struck handler answered does not count: its time was up before."""
        if self.struck_at is None and outcome is not None:
            return outcome
        if self.cancelled and self.struck_why == self.cancelled:
            return Cancelled(self.cancelled)
        details = outcome.details if isinstance(outcome, Retry) else None
        return Retry(self.struck_why or "the handler was interrupted", None, details)


class Basket:
    """Ended jobs. Lanes put them in from their own threads; the worker empties it in its own."""

    def __init__(self, enough: int) -> None:
        self._jobs: deque[tuple[Job, Outcome]] = deque()
        self._enough = enough
        self.ring: Callable[[], None] = lambda: None
        self.awaited = False  # set while the worker sleeps

    def put(self, job: Job, outcome: Outcome, last: bool) -> None:
        """`last` says that the lane has nothing more to do: then the worker should not wait for a fuller basket."""
        self._jobs.append((job, outcome))
        if self.awaited and (last or len(self._jobs) >= self._enough):
            self.awaited = False
            self.ring()

    def empty(self) -> list[tuple[Job, Outcome]]:
        jobs = self._jobs
        return [jobs.popleft() for _ in range(len(jobs))]

    def __len__(self) -> int:
        return len(self._jobs)


def end_forked_child(pid: int) -> None:
    """A child that a handler has forked, and that comes out of the handler, has no worker to go back to."""
    if os.getpid() != pid:
        os._exit(0)


class LaneParts(NamedTuple):
    """What every lane works with."""

    executor: Executor
    basket: Basket
    clock: Clock
    started: Callable[[ClaimedTask], None]  # lists a claim as started, before its handler runs
    stopping: Callable[[], bool]


class Lane(Protocol):
    def start(self, jobs: list[Job]) -> None: ...

    def strike(self, job: Job, by: Strike, why: str, now: float) -> None:
        """Ask a running handler to stop."""

    def abandon(self, job: Job) -> None:
        """Give up on a handler that will not stop; its slot is free again."""

    def withdraw(self, concerns: Callable[[str], bool]) -> list[Job]:
        """Take back the jobs of these types that have not started."""

    def overdue(self) -> int:
        """How many abandoned handlers still run."""

    def close(self) -> None: ...
