"""What `tq("email")` promises: adding, and configuring a type."""

from __future__ import annotations

import asyncio
import functools
import threading
from collections.abc import Callable, Iterator
from datetime import date, datetime, timedelta, timezone
from typing import Any

import pytest

from tests.waiting import PATIENCE, eventually
from tq import TaskFailed, TaskHandle, TaskQueue
from tq.errors import InvalidOption, PayloadError

WRONG_NUMBERS = (0, -1, float("nan"), float("inf"), -0.5, True, "5", [1], 10**400)
NOT_WHOLE = (*WRONG_NUMBERS, 1.5, 2**31)
LATER = timedelta(days=1)


def told(value: Any) -> str:
    return repr(value)[:8]


# --- adding ------------------------------------------------------------------------------------------------------


def test_every_way_to_add_stores_the_input_as_it_is(queue: TaskQueue):
    seen: list[Any] = []
    queue("see").add(1).add_many([{"a": [1.5, None, True]}, "text"])
    handle = queue("see").submit(["ü", "日本", "😀"])
    queue("see").set_worker(seen.append)
    assert handle.wait(PATIENCE)
    assert seen == [1, {"a": [1.5, None, True]}, "text", ["ü", "日本", "😀"]]


def test_coroutines_add_without_blocking_their_loop(queue: TaskQueue):
    async def program() -> list[Any]:
        context = await queue("double").aadd(1)
        await context.aadd_many([2, 3], priority=1)
        handle = await context.asubmit(4, key="four")
        again = await context.asubmit(4, key="four")
        assert handle.id == again.id
        context.set_worker(lambda number: 2 * number)
        return [await handle.aresult(PATIENCE), await again.aresult(timeout=PATIENCE)]

    assert asyncio.run(program()) == [8, 8]
    assert queue.join(PATIENCE)
    assert queue.stats()["success"] == 4


def test_add_many_stores_all_or_none(queue: TaskQueue):
    with pytest.raises(PayloadError):
        queue("email").add_many([1, 2, object()])

    def breaks() -> Iterator[int]:
        yield 1
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        queue("email").add_many(breaks())
    with pytest.raises(InvalidOption):
        queue("email").add_many([1, 2], priority="high")  # type: ignore[arg-type]
    assert queue.stats()["to-do"] == 0
    queue("email").add_many([])
    assert queue.stats()["to-do"] == 0


def test_many_threads_add_at_once_and_nothing_is_lost(queue: TaskQueue):
    seen: list[list[int]] = []
    lock = threading.Lock()

    def handler(item: list[int]) -> None:
        with lock:
            seen.append(item)

    queue("see").set_worker(handler)
    threads = [
        threading.Thread(target=lambda me=me: [queue("see").add([me, number]) for number in range(20)])
        for me in range(8)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(PATIENCE)
    assert queue.join(PATIENCE)
    assert sorted(seen) == [[me, number] for me in range(8) for number in range(20)]
    for me in range(8):
        assert [number for who, number in seen if who == me] == list(range(20)), "in the order of their producer"


@pytest.mark.parametrize(
    "moment",
    [
        timedelta(seconds=-5),
        0,
        1.5,
        datetime(2001, 1, 1),
        datetime(2001, 1, 1, tzinfo=timezone.utc),
        None,
    ],
    ids=["timedelta", "int", "float", "naive", "aware", "None"],
)
def test_a_moment_that_has_passed_means_now(queue: TaskQueue, moment: Any):
    queue("see").set_worker(lambda input: input)
    assert queue("see").submit("now", run_after=moment).result(PATIENCE) == "now"


@pytest.mark.parametrize("zone", [timezone.utc, timezone(timedelta(hours=9))], ids=["UTC", "+9"])
def test_a_datetime_knows_its_zone(queue: TaskQueue, zone: timezone):
    moment = datetime(2999, 12, 31, 12, tzinfo=zone)
    assert queue("see").submit(None, run_after=moment).task().run_after == moment.timestamp()


def test_a_naive_datetime_is_local_time(queue: TaskQueue):
    moment = datetime(2999, 12, 31, 12)
    assert queue("see").submit(None, run_after=moment).task().run_after == moment.astimezone().timestamp()


@pytest.mark.parametrize(
    "moment", ["tomorrow", float("nan"), float("inf"), True, date(2999, 1, 1), [], 10**400], ids=told
)
def test_what_is_no_moment_is_refused(queue: TaskQueue, moment: Any):
    with pytest.raises(InvalidOption, match="give a datetime, a timedelta or a Unix timestamp"):
        queue("see").add(None, run_after=moment)
    assert queue.stats()["to-do"] == 0


@pytest.mark.parametrize(
    ("option", "value"),
    [
        *[("priority", value) for value in (1.5, "1", True, 2**31, float("nan"))],
        *[("key", value) for value in ("", 7, "a\0b", "\ud800", "x" * 256, b"k", "a\nb")],
        *[("max_attempts", value) for value in NOT_WHOLE],
        *[("timeout", value) for value in WRONG_NUMBERS],
    ],
    ids=told,
)
def test_a_wrong_option_of_add_is_refused_by_name_and_nothing_is_stored(queue: TaskQueue, option: str, value: Any):
    for call in (queue("see").add, queue("see").submit, lambda input, **options: queue("see").add_many([1], **options)):
        with pytest.raises(InvalidOption, match=f"{option}=.*: give"):
            call(None, **{option: value})
    assert queue.stats()["to-do"] == 0


def test_an_unknown_option_of_add_is_refused_with_those_there_are(queue: TaskQueue):
    with pytest.raises(InvalidOption, match="no option 'delay'; it knows key, max_attempts, priority, run_after"):
        queue("see").add(None, delay=5)  # type: ignore[call-arg]
    assert queue.stats()["to-do"] == 0


def test_an_option_that_is_none_is_not_given(queue: TaskQueue):
    options: dict[str, Any] = dict.fromkeys(["run_after", "priority", "key", "max_attempts", "timeout"])
    task = queue("see").submit(None, **options).task()
    assert (task.run_after, task.priority, task.key, task.max_attempts, task.timeout) == (None, 0, None, None, None)


def test_a_key_is_taken_once_for_each_type(queue: TaskQueue):
    first = queue("email").submit("first", key="welcome-7")
    assert queue("email").submit("second", key="welcome-7").id == first.id
    assert queue("image").submit("other", key="welcome-7").id != first.id
    queue("email").add("third", key="welcome-7").add_many(["fourth", "fifth"], key="welcome-7")
    assert first.task().input == "first"
    assert queue.stats()["byType"] == {"email": {"to-do": 1}, "image": {"to-do": 1}}


def test_a_key_stays_taken_after_its_task_has_ended(queue: TaskQueue):
    ran: list[str] = []
    queue("email").set_worker(ran.append)
    first = queue("email").submit("first", key="welcome-7")
    first.result(PATIENCE)
    assert queue("email").submit("second", key="welcome-7").result(PATIENCE) is None
    assert ran == ["first"]


def test_priority_goes_first_and_age_decides_among_equals(queue: TaskQueue):
    order: list[str] = []
    queue("see").add("low", priority=-1).add("first").add("second").add("high", priority=5).add("third")
    queue("see").set_worker(order.append)
    assert queue.join(PATIENCE)
    assert order == ["high", "first", "second", "third", "low"]


# --- handlers ----------------------------------------------------------------------------------------------------


class Double:
    def __call__(self, number: int) -> int:
        return 2 * number

    async def later(self, number: int) -> int:
        return 2 * number


class DoubleLater:
    async def __call__(self, number: int) -> int:
        return 2 * number


def multiply(factor: int, number: int) -> int:
    return factor * number


async def multiply_later(factor: int, number: int) -> int:
    return factor * number


@pytest.mark.parametrize(
    "handler",
    [
        lambda number: 2 * number,
        Double(),
        Double().__call__,
        Double().later,
        DoubleLater(),
        functools.partial(multiply, 2),
        functools.partial(multiply_later, 2),
        lambda number: multiply_later(2, number),
        lambda number, factor=2: factor * number,
    ],
    ids=[
        "lambda",
        "object",
        "method",
        "async method",
        "async object",
        "partial",
        "async partial",
        "awaitable",
        "default",
    ],
)
def test_anything_that_can_be_called_is_a_handler(queue: TaskQueue, handler: Callable[[int], Any]):
    assert queue("double").set_worker(handler).submit(4).result(PATIENCE) == 8


@pytest.mark.parametrize("handler", [None, "send", 7, lambda: None, lambda one, two: None], ids=told)
def test_what_cannot_be_called_with_one_input_is_refused(queue: TaskQueue, handler: Any):
    with pytest.raises(InvalidOption, match="set_worker"):
        queue("email").set_worker(handler)


def test_generators_are_refused(queue: TaskQueue):
    """Calling one runs nothing of it: each task would succeed, or fail, without having done any work."""

    def generator(_: None) -> Iterator[int]:
        yield 1

    async def async_generator(_: None) -> Any:
        yield 1

    for handler in (generator, async_generator):
        with pytest.raises(InvalidOption, match="yield"):
            queue("email").set_worker(handler)


def test_a_handler_can_be_replaced(queue: TaskQueue):
    queue("name").set_worker(lambda _: "old")
    assert queue("name").submit(None).result(PATIENCE) == "old"

    async def new(_: None) -> str:
        return "new"

    queue("name").set_worker(new)
    assert queue("name").submit(None).result(PATIENCE) == "new"


def test_the_decorator_takes_every_option(queue: TaskQueue):
    attempts: list[int] = []

    @queue.worker(
        "email",
        worker_count=3,
        global_limit=5,
        rate_limit=50,
        timeout=30,
        max_attempts=2,
        backoff={"base": 0, "jitter": 0},
        no_retry=(KeyError, ValueError),
    )
    def send(number: int) -> None:
        attempts.append(number)
        raise ValueError if number == 1 else ConnectionError

    assert send.__name__ == "send", "the function itself stays as it was"
    once, twice = queue("email").submit(1), queue("email").submit(2)
    assert once.wait(PATIENCE) and twice.wait(PATIENCE)
    assert sorted(attempts) == [1, 2, 2]


def test_the_decorator_takes_one_exception_and_a_function_for_backoff(queue: TaskQueue):
    @queue.worker("email", no_retry=ValueError, backoff=lambda attempts: 0)
    def send(_: None) -> None:
        raise ValueError("no such mailbox")

    handle = queue("email").submit(None)
    with pytest.raises(TaskFailed, match="no such mailbox"):
        handle.result(PATIENCE)
    assert handle.task().attempts == 1


def test_the_decorator_checks_payloads(queue: TaskQueue):
    @queue.worker("count", dict[str, int])
    def handler(input: dict[str, int]) -> int:
        return sum(input.values())

    assert queue("count", dict[str, int]).submit({"a": 1, "b": 2}).result(PATIENCE) == 3


def test_the_decorator_refuses_what_it_does_not_know(queue: TaskQueue):
    with pytest.raises(InvalidOption, match=r"worker\(\) has no option 'workers'; it knows backoff, global_limit"):
        queue.worker("email", workers=3)


def test_a_decorator_with_one_wrong_option_changes_nothing(queue: TaskQueue):
    with pytest.raises(InvalidOption, match="timeout"):

        @queue.worker("slow", worker_count=3, timeout=-1)
        def refused(_: None) -> None: ...

    assert most_at_once(queue, "slow") == 1


# --- set_*: a wrong value is refused, and nothing has changed ----------------------------------------------------


def most_at_once(queue: TaskQueue, type_: str, tasks: int = 6) -> int:
    """How many of six tasks run side by side: each waits a moment for company before it ends."""
    lock, running, most = threading.Lock(), [0], [0]

    def handler(_: int) -> None:
        with lock:
            running[0] += 1
            most[0] = max(most[0], running[0])
        threading.Event().wait(0.05)
        with lock:
            running[0] -= 1

    queue(type_).set_worker(handler).add_many(range(tasks))
    assert queue.join(PATIENCE)
    return most[0]


@pytest.mark.parametrize("value", [*NOT_WHOLE, None], ids=told)
def test_a_wrong_worker_count_is_refused(queue: TaskQueue, value: Any):
    with pytest.raises(InvalidOption, match=r"set_worker_count=.*give a whole number from 1 up"):
        queue("slow").set_worker_count(value)


@pytest.mark.parametrize("value", NOT_WHOLE, ids=told)
def test_a_wrong_global_limit_is_refused(queue: TaskQueue, value: Any):
    with pytest.raises(InvalidOption, match=r"set_global_limit=.*give a whole number from 1 up"):
        queue("slow").set_global_limit(value)


@pytest.mark.parametrize("value", WRONG_NUMBERS, ids=told)
def test_a_wrong_rate_limit_is_refused(queue: TaskQueue, value: Any):
    with pytest.raises(InvalidOption, match=r"set_rate_limit=.*give a finite number above 0"):
        queue("slow").set_rate_limit(value)


@pytest.mark.parametrize("value", [*WRONG_NUMBERS, None], ids=told)
def test_a_wrong_timeout_is_refused(queue: TaskQueue, value: Any):
    with pytest.raises(InvalidOption, match=r"set_timeout=.*give a finite number above 0"):
        queue("slow").set_timeout(value)


@pytest.mark.parametrize("value", [*NOT_WHOLE, None], ids=told)
def test_wrong_max_attempts_are_refused(queue: TaskQueue, value: Any):
    with pytest.raises(InvalidOption, match=r"set_max_attempts=.*give a whole number from 1 up"):
        queue("slow").set_max_attempts(value)


@pytest.mark.parametrize(
    "options",
    [
        *[{name: value} for name in ("base", "factor", "cap", "jitter") for value in WRONG_NUMBERS if value != 0],
        {"jitter": 1.1},
        {"rule": 5},
        {"rule": "exponential"},
    ],
    ids=lambda options: told(*options) + told(*options.values()),
)
def test_a_wrong_backoff_is_refused(queue: TaskQueue, options: dict[str, Any]):
    with pytest.raises(InvalidOption, match="set_backoff"):
        queue("slow").set_backoff(**options)


def test_a_rule_and_numbers_together_are_refused(queue: TaskQueue):
    with pytest.raises(InvalidOption, match="not both"):
        queue("slow").set_backoff(lambda attempts: 1, base=5)


@pytest.mark.parametrize("error", [ValueError("x"), "ValueError", int, None, (ValueError,)], ids=told)
def test_what_is_no_exception_class_is_refused(queue: TaskQueue, error: Any):
    with pytest.raises(InvalidOption, match="give exception classes, such as ValueError"):
        queue("slow").set_no_retry(KeyError, error)


def test_a_refused_call_changes_nothing(queue: TaskQueue):
    attempts: list[str] = []

    def handler(_: None) -> None:
        attempts.append("attempt")
        raise KeyError

    context = queue("email").set_max_attempts(2).set_backoff(base=0).set_worker_count(1).set_rate_limit(1000)
    for call in (
        lambda: context.set_max_attempts(0),
        lambda: context.set_backoff(base=-1),
        lambda: context.set_no_retry(KeyError, "no class"),  # type: ignore[arg-type]
        lambda: context.set_worker_count(0),
        lambda: context.set_rate_limit(-1),
        lambda: context.set_timeout(0),
        lambda: context.set_global_limit(0),
    ):
        with pytest.raises(InvalidOption):
            call()
    handle: TaskHandle = context.set_worker(handler).submit(None)
    assert handle.wait(PATIENCE)
    assert attempts == ["attempt", "attempt"]


def test_a_limit_can_be_taken_away_again(queue: TaskQueue):
    queue("slow").set_rate_limit(0.001).set_global_limit(1).set_worker(lambda _: None)
    queue("slow").add_many(range(5))
    eventually(lambda: queue.stats()["success"] == 1)
    queue("slow").set_rate_limit(None).set_global_limit(None)
    assert queue.join(PATIENCE)


def test_a_context_shows_its_name():
    assert repr(TaskQueue()("email")) == "tq('email')"
    assert TaskQueue()("email").name == "email"
