"""What the API answers, as pydantic models: the names here are a promise to those who call it."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel
from typing_extensions import TypedDict

from tq.models import Status


class Fault(BaseModel):
    code: str
    message: str
    hint: str


class Problem(BaseModel):
    """What every error looks like."""

    error: Fault


class TaskAnswer(BaseModel):
    """A task. What is `truncated` shows the begin of those values that `previews` names, as a text."""

    id: str
    type: str
    status: Status
    state: str  # the status in finer words: ready, scheduled, retrying, dead
    input: Any
    output: Any
    error: str | None
    truncated: bool
    previews: list[str]
    attempts: int
    crashes: int
    priority: int
    key: str | None
    max_attempts: int | None
    timeout: float | None
    created_at: float
    updated_at: float
    run_after: float | None
    ready_at: float | None
    last_attempt_at: float | None
    completed_at: float | None
    worker_id: str | None
    cancelled_by: str | None
    version: int


class EventAnswer(BaseModel):
    at: float
    what: str
    by: str | None
    attempt: int | None
    seconds: float | None
    error: str | None


class TaskStory(TaskAnswer):
    timeline: list[EventAnswer]


class PageAnswer(BaseModel):
    """A page of tasks. It may have fewer than were asked for, and yet a next one, which `after=` gives."""

    tasks: list[TaskAnswer]
    next: str | None


class Added(BaseModel):
    """The ids in the order of the tasks; of a task whose key was there already, the id of the one that holds it."""

    ids: list[str]


class Counted(BaseModel):
    count: int
    dry_run: bool


class ExplanationAnswer(BaseModel):
    reason: str
    sentence: str
    advice: str | None
    until: float | None


class Paused(BaseModel):
    paused: bool
    types: list[str]


class RateLimitAnswer(BaseModel):
    type: str
    per_second: float | None


class TypeAnswer(BaseModel):
    """A type. `settings` hold for it; `overridden` names those that were set for all processes."""

    name: str
    counts: dict[str, int]
    capped: bool
    next_since: float | None
    paused: bool
    settings: dict[str, Any]
    overridden: list[str]
    workers: int


class TypesAnswer(BaseModel):
    types: list[TypeAnswer]


class RunningAnswer(BaseModel):
    id: str
    type: str
    since: float
    attempt: int


class WorkerAnswer(BaseModel):
    id: str
    name: str
    host: str
    pid: int
    started_at: float
    alive: bool
    overdue: int
    types: dict[str, dict[str, Any]]
    tasks: list[RunningAnswer]


class WorkersAnswer(BaseModel):
    workers: list[WorkerAnswer]


class ActionAnswer(BaseModel):
    id: str
    at: float
    actor: str
    name: str
    target: str
    touched: int


class ActionsAnswer(BaseModel):
    actions: list[ActionAnswer]
    next: str | None


class MinuteAnswer(BaseModel):
    at: int
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


class MinutesAnswer(BaseModel):
    minutes: list[MinuteAnswer]


class Health(BaseModel):
    status: str


Stats = TypedDict(
    "Stats",
    {
        "to-do": int,
        "in-progress": int,
        "success": int,
        "failed": int,
        "cancelled": int,
        "byType": dict[str, dict[str, int]],
        "paused": bool,
        "pausedTypes": list[str],
        "overdue": int,
    },
)
