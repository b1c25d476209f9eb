"""The executor: one attempt becomes one outcome, whatever the handler does. It never raises."""

from __future__ import annotations

import asyncio
import sys
from dataclasses import dataclass
from functools import partial
from typing import Any

import pytest

from tq.errors import NotInTask, PayloadError, PermanentError, RetryAfter, TaskInterrupted, TaskTimeout
from tq.executor import Executor, TaskContext, current_task, describe
from tq.models import ClaimedTask, Failed, Outcome, Retry, Succeeded, TaskType
from tq.payload import MAX_ERROR_CHARACTERS


def task(input_: str = "{}") -> ClaimedTask:
    return ClaimedTask("an-id", "email", input_, 1, 2, 0, 5, None, 0.0, 0, 0.0)


def run(handler: Any, input_: str = "{}", stopping: bool = False, **options: Any) -> Outcome:
    return Executor().run(TaskType("email", handler=handler, **options), task(input_), lambda: stopping)


def run_async(handler: Any, input_: str = "{}", **options: Any) -> Outcome:
    kind = TaskType("email", handler=handler, is_async=True, **options)
    return asyncio.run(Executor().run_async(kind, task(input_), lambda: False))


def raising(error: BaseException | type[BaseException]) -> Any:
    def handler(_: Any) -> None:
        raise error

    return handler


def raising_async(error: BaseException | type[BaseException]) -> Any:
    async def handler(_: Any) -> None:
        raise error

    return handler


both = pytest.mark.parametrize(("runs", "raises"), [(run, raising), (run_async, raising_async)], ids=["sync", "async"])


# --- success -------------------------------------------------------------------------------------------------------


def test_what_a_handler_returns_is_the_output():
    assert run(lambda message: {"got": message}, '{"a":1}') == Succeeded('{"got":{"a":1}}')
    assert run(lambda message: None) == Succeeded("null")


def test_what_a_coroutine_returns_is_the_output():
    async def handler(message: Any) -> Any:
        await asyncio.sleep(0)
        return [message]

    assert run_async(handler, "7") == Succeeded("[7]")


def test_a_function_that_hands_back_a_coroutine_is_awaited():
    async def work(message: Any) -> Any:
        await asyncio.sleep(0)
        return message

    assert run(lambda message: work(message), "7") == Succeeded("7")
    assert run(partial(work), "7") == Succeeded("7")


@dataclass
class Mail:
    to: str


def test_a_typed_handler_gets_its_type():
    assert run(lambda mail: type(mail).__name__ + mail.to, '{"to":"a"}', payload=Mail) == Succeeded('"Maila"')


def test_an_input_of_the_wrong_type_fails_at_once():
    outcome = run(lambda mail: None, '{"too":"a"}', payload=Mail)
    assert isinstance(outcome, Failed) and "PayloadError" in outcome.error


def test_an_input_that_is_not_json_is_an_outcome_too():
    assert isinstance(run(lambda message: None, "{broken"), Retry)


@pytest.mark.parametrize(
    "value", [object(), float("nan"), "\0", {1: 2}, "x" * 2_000_000, b"bytes"], ids=lambda v: str(type(v))
)
def test_a_result_that_is_not_json_fails_and_is_not_repeated(value: Any):
    outcome = run(lambda message: value)
    assert isinstance(outcome, Failed) and "the handler's result" in outcome.error


# --- failure -------------------------------------------------------------------------------------------------------


@both
def test_an_error_is_retried_and_told_with_its_traceback(runs: Any, raises: Any):
    outcome = runs(raises(ValueError("no such mailbox")))
    assert isinstance(outcome, Retry)
    assert (outcome.error, outcome.delay) == ("ValueError: no such mailbox", None)
    assert outcome.details is not None
    assert "in handler" in outcome.details and "tq/executor.py" not in outcome.details


@both
def test_a_permanent_error_fails_at_once(runs: Any, raises: Any):
    outcome = runs(raises(PermanentError("gone")))
    assert isinstance(outcome, Failed) and outcome.error == "PermanentError: gone"
    assert isinstance(runs(raises(PayloadError("broken"))), Failed)


@both
def test_errors_that_the_type_does_not_retry_fail_at_once(runs: Any, raises: Any):
    assert isinstance(runs(raises(KeyError("a")), no_retry=(ValueError, LookupError)), Failed)
    assert isinstance(runs(raises(TypeError("a")), no_retry=(ValueError, LookupError)), Retry)


@both
def test_retry_after_picks_its_own_delay(runs: Any, raises: Any):
    outcome = runs(raises(RetryAfter(60, "slow down")))
    assert isinstance(outcome, Retry)
    assert (outcome.error, outcome.delay) == ("RetryAfter: slow down", 60.0)
    assert runs(raises(RetryAfter(0))).delay == 0.0


class NoSeconds(RetryAfter):
    def __init__(self) -> None:
        Exception.__init__(self, "forgot to say when")


class Angry:
    def __float__(self) -> float:
        raise RuntimeError("no")


@pytest.mark.parametrize(
    ("error", "delay"),
    [
        (RetryAfter(-5), 0.0),
        (RetryAfter(float("nan"), "x"), None),
        (RetryAfter(float("inf"), "x"), None),
        (RetryAfter(10**400, "x"), None),
        (RetryAfter("soon", "x"), None),  # type: ignore[arg-type]
        (RetryAfter(None, "x"), None),  # type: ignore[arg-type]
        (RetryAfter(Angry(), "x"), None),  # type: ignore[arg-type]
        (NoSeconds(), None),
    ],
    ids=["negative", "nan", "inf", "huge", "text", "none", "angry", "missing"],
)
def test_a_delay_that_makes_no_sense_is_that_of_the_type(error: RetryAfter, delay: float | None):
    outcome = run(raising(error))
    assert isinstance(outcome, Retry)
    assert outcome.delay == delay


@both
@pytest.mark.parametrize(
    "error",
    [
        SystemExit(1),
        KeyboardInterrupt(),
        GeneratorExit(),
        BaseException("odd"),
        asyncio.CancelledError(),
        StopIteration(),
    ],
    ids=lambda error: type(error).__name__,
)
def test_no_exception_leaves_a_handler(runs: Any, raises: Any, error: BaseException):
    outcome = runs(raises(error))
    assert isinstance(outcome, Retry)


def test_sys_exit_is_an_outcome():
    outcome = run(lambda message: sys.exit("done"))
    assert isinstance(outcome, Retry) and outcome.error == "SystemExit: done"


@both
@pytest.mark.parametrize("strike", [TaskTimeout, TaskInterrupted])
def test_a_strike_is_retried_and_says_why(runs: Any, raises: Any, strike: type[BaseException]):
    outcome = runs(raises(strike("timed out after 5 s")))
    assert isinstance(outcome, Retry) and outcome.error == "timed out after 5 s"
    assert runs(raises(strike)).error == strike.__name__


def test_endless_recursion_is_an_outcome():
    def forever(message: Any) -> Any:
        return forever(message)

    outcome = run(forever)
    assert isinstance(outcome, Retry) and "RecursionError" in outcome.error


# --- exceptions that do not want to be told ------------------------------------------------------------------------


class Unprintable(Exception):
    def __str__(self) -> str:
        raise RuntimeError("no")

    __repr__ = __str__


class Deadly(Exception):
    def __str__(self) -> str:
        raise SystemExit

    __repr__ = __str__


class NotText(Exception):
    def __str__(self) -> Any:
        return 7  # noqa: PLE0307


class UnprintableTimeout(TaskTimeout):
    def __str__(self) -> str:
        raise RuntimeError("no")

    __repr__ = __str__


class Tricky(str):
    def __format__(self, spec: str) -> str:
        raise RuntimeError("no")

    __str__ = __format__  # type: ignore[assignment]


class SpeaksTricky(Exception):
    def __str__(self) -> str:
        return Tricky("tricky")


@both
@pytest.mark.parametrize(
    "error", [Unprintable, Deadly, NotText, UnprintableTimeout, SpeaksTricky], ids=lambda e: e.__name__
)
def test_an_exception_that_cannot_be_shown_is_an_outcome(runs: Any, raises: Any, error: type[BaseException]):
    outcome = runs(raises(error))
    assert isinstance(outcome, Retry)
    assert error.__name__ in outcome.error or "cannot be shown" in outcome.error


@both
@pytest.mark.parametrize("kind", [ValueError, PermanentError, TaskTimeout, RetryAfter], ids=lambda kind: kind.__name__)
@pytest.mark.parametrize(
    "text", ["nul \0 inside", "half \ud800 a pair", "long " * 100_000], ids=["nul", "surrogate", "long"]
)
def test_whatever_an_error_says_can_be_stored(runs: Any, raises: Any, kind: Any, text: str):
    outcome = runs(raises(RetryAfter(1, text) if kind is RetryAfter else kind(text)))
    for told in (outcome.error, outcome.details):
        assert "\0" not in told
        assert len(told.encode()) < 2 * MAX_ERROR_CHARACTERS


def test_an_error_without_words_is_told_by_its_name():
    assert describe(ValueError())[0] == "ValueError"


# --- the current task ----------------------------------------------------------------------------------------------


def test_a_handler_may_ask_which_task_it_runs():
    def handler(message: Any) -> Any:
        now = current_task()
        return [now.id, now.type, now.attempt, now.max_attempts, now.stopping]

    assert run(handler) == Succeeded('["an-id","email",2,5,false]')
    assert run(handler, stopping=True) == Succeeded('["an-id","email",2,5,true]')


def test_a_coroutine_may_ask_which_task_it_runs():
    async def handler(message: Any) -> Any:
        await asyncio.sleep(0)
        return current_task().id

    assert run_async(handler) == Succeeded('"an-id"')


def test_outside_a_handler_there_is_no_task():
    import contextvars

    with pytest.raises(NotInTask, match="inside a handler only"):
        contextvars.Context().run(current_task)


def test_the_context_of_a_task_cannot_be_written():
    with pytest.raises(AttributeError):
        TaskContext(task(), lambda: False, lambda: False).id = "another"  # type: ignore[misc]
