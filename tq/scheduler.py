"""The rules that need no I/O: what may run and when, how a task is made, and what an outcome turns it into."""

from __future__ import annotations

import logging
import math
import random
from collections.abc import Callable, Iterable
from datetime import datetime, timedelta
from typing import Any, TypedDict

from typing_extensions import assert_never

from tq import models
from tq.clock import Clock
from tq.errors import InvalidOption, shown
from tq.ids import IdFactory
from tq.models import (
    MAX_CRASHES,
    Cancelled,
    ClaimedTask,
    Crashed,
    Failed,
    Outcome,
    Released,
    Retry,
    Succeeded,
    TaskSpec,
    TaskType,
    Transition,
    Want,
)
from tq.retry import Backoff, is_number

log = logging.getLogger("tq")

RunAfter = datetime | timedelta | float | int | None

_AHEAD_SECONDS = 0.05  # how much work may lie claimed but not started
_CONFIGURING_SECONDS = 0.02  # a chain of set_* is one thought: nothing starts in the middle of it


class AddOptions(TypedDict, total=False):
    """What `add` and `submit` take beside the input."""

    run_after: RunAfter
    priority: int
    key: str
    max_attempts: int
    timeout: float


class Scheduler:
    def __init__(
        self,
        clock: Clock,
        ids: IdFactory,
        type_of: Callable[[str], TaskType],
        uniform: Callable[[float, float], float] = random.uniform,
    ) -> None:
        self._clock = clock
        self._ids = ids
        self._type_of = type_of
        self._uniform = uniform

    # --- making tasks --------------------------------------------------------------------------------------------

    def spec(self, type_: str, input_: str, options: AddOptions | None = None) -> TaskSpec:
        now = self._clock.now()
        spec = TaskSpec(self._ids.new(), type_, input_, now)
        return spec._replace(**_checked(options, now)) if options else spec

    # --- what an outcome turns a task into -----------------------------------------------------------------------

    def decide(self, task: ClaimedTask, outcome: Outcome) -> Transition:
        now = self._clock.now()
        match outcome:
            case Succeeded(output):
                return models.to_success(task, output, now)
            case Released():
                return models.to_released(task)
            case Failed(error):
                return models.to_failed(task, error, now)
            case Cancelled(reason):
                return models.to_cancelled(task, reason, now)
            case Retry(error, delay):
                return self._retry(task, error, delay, now)
            case Crashed(error):
                return self._crash(task._replace(crashes=task.crashes + 1), error, now)
            case _:
                assert_never(outcome)

    def _retry(self, task: ClaimedTask, error: str, delay: float | None, now: float) -> Transition:
        if task.attempts >= task.max_attempts:
            return models.to_failed(task, error, now)
        return models.to_retry(task, error, now + (self.retry_delay(task) if delay is None else delay))

    def _crash(self, task: ClaimedTask, error: str, now: float) -> Transition:
        if task.crashes >= MAX_CRASHES:
            return models.to_failed(task, f"{error}; set aside after {task.crashes} crashes", now)
        return self._retry(task, error, None, now)

    def retry_delay(self, task: ClaimedTask) -> float:
        backoff = self._type_of(task.type).backoff
        if isinstance(backoff, Backoff):
            return backoff.delay(task.attempts, self._uniform)
        return _delay_of(backoff, task.attempts)

    # --- what a worker may take ----------------------------------------------------------------------------------

    def want(self, kind: TaskType, in_flight: int, ahead: int) -> Want | None:
        """How many more tasks of a type a worker should claim; None for as long as it has enough."""
        room = kind.worker_count + ahead - in_flight
        # Claims come in batches: not for each task that ends, unless that leaves a handler without work.
        enough = room <= ahead // 2 if ahead else room <= 0
        if enough or self.configuring([kind]):
            return None
        return Want(kind.name, room, kind.max_attempts, kind.rate_limit, kind.global_limit)

    def configuring(self, kinds: Iterable[TaskType]) -> float:
        """For how many seconds more one of these types counts as being configured."""
        newest = max((kind.changed_at for kind in kinds), default=0.0)
        return max(0.0, newest + _CONFIGURING_SECONDS - self._clock.monotonic())

    @staticmethod
    def ahead(kind: TaskType, mean_seconds: float | None, batch_size: int) -> int:
        """How many tasks to claim beyond the free handlers. Long handlers, and shared limits, allow none."""
        if mean_seconds is None or kind.rate_limit is not None or kind.global_limit is not None:
            return 0
        return min(batch_size, int(kind.worker_count * _AHEAD_SECONDS / max(mean_seconds, 1e-6)))


def _delay_of(rule: Callable[[int], float], attempts: int) -> float:
    """A delay by the program's own rule. A broken rule must not cost the task its retry, nor the worker its life."""
    try:
        delay = float(rule(attempts))
        if math.isfinite(delay):
            return max(0.0, delay)
        log.warning("the rule of set_backoff() answered %r for attempt %d; waiting as by default", delay, attempts)
    except BaseException:
        log.warning("the rule of set_backoff() is broken; waiting as by default", exc_info=True)
    return Backoff().delay(attempts, lambda low, high: (low + high) / 2)


# --- options of add() --------------------------------------------------------------------------------------------


def _checked(options: AddOptions, now: float) -> dict[str, Any]:
    unknown = set(options) - set(_CHECKS)
    if unknown:
        raise InvalidOption(f"add() has no option {min(unknown)!r}; it knows {', '.join(sorted(_CHECKS))}")
    return {name: _CHECKS[name](value, now) for name, value in options.items() if value is not None}


def _run_after(value: Any, now: float) -> float | None:
    try:
        moment = _moment(value, now)
    except (TypeError, ValueError, OverflowError) as error:
        raise InvalidOption(f"run_after={shown(value)}: give a datetime, a timedelta or a Unix timestamp") from error
    return moment if moment > now else None


def _moment(value: Any, now: float) -> float:
    match value:
        case timedelta():
            return now + value.total_seconds()
        case datetime():
            return value.timestamp()
        case int() | float() if is_number(value):
            return float(value)
    raise TypeError("not a moment")


def _priority(value: Any, _: float) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or not -(2**31) <= value < 2**31:
        raise InvalidOption(f"priority={shown(value)}: give a whole number; higher runs first, the default is 0")
    return value


def _key(value: Any, _: float) -> str:
    if not isinstance(value, str) or not 0 < len(value) <= 255 or not value.isprintable():
        raise InvalidOption(f"key={shown(value)}: give a text of 1 to 255 printable characters")
    return value


def _max_attempts(value: Any, _: float) -> int:
    return whole_number("max_attempts", value)


def _timeout(value: Any, _: float) -> float:
    return positive_number("timeout", value)


_CHECKS: dict[str, Callable[[Any, float], Any]] = {
    "run_after": _run_after,
    "priority": _priority,
    "key": _key,
    "max_attempts": _max_attempts,
    "timeout": _timeout,
}


def whole_number(name: str, value: Any) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or not 1 <= value < 2**31:
        raise InvalidOption(f"{name}={shown(value)}: give a whole number from 1 up")
    return value


def positive_number(name: str, value: Any) -> float:
    if not is_number(value) or value <= 0:
        raise InvalidOption(f"{name}={shown(value)}: give a finite number above 0")
    return float(value)


def patience(name: str, value: Any) -> float:
    """A time to wait: a number of seconds from 0 up."""
    if not is_number(value) or value < 0:
        raise InvalidOption(f"{name}(timeout={shown(value)}): give a number of seconds, from 0 up")
    return float(value)
