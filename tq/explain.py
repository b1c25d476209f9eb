"""Why a task is not running: one sentence, from all that decides about it at one moment. Pure; the store looks."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime, timezone
from typing import Any

from tq import ratelimit
from tq.models import EVERY_TYPE, Task
from tq.views import Explanation, RunningTask, Situation, WorkerView

_SHOWN_TASKS = 3
_MOMENT_SECONDS = 1.0  # so long a thing may be under way before it is worth another word


def explain(situation: Situation) -> Explanation:
    """The first of all reasons that keeps the task from running."""
    task = situation.task
    if task.completed_at is not None:
        return _ended(task)
    if task.status == "in-progress":
        return _running(situation)
    if task.run_after is not None and task.run_after > situation.now:
        return _waiting(task, situation.now)
    return next(_obstacles(situation), None) or _next(situation)


# --- what it has become ------------------------------------------------------------------------------------------


def _ended(task: Task) -> Explanation:
    match task.status:
        case "success":
            return Explanation("success", f"It succeeded, in attempt {task.attempts}.")
        case "cancelled":
            return Explanation("cancelled", f"It was cancelled by {task.cancelled_by or 'somebody'}.", _RETRY)
    return Explanation("dead", f"It has failed for good, after {_attempts(task.attempts)}: {task.error}", _RETRY)


_RETRY = "retry() runs it again, with all of its attempts."


def _running(situation: Situation) -> Explanation:
    task, now = situation.task, situation.now
    owner = next((worker for worker in situation.workers if worker.record.id == task.worker_id), None)
    if owner is None or not owner.alive:
        return _owner_dead(situation, owner)
    since = task.last_attempt_at or now
    where = f"in {owner.name}, attempt {task.attempts}"
    if task.cancelled_by is not None:
        said = f"{task.cancelled_by} has cancelled it; its worker, {owner.name}, is stopping it."
        return Explanation("cancelling", said, "Code that never comes back to Python cannot be stopped.")
    return Explanation("running", f"It runs, {where}, for {_span(now - since)} now.")


def _owner_dead(situation: Situation, owner: WorkerView | None) -> Explanation:
    name = owner.name if owner else "a worker that has gone"
    said = f"Its worker, {name}, shows no sign of life."
    if any(worker.alive for worker in situation.workers):
        return Explanation("recovering", f"{said} Another one is about to take it over.")
    return Explanation("worker-dead", f"{said} Nobody is there to take it over.", "Start a worker.")


def _waiting(task: Task, now: float) -> Explanation:
    assert task.run_after is not None
    when = f"{_clock(task.run_after)}, in {_span(task.run_after - now)}"
    if task.status == "failed":
        said = f"Attempt {task.attempts} failed ({task.error}); the next one is due at {when}."
        return Explanation("retrying", said, "retry() runs it now.", task.run_after)
    return Explanation("scheduled", f"It is scheduled for {when}.", "retry() runs it now.", task.run_after)


# --- what holds a ready task back ----------------------------------------------------------------------------------


def _obstacles(situation: Situation) -> Iterator[Explanation]:
    """Each reason there is, the one that has to go first in front."""
    type_ = situation.task.type
    if EVERY_TYPE in situation.settings.paused:
        yield Explanation("paused", "The whole queue is paused.", "resume() lets it go on.")
    if type_ in situation.settings.paused:
        yield Explanation("paused", f"Tasks of type {type_} are paused.", f'resume("{type_}") lets them go on.')
    working = [worker for worker in situation.workers if worker.alive and type_ in worker.types]
    if not working:
        yield _nobody(situation)
        return
    yield from _limits(situation, _in_force(situation, working), working)


def _nobody(situation: Situation) -> Explanation:
    type_ = situation.task.type
    living = [worker for worker in situation.workers if worker.alive]
    if not living:
        return Explanation("no-worker", "No worker is running.", "Start a program that calls set_worker().")
    others = ", ".join(sorted({name for worker in living for name in worker.types})) or "nothing"
    count = "The worker that runs works on" if len(living) == 1 else f"The {len(living)} workers that run work on"
    return Explanation(
        "no-handler",
        f"No worker has a handler for {type_}. {count} {others}.",
        f'Start a program with tq("{type_}").set_worker(…), or mend the name of the type.',
    )


def _in_force(situation: Situation, working: Sequence[WorkerView]) -> dict[str, Any]:
    type_ = situation.task.type
    return {**working[-1].types[type_], **situation.settings.types.get(type_, {})}


def _limits(situation: Situation, settings: dict[str, Any], working: Sequence[WorkerView]) -> Iterator[Explanation]:
    running = _running_of(situation, situation.workers)
    limit, rate = settings.get("global_limit"), settings.get("rate_limit")
    if limit is not None and len(running) >= limit:
        yield Explanation(
            "global-limit", f"No more than {limit} may run at once over all workers, and {_named(running)} do."
        )
    if rate is not None and situation.bucket is not None:
        yield from _rate(situation, rate)
    places = sum(_places(situation, worker) for worker in working)
    running = _running_of(situation, working)  # those of the dead take no place
    if len(running) >= places:
        what = "The only place" if places == 1 else f"All {places} places"
        are = "is" if places == 1 else "are"
        yield Explanation("busy", f"{what} for tasks of this type {are} taken, by {_named(running)}{_line(situation)}.")


def _running_of(situation: Situation, workers: Sequence[WorkerView]) -> list[RunningTask]:
    return [task for worker in workers for task in worker.tasks if task.type == situation.task.type]


def _places(situation: Situation, worker: WorkerView) -> int:
    type_ = situation.task.type
    stored = situation.settings.types.get(type_, {})
    return int(stored.get("worker_count", worker.types[type_]["worker_count"]))


def _rate(situation: Situation, rate: float) -> Iterator[Explanation]:
    assert situation.bucket is not None
    bucket = ratelimit.refill(situation.bucket, rate, situation.now)
    missing = situation.before - ratelimit.available(bucket)
    if missing >= 0:
        due = ratelimit.next_token_at(bucket, rate) + missing / rate
        turn = f"its turn comes {'after' if situation.before_capped else 'at'} {_clock(due)}"
        said = f"The rate limit of {rate:g} a second is used up; {turn}{_line(situation)}."
        yield Explanation("rate-limit", said, until=None if situation.before_capped else due)


def _next(situation: Situation) -> Explanation:
    if situation.before:
        return Explanation("queued", f"It waits for its turn{_line(situation)}.")
    task = situation.task
    waited = situation.now - (task.run_after or task.ready_at or task.created_at)
    if waited > 10 * _MOMENT_SECONDS:
        said = f"Nothing holds it back, and yet it has waited for {_span(waited)}."
        return Explanation("ready", said, "Look at the log of its workers: they say what keeps them from working.")
    return Explanation("ready", "Nothing holds it back: a worker takes it in a moment.")


# --- words ---------------------------------------------------------------------------------------------------------


def _line(situation: Situation) -> str:
    if not situation.before:
        return ""
    count = f"more than {situation.before:,}" if situation.before_capped else f"{situation.before:,}"
    return f"; {count} {'goes' if situation.before == 1 else 'go'} first"


def _named(running: Sequence[RunningTask]) -> str:
    names = ", ".join(task.id for task in running[:_SHOWN_TASKS])
    more = len(running) - _SHOWN_TASKS
    return f"{names} and {more} more" if more > 0 else names


def _attempts(count: int) -> str:
    return "1 attempt" if count == 1 else f"{count} attempts"


def _clock(moment: float) -> str:
    try:
        return datetime.fromtimestamp(moment, timezone.utc).strftime("%Y-%m-%d %H:%M:%S UTC")
    except (OverflowError, ValueError, OSError):
        return "a time after the year 9999"


def _span(seconds: float) -> str:
    """A time span as people say it.

    >>> _span(0.4), _span(90), _span(7300)
    ('less than a second', '90 s', '2 h 1 min')
    """
    whole = round(seconds)
    if whole < 1:
        return "less than a second"
    if whole < 120:
        return f"{whole} s"
    minutes, hours = whole // 60, whole // 3600
    if hours < 1:
        return f"{minutes} min"
    return f"{hours} h {minutes % 60} min" if hours < 48 else f"{hours // 24} days"
