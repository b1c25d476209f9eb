"""`tq("email")`: a task type's context, where each call returns the context so that calls chain."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable
from functools import partial
from typing import Any, Generic, Protocol, TypeVar

from typing_extensions import Self, Unpack

from tq import typed
from tq.errors import InvalidOption
from tq.handle import TaskHandle
from tq.models import BackoffRule, TaskSpec, TaskType
from tq.payload import encode
from tq.retry import SIX_HOURS, Backoff
from tq.scheduler import AddOptions, positive_number, whole_number

P = TypeVar("P")
T = TypeVar("T")


class Owner(Protocol):
    """What a context needs of its queue."""

    def configure(self, name: str, **changes: Any) -> TaskType: ...

    def accept(self, specs: list[TaskSpec]) -> list[str]: ...

    def spec(self, name: str, input_: str, options: AddOptions) -> TaskSpec: ...

    def handle(self, task_id: str) -> TaskHandle: ...

    def pause(self, type: str | None = None) -> None: ...

    def resume(self, type: str | None = None) -> None: ...


class TaskTypeContext(Generic[P]):
    """One task type: what its tasks are run by, under which limits, and where they are added.

    >>> tq("email").set_worker_count(3).add({"to": "a@example.com"})
    tq('email')
    """

    def __init__(self, queue: Owner, name: str, payload: Any = None) -> None:
        self._queue = queue
        self._payload = payload
        self.name = name

    def __repr__(self) -> str:
        return f"tq({self.name!r})"

    # --- adding --------------------------------------------------------------------------------------------------

    def add(self, input: P, **options: Unpack[AddOptions]) -> Self:
        """Accept a task; when the call returns, the task is safe.

        Options: `run_after` (datetime, timedelta or Unix time), `priority` (higher first), `key` (a second task with
        the same key is not stored), `max_attempts`, `timeout`.
        """
        self._queue.accept([self._spec(input, options)])
        return self

    def add_many(self, inputs: Iterable[P], **options: Unpack[AddOptions]) -> Self:
        """Accept many tasks in one transaction: all of them or, if one is refused, none."""
        if isinstance(inputs, (str, bytes, dict)) or not isinstance(inputs, Iterable):
            raise InvalidOption(f"add_many({type(inputs).__name__}): give a list with one input for each task")
        self._queue.accept([self._spec(input_, options) for input_ in inputs])
        return self

    def submit(self, input: P, **options: Unpack[AddOptions]) -> TaskHandle:
        """Like `add`, but gives back a handle to follow the task with."""
        return self._queue.handle(self._queue.accept([self._spec(input, options)])[0])

    async def aadd(self, input: P, **options: Unpack[AddOptions]) -> Self:
        """`add` for coroutines: the event loop goes on while the task is written."""
        return await _in_thread(partial(self.add, input, **options))

    async def aadd_many(self, inputs: Iterable[P], **options: Unpack[AddOptions]) -> Self:
        """`add_many` for coroutines."""
        return await _in_thread(partial(self.add_many, inputs, **options))

    async def asubmit(self, input: P, **options: Unpack[AddOptions]) -> TaskHandle:
        """`submit` for coroutines."""
        return await _in_thread(partial(self.submit, input, **options))

    def _spec(self, input_: P, options: AddOptions) -> TaskSpec:
        value = input_ if self._payload is None else typed.to_json_value(input_, self._payload)
        return self._queue.spec(self.name, encode(value), options)

    # --- working -------------------------------------------------------------------------------------------------

    def set_worker(self, handler: Callable[[P], Any]) -> Self:
        """The function, or coroutine function, that runs tasks of this type. What it returns becomes their output."""
        _check_handler(handler)
        return self._set(handler=handler, payload=self._payload, is_async=_is_async(handler))

    def set_worker_count(self, count: int) -> Self:
        """How many tasks of this type may run at once in each process. The default is 1."""
        return self._set(worker_count=whole_number("set_worker_count", count))

    def set_global_limit(self, count: int | None) -> Self:
        """How many may run at once over all processes. None, the default, sets no limit."""
        return self._set(global_limit=None if count is None else whole_number("set_global_limit", count))

    def set_rate_limit(self, per_second: float | None) -> Self:
        """How many may start in a second, over all processes. None, the default, sets no limit."""
        return self._set(rate_limit=None if per_second is None else positive_number("set_rate_limit", per_second))

    def set_timeout(self, seconds: float) -> Self:
        """How long one attempt may take. The default is 300 seconds."""
        return self._set(timeout=positive_number("set_timeout", seconds))

    def set_max_attempts(self, count: int) -> Self:
        """How often a task is tried before it fails for good. The default is 3."""
        return self._set(max_attempts=whole_number("set_max_attempts", count))

    def set_backoff(
        self,
        rule: BackoffRule | None = None,
        *,
        base: float = 10.0,
        factor: float = 2.0,
        cap: float = SIX_HOURS,
        jitter: float = 0.2,
    ) -> Self:
        """How long to wait before a retry: `base · factor^(attempts-1)` up to `cap`, or your own `rule(attempts)`."""
        if rule is not None and not callable(rule):
            raise InvalidOption(
                f"set_backoff({rule!r}): give base=, factor=, cap= and jitter=, or a function of attempts"
            )
        numbers = Backoff(base, factor, cap, jitter)
        if rule is not None and numbers != Backoff():
            raise InvalidOption(
                "set_backoff(): give a function of attempts, or base=, factor=, cap= and jitter=, not both"
            )
        return self._set(backoff=rule or numbers)

    def set_no_retry(self, *errors: type[BaseException]) -> Self:
        """Exceptions after which a task fails at once, as it does after `PermanentError`."""
        for error in errors:
            if not (isinstance(error, type) and issubclass(error, BaseException)):
                raise InvalidOption(f"set_no_retry({error!r}): give exception classes, such as ValueError")
        return self._set(no_retry=errors)

    def _set(self, **changes: Any) -> Self:
        self._queue.configure(self.name, **changes)
        return self

    # --- steering ------------------------------------------------------------------------------------------------

    def pause(self) -> Self:
        """Start no task of this type, in any process, until `resume`."""
        self._queue.pause(self.name)
        return self

    def resume(self) -> Self:
        """End the pause of this type."""
        self._queue.resume(self.name)
        return self


async def _in_thread(call: Callable[[], T]) -> T:
    import asyncio  # whoever awaits this has loaded it; other programs save 7 MB (measured)

    return await asyncio.to_thread(call)


def _check_handler(handler: Any) -> None:
    name = getattr(handler, "__name__", repr(handler))
    if not callable(handler):
        raise InvalidOption(f"set_worker({handler!r}): give a function that takes one argument, the task's input")
    if inspect.isgeneratorfunction(handler) or inspect.isasyncgenfunction(handler):
        raise InvalidOption(f"set_worker({name}): calling a function with yield runs nothing of it; use return instead")
    try:
        inspect.signature(handler).bind(None)
    except TypeError as error:
        raise InvalidOption(
            f"set_worker({name}): a handler is called with one argument, the task's input: {error}"
        ) from error
    except ValueError:  # builtins without a signature are taken on trust
        return


def _is_async(handler: Any) -> bool:
    while isinstance(handler, partial):
        handler = handler.func
    return inspect.iscoroutinefunction(handler) or inspect.iscoroutinefunction(type(handler).__call__)
