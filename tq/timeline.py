"""The story of a task, told by its own row and the rows of its history. A clean success has no row but its own."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from tq.models import Task
from tq.views import Attempt, Event

_TOLD = {"retry": "failed, to be tried again", "failed": "failed for good", "cancelled": "cancelled"}


def timeline(task: Task, attempts: Iterable[Attempt]) -> list[Event]:
    """All that happened to a task, in the order of time."""
    events = [Event(task.created_at, "added"), *_past(attempts), *_present(task)]
    return sorted(events, key=lambda event: event.at)


def _past(attempts: Iterable[Attempt]) -> Iterator[Event]:
    for attempt in attempts:
        what = _TOLD.get(attempt.outcome, attempt.outcome)
        if attempt.started_at is None:  # nothing ran: somebody did this
            yield Event(attempt.ended_at, what, attempt.by)
            continue
        yield Event(attempt.started_at, "started", attempt.by, attempt.number)
        seconds = attempt.ended_at - attempt.started_at
        yield Event(attempt.ended_at, what, attempt.by, attempt.number, seconds, attempt.error)


def _present(task: Task) -> Iterator[Event]:
    """What only the task's own row knows: that it runs, or how it succeeded, or when it comes."""
    started = task.last_attempt_at
    if task.status in ("in-progress", "success") and started is not None:
        yield Event(started, "started", task.worker_id, task.attempts)
    if task.status == "success" and task.completed_at is not None and started is not None:
        yield Event(task.completed_at, "succeeded", task.worker_id, task.attempts, task.completed_at - started)
    if task.status == "in-progress" and task.cancelled_by is not None:
        yield Event(task.updated_at, "asked to stop", task.cancelled_by, task.attempts)
    if task.run_after is not None:
        yield Event(task.run_after, "due")
