"""The values that flow through tq: `TaskSpec` → `ClaimedTask` → `Outcome` → `Transition`. All of them are frozen.

What is made once per task on the hot path is a NamedTuple: it costs a fifth of a frozen dataclass to make (measured).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal, NamedTuple

from tq.retry import Backoff

Status = Literal["to-do", "in-progress", "success", "failed", "cancelled"]

DEFAULT_MAX_ATTEMPTS = 3
DEFAULT_TIMEOUT = 300.0
MAX_CRASHES = 3

Handler = Callable[[Any], Any]
BackoffRule = Callable[[int], float]


class TaskSpec(NamedTuple):
    """A task as `add` hands it to the store, in the order of the insert statement."""

    id: str
    type: str
    input: str
    created_at: float
    run_after: float | None = None
    priority: int = 0
    key: str | None = None
    max_attempts: int | None = None
    timeout: float | None = None


class ClaimedTask(NamedTuple):
    """A task that this worker owns until it settles it, in the order of the claim's `RETURNING`."""

    id: str
    type: str
    input: str
    version: int
    attempts: int
    crashes: int
    max_attempts: int
    timeout: float | None
    ready_at: float
    priority: int
    claimed_at: float

    @property
    def last_chance(self) -> bool:
        """Whether one more crash would end it: then it must not be blamed for a crash before it has started."""
        return self.attempts >= self.max_attempts or self.crashes + 1 >= MAX_CRASHES


@dataclass(frozen=True, slots=True)
class Task:
    """A task as it stands in the store: the document's columns, with `input` and `output` decoded."""

    id: str
    type: str
    input: Any
    status: Status
    version: int
    attempts: int
    last_attempt_at: float | None
    output: Any
    error: str | None
    run_after: float | None
    created_at: float
    updated_at: float
    completed_at: float | None
    priority: int
    key: str | None
    max_attempts: int | None
    timeout: float | None
    crashes: int
    worker_id: str | None
    cancelled_by: str | None
    ready_at: float | None

    @property
    def finished(self) -> bool:
        """Whether it has ended, well or not; a failed task that waits for its retry has not."""
        return self.completed_at is not None


@dataclass(frozen=True, slots=True)
class TaskType:
    """Everything the program has said about one type. A `set_*` call puts a changed copy in its place."""

    name: str
    handler: Handler | None = None
    worker_count: int = 1
    rate_limit: float | None = None
    global_limit: int | None = None
    timeout: float | None = None  # None: as `init` says
    max_attempts: int = DEFAULT_MAX_ATTEMPTS
    backoff: Backoff | BackoffRule = field(default_factory=Backoff)
    no_retry: tuple[type[BaseException], ...] = ()
    payload: Any = None
    is_async: bool = False
    changed_at: float = 0.0


# --- outcomes: what became of one attempt ------------------------------------------------------------------------


class Succeeded(NamedTuple):
    output: str


class Retry(NamedTuple):
    error: str
    delay: float | None = None  # None: as the type's backoff says
    details: str | None = None


class Failed(NamedTuple):
    error: str
    details: str | None = None


class Cancelled(NamedTuple):
    reason: str


class Released(NamedTuple):
    """The handler never started; the attempt is given back."""


class Crashed(NamedTuple):
    """The worker's process died while the handler ran."""

    error: str


Outcome = Succeeded | Retry | Failed | Cancelled | Released | Crashed


class Transition(NamedTuple):
    """What a settled task looks like. Made only by the constructors below: one for each legal way out of a claim."""

    status: Status
    attempts: int
    crashes: int
    output: str | None
    error: str | None
    run_after: float | None
    completed_at: float | None


def to_success(task: ClaimedTask, output: str, now: float) -> Transition:
    return Transition("success", task.attempts, task.crashes, output, None, None, now)


def to_retry(task: ClaimedTask, error: str, run_after: float) -> Transition:
    return Transition("failed", task.attempts, task.crashes, None, error, run_after, None)


def to_failed(task: ClaimedTask, error: str, now: float) -> Transition:
    return Transition("failed", task.attempts, task.crashes, None, error, None, now)


def to_cancelled(task: ClaimedTask, reason: str, now: float) -> Transition:
    return Transition("cancelled", task.attempts, task.crashes, None, reason, None, now)


def to_released(task: ClaimedTask) -> Transition:
    return Transition("to-do", task.attempts - 1, task.crashes, None, None, None, None)


EVERY_TYPE = ""
# What of a type can be set for all processes, as a TaskType calls it.
STEERABLE = ("worker_count", "global_limit", "rate_limit", "timeout", "max_attempts")


@dataclass(frozen=True, slots=True)
class StoredSettings:
    """What was set for all processes: it wins over what a program says of its types."""

    paused: frozenset[str] = frozenset()  # '' stands for all types
    types: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)  # by type, what a TaskType calls it

    def holds_back(self, type_: str) -> bool:
        return type_ in self.paused or EVERY_TYPE in self.paused

    def applied(self, kind: TaskType) -> TaskType:
        """A type as it is to be run."""
        stored = self.types.get(kind.name)
        return replace(kind, **stored) if stored else kind


class Settlement(NamedTuple):
    """One claimed task, what it turns into, and what its history should tell beyond that."""

    task: ClaimedTask
    transition: Transition
    details: str | None = None
    frees_place: bool = False  # under a global limit, which workers of other processes may wait for


class Want(NamedTuple):
    """How much of one type a worker could take right now, and under which shared limits."""

    type: str
    room: int
    max_attempts: int = DEFAULT_MAX_ATTEMPTS
    rate_limit: float | None = None
    global_limit: int | None = None


class Exchange(NamedTuple):
    """The answer to one settle-and-claim: what was claimed, what had been lost, in how many seconds to look again,
    which settings hold, and which of this worker's tasks are to be cancelled, by whom."""

    claimed: list[ClaimedTask]
    lost: list[ClaimedTask]
    look_again_in: float | None
    settings: StoredSettings
    cancelled: dict[str, str] = {}  # noqa: RUF012 (nobody changes it)
    enlisted: bool = True  # False where others took this worker for dead


class WorkerRecord(NamedTuple):
    """A worker process as the store knows it."""

    id: str
    host: str
    pid: int
    identity: str
    started_at: float


# The words by which tasks are found: the statuses, and what two of them are made of.
STATES: dict[str, tuple[str, ...]] = {
    "to-do": ("ready", "scheduled"),
    "in-progress": ("in-progress",),
    "success": ("success",),
    "failed": ("retrying", "dead"),
    "cancelled": ("cancelled",),
    "ready": ("ready",),
    "scheduled": ("scheduled",),
    "retrying": ("retrying",),
    "dead": ("dead",),
}


# In which states a task has to be for what an operator does with it.
CHANGEABLE: dict[str, tuple[str, ...]] = {
    "cancel": ("ready", "scheduled", "in-progress", "retrying"),
    "retry": ("scheduled", "retrying", "dead", "cancelled"),
    "delete": ("success", "dead", "cancelled"),
}


class TaskFilter(NamedTuple):
    """Which tasks are meant. None asks for nothing."""

    type: str | None = None
    states: tuple[str, ...] | None = None
    text: str | None = None  # somewhere in the input or the error
    error: str | None = None  # exactly
    from_id: str = ""
    below_id: str = "g"  # greater than any id


class Action(NamedTuple):
    """What an operator does, in the order of the table that remembers it."""

    id: str
    at: float
    actor: str
    name: str
    target: str  # an id, a type, or what tasks were asked for
    touched: int = 0  # how many tasks


class Page(NamedTuple):
    """Some tasks, the newest first, and what to give as `after=` to see those behind them; None behind the last."""

    tasks: tuple[Task, ...]
    next: str | None


QueueStats = dict[str, Any]
