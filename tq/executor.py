"""Runs one claimed task and says what became of it. It never raises, and never sees the store."""

from __future__ import annotations

import inspect
import math
import traceback
from collections.abc import Callable
from contextvars import ContextVar
from typing import Any

from tq import typed
from tq.errors import NotInTask, PayloadError, PermanentError, RetryAfter, TaskInterrupted, TaskTimeout
from tq.models import ClaimedTask, Failed, Outcome, Retry, Succeeded, TaskType
from tq.payload import encode, loads, storable


class TaskContext:
    """What a handler may know about the task it runs."""

    __slots__ = ("_cancelled", "_stopping", "_task")

    def __init__(self, task: ClaimedTask, stopping: Callable[[], bool], cancelled: Callable[[], bool]) -> None:
        self._task = task
        self._stopping = stopping
        self._cancelled = cancelled

    def __repr__(self) -> str:
        return f"TaskContext({self._task.id!r}, type={self._task.type!r}, attempt={self._task.attempts})"

    @property
    def id(self) -> str:
        """The task's id, the same in every attempt."""
        return self._task.id

    @property
    def type(self) -> str:
        """The task's type."""
        return self._task.type

    @property
    def attempt(self) -> int:
        """1 for the first attempt."""
        return self._task.attempts

    @property
    def max_attempts(self) -> int:
        """How often the task is tried before it fails for good."""
        return self._task.max_attempts

    @property
    def stopping(self) -> bool:
        """Whether this task was asked to stop: the worker shuts down, the task's time is up, or it was cancelled."""
        return self._stopping() or self._cancelled()

    @property
    def cancelled(self) -> bool:
        """Whether this task was cancelled: nobody wants its result any more."""
        return self._cancelled()


def _never() -> bool:
    return False


_current: ContextVar[TaskContext] = ContextVar("tq_current_task")


def current_task() -> TaskContext:
    """The task that the calling handler runs.

    >>> def send(message):
    ...     print("attempt", current_task().attempt, "of", current_task().id)
    """
    try:
        return _current.get()
    except LookupError:
        raise NotInTask("current_task() works inside a handler only: no task is running here") from None


class Executor:
    """One attempt in three steps, decode, call, encode; only the call differs between functions and coroutines."""

    def run(
        self, kind: TaskType, task: ClaimedTask, stopping: Callable[[], bool], cancelled: Callable[[], bool] = _never
    ) -> Outcome:
        before = _current.set(TaskContext(task, stopping, cancelled))
        try:
            value = _handler(kind)(_decode(kind, task))
            if inspect.isawaitable(value):  # a plain function that hands back a coroutine
                import asyncio

                value = asyncio.run(_await(value))
            return _success(value)
        except BaseException as error:
            return _failure(kind, error)
        finally:
            _current.reset(before)

    async def run_async(
        self, kind: TaskType, task: ClaimedTask, stopping: Callable[[], bool], cancelled: Callable[[], bool] = _never
    ) -> Outcome:
        _current.set(TaskContext(task, stopping, cancelled))
        try:
            return _success(await _handler(kind)(_decode(kind, task)))
        except BaseException as error:  # a SystemExit that left the coroutine would tear down the event loop
            return _failure(kind, error)


async def _await(value: Any) -> Any:
    return await value


def _handler(kind: TaskType) -> Callable[[Any], Any]:
    assert kind.handler is not None, "the worker claims only types that have a handler"
    return kind.handler


def _decode(kind: TaskType, task: ClaimedTask) -> Any:
    value = loads(task.input)
    return value if kind.payload is None else typed.from_json_value(value, kind.payload)


def _success(value: Any) -> Outcome:
    if value is None:
        return Succeeded("null")
    try:
        return Succeeded(encode(value, "the handler's result"))
    except PayloadError as error:  # the work is done: running it again would repeat its effects and end the same way
        return Failed(storable(f"PayloadError: {error}"))


def _failure(kind: TaskType, error: BaseException) -> Outcome:
    summary, details = describe(error)
    match error:
        case PermanentError() | PayloadError():
            return Failed(summary, details)
        case RetryAfter():
            return Retry(summary, _seconds(error), details)
        case TaskTimeout() | TaskInterrupted():
            return Retry(summary.partition(": ")[2] or summary, None, details)  # the reason speaks for itself
    if isinstance(error, kind.no_retry):
        return Failed(summary, details)
    return Retry(summary, None, details)


def _seconds(error: RetryAfter) -> float | None:
    """The delay a handler asked for; None, and so the type's own, where that is not a number to wait for."""
    try:
        seconds = float(error.seconds)
    except Exception:  # not a number, too large for a float, or a subclass that has forgotten it
        return None
    return max(0.0, seconds) if math.isfinite(seconds) else None


def describe(error: BaseException) -> tuple[str, str]:
    """An exception in one line, and with its traceback. Works for exceptions that refuse to be printed."""
    name = type(error).__name__
    try:
        text = "".join(str(error))  # of a subclass of str, which may do as it likes, the letters alone
    except BaseException:
        text = "(its message cannot be shown)"
    try:
        trace = error.__traceback__.tb_next if error.__traceback__ else None  # our own frame tells nothing
        details = "".join(traceback.format_exception(type(error), error, trace))
    except BaseException:
        details = ""
    return storable(f"{name}: {text}" if text else name), storable(details)
