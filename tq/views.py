"""What people are shown of a queue: workers, types, the story of a task, and why it is not running."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from tq.models import StoredSettings, Task, WorkerRecord
from tq.ratelimit import Bucket


class RunningTask(NamedTuple):
    id: str
    type: str
    since: float
    attempt: int


class WorkerView(NamedTuple):
    """A worker process. One that is not alive has tasks that another one is about to take over."""

    record: WorkerRecord
    alive: bool
    types: Mapping[str, Mapping[str, Any]]  # what its program says of the types that it works on
    overdue: int  # handlers that were given up and still run
    tasks: tuple[RunningTask, ...]

    @property
    def name(self) -> str:
        return f"process {self.record.pid} on {self.record.host}"


class TypeView(NamedTuple):
    """A type of tasks: how many are where, and what holds for it."""

    name: str
    counts: Mapping[str, int]  # by state, as `list` calls them
    capped: bool  # whether there are more ready, scheduled or retrying ones than were counted
    next_since: float | None  # since when the next ready task waits
    paused: bool
    settings: Mapping[str, Any]  # as they hold; empty where no worker has told
    overridden: tuple[str, ...]  # those of them that were set for all processes
    workers: int  # living ones that work on it


class Attempt(NamedTuple):
    """A row of a task's history."""

    number: int
    outcome: str
    error: str | None
    started_at: float | None
    ended_at: float
    by: str | None  # a worker's id; of what an operator did, who it was


class Event(NamedTuple):
    """Something that happened to a task."""

    at: float
    what: str
    by: str | None = None
    attempt: int | None = None
    seconds: float | None = None
    error: str | None = None


class Situation(NamedTuple):
    """All that decides whether and when a task runs, at one moment."""

    now: float
    task: Task
    settings: StoredSettings
    workers: tuple[WorkerView, ...]
    bucket: Bucket | None
    before: int  # ready tasks of its type that go first
    before_capped: bool


class MinuteView(NamedTuple):
    """What happened to the tasks of a type in a minute. Waits and runs are in seconds, None where nothing ended."""

    at: int  # its begin, in Unix time
    type: str
    added: int
    succeeded: int
    failed: int
    cancelled: int
    retried: int
    wait_p50: float | None
    wait_p95: float | None
    run_p50: float | None
    run_p95: float | None


class Explanation(NamedTuple):
    """Why a task is not running, or what became of it: a word for programs, and a sentence for people."""

    reason: str
    sentence: str
    advice: str | None = None
    until: float | None = None  # when that ends, where it is known
