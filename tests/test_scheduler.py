"""The scheduler's rules: what an outcome makes of a task, how much a worker takes, and which options `add` knows."""

from __future__ import annotations

import math
from datetime import date, datetime, timedelta, timezone
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.contract.vocabulary import NOW, FixedClock
from tq.errors import InvalidOption
from tq.ids import IdFactory, is_id
from tq.models import (
    MAX_CRASHES,
    Cancelled,
    ClaimedTask,
    Crashed,
    Failed,
    Released,
    Retry,
    Succeeded,
    TaskType,
    Transition,
    Want,
)
from tq.retry import Backoff
from tq.scheduler import Scheduler, positive_number, whole_number


def scheduler(clock: FixedClock | None = None, **options: Any) -> Scheduler:
    kind = TaskType("email", **{"backoff": Backoff(jitter=0), **options})
    return Scheduler(clock or FixedClock(NOW), IdFactory(), lambda name: kind, lambda low, high: (low + high) / 2)


def claimed(attempts: int = 1, max_attempts: int = 3, crashes: int = 0) -> ClaimedTask:
    return ClaimedTask("id", "email", "{}", 1, attempts, crashes, max_attempts, None, NOW - 9, 0, NOW - 1)


# --- decide --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("task", "outcome", "transition"),
    [
        (claimed(), Succeeded("1"), Transition("success", 1, 0, "1", None, None, NOW)),
        (claimed(), Failed("no"), Transition("failed", 1, 0, None, "no", None, NOW)),
        (claimed(), Cancelled("no"), Transition("cancelled", 1, 0, None, "no", None, NOW)),
        (claimed(2), Released(), Transition("to-do", 1, 0, None, None, None, None)),
        (claimed(), Retry("no"), Transition("failed", 1, 0, None, "no", NOW + 10, None)),
        (claimed(2), Retry("no"), Transition("failed", 2, 0, None, "no", NOW + 20, None)),
        (claimed(3), Retry("no"), Transition("failed", 3, 0, None, "no", None, NOW)),
        (claimed(), Retry("no", 7.5), Transition("failed", 1, 0, None, "no", NOW + 7.5, None)),
        (claimed(), Retry("no", 0), Transition("failed", 1, 0, None, "no", NOW, None)),
        (claimed(3), Retry("no", 7.5), Transition("failed", 3, 0, None, "no", None, NOW)),
        (claimed(9, 9), Retry("no"), Transition("failed", 9, 0, None, "no", None, NOW)),
        (claimed(), Crashed("died"), Transition("failed", 1, 1, None, "died", NOW + 10, None)),
        (claimed(3), Crashed("died"), Transition("failed", 3, 1, None, "died", None, NOW)),
    ],
    ids=repr,
)
def test_an_outcome_decides_what_becomes_of_the_task(task: ClaimedTask, outcome: Any, transition: Transition):
    assert scheduler().decide(task, outcome) == transition


def test_three_crashes_set_a_task_aside_however_many_attempts_it_has():
    made = scheduler().decide(claimed(1, 99, MAX_CRASHES - 1), Crashed("died"))
    assert (made.status, made.crashes, made.completed_at, made.run_after) == ("failed", MAX_CRASHES, NOW, None)
    assert made.error == "died; set aside after 3 crashes"


def test_a_rule_of_the_program_picks_the_delay():
    made = scheduler(backoff=lambda attempts: attempts * 100).decide(claimed(2), Retry("no"))
    assert made.run_after == NOW + 200


def broken(attempts: int) -> float:
    raise RuntimeError("a rule that fails")


@pytest.mark.parametrize(
    ("rule", "delay"),
    [
        (broken, 10),
        (lambda attempts: "soon", 10),
        (lambda attempts: None, 10),
        (lambda attempts: 10**400, 10),
        (lambda attempts: -5, 0),
        (lambda attempts: math.nan, 10),
        (lambda attempts: math.inf, 10),
    ],
)
def test_a_broken_rule_does_not_cost_the_task_its_retry(rule: Any, delay: float):
    made = scheduler(backoff=rule).decide(claimed(), Retry("no"))
    assert (made.status, made.run_after, made.completed_at) == ("failed", NOW + delay, None)


# --- want and ahead ------------------------------------------------------------------------------------------------


def kind(**options: Any) -> TaskType:
    return TaskType("email", handler=print, **options)


@pytest.mark.parametrize(
    ("count", "in_flight", "ahead", "room"),
    [
        (3, 0, 0, 3),
        (3, 2, 0, 1),
        (3, 3, 0, None),
        (3, 9, 0, None),
        (1, 0, 100, 101),
        (1, 51, 100, None),
        (1, 50, 100, 51),
    ],
)
def test_a_worker_wants_what_its_handlers_can_take(count: int, in_flight: int, ahead: int, room: int | None):
    want = scheduler().want(kind(worker_count=count), in_flight, ahead)
    assert (want.room if want else None) == room


def test_a_want_carries_the_limits_of_its_type():
    want = scheduler().want(kind(max_attempts=7, rate_limit=5, global_limit=2), 0, 0)
    assert want == Want("email", 1, 7, 5, 2)


def test_nothing_is_wanted_in_the_middle_of_a_chain_of_settings():
    clock = FixedClock(100.0)
    rules = scheduler(clock)
    changing = kind(changed_at=100.0)
    assert rules.want(changing, 0, 0) is None
    assert rules.configuring([changing]) > 0
    clock.time += 1
    assert rules.want(changing, 0, 0) is not None
    assert rules.configuring([changing]) == 0
    assert rules.configuring([]) == 0


@pytest.mark.parametrize(
    ("options", "mean", "ahead"),
    [
        ({}, None, 0),
        ({}, 10.0, 0),
        ({}, 0.01, 5),
        ({"worker_count": 4}, 0.01, 20),
        ({}, 0.0, 100),
        ({"rate_limit": 5}, 0.0, 0),
        ({"global_limit": 5}, 0.0, 0),
    ],
    ids=repr,
)
def test_only_short_handlers_without_shared_limits_have_tasks_claimed_ahead(options: Any, mean: Any, ahead: int):
    assert Scheduler.ahead(kind(**options), mean, batch_size=100) == ahead


@given(st.integers(1, 1000), st.integers(0, 3000), st.floats(0, 1e9), st.integers(1, 10_000))
def test_no_more_is_wanted_than_handlers_and_batch_allow(count: int, in_flight: int, mean: float, batch: int):
    of_type = kind(worker_count=count)
    ahead = Scheduler.ahead(of_type, mean, batch)
    want = scheduler().want(of_type, in_flight, ahead)
    assert 0 <= ahead <= batch
    assert want is None or 0 < want.room <= count + batch - in_flight


# --- options of add ------------------------------------------------------------------------------------------------


def option(**options: Any) -> Any:
    """The value that one option gets on the task."""
    (name,) = options
    return getattr(scheduler().spec("email", "{}", options), name)  # type: ignore[arg-type]


def test_a_task_without_options_is_ready_now():
    spec = scheduler().spec("email", "{}")
    assert is_id(spec.id)
    assert spec[1:] == ("email", "{}", NOW, None, 0, None, None, None)
    assert scheduler().spec("email", "{}", {})[1:] == spec[1:]


UTC_MOMENT = datetime(2033, 5, 18, 3, 33, 20, tzinfo=timezone.utc)


@pytest.mark.parametrize(
    ("value", "moment"),
    [
        (None, None),
        (NOW + 60, NOW + 60),
        (int(NOW) + 60, NOW + 60),
        (timedelta(seconds=1.5), NOW + 1.5),
        (timedelta(days=1), NOW + 86400),
        (UTC_MOMENT, 2_000_000_000),
        (UTC_MOMENT.astimezone(timezone(timedelta(hours=5))), 2_000_000_000),
        (datetime.fromtimestamp(2_000_000_000), 2_000_000_000),  # naive: this machine's own time
        (1e300, 1e300),
        # What lies in the past is ready now.
        (NOW, None),
        (0, None),
        (-5, None),
        (-1e300, None),
        (timedelta(seconds=-1), None),
        (timedelta.min, None),
        (datetime(1999, 1, 1), None),
        (datetime(1, 1, 1, tzinfo=timezone.utc), None),
    ],
    ids=repr,
)
def test_run_after_takes_a_moment(value: Any, moment: float | None):
    assert option(run_after=value) == moment


@pytest.mark.parametrize(
    "value",
    [math.nan, math.inf, -math.inf, True, False, "tomorrow", date(2030, 1, 1), 10**400, 10**5000, [1], 1j, b"1"],
    ids=lambda value: type(value).__name__,
)
def test_run_after_refuses_what_is_no_moment(value: Any):
    with pytest.raises(InvalidOption, match="run_after"):
        option(run_after=value)


@pytest.mark.parametrize("value", [datetime.min, datetime.max, timedelta.max], ids=repr)
def test_the_ends_of_time_are_a_moment_or_refused(value: Any):
    try:
        moment = option(run_after=value)
    except InvalidOption:
        return
    assert moment is None or math.isfinite(moment)


@pytest.mark.parametrize(
    ("name", "values"),
    [
        ("priority", [0, 1, -1, 2**31 - 1, -(2**31)]),
        ("key", ["a", "x" * 255, "ж", "with spaces", "invoice/7"]),
        ("max_attempts", [1, 3, 2**31 - 1]),
        ("timeout", [1, 0.001, 1e308]),
    ],
)
def test_an_option_takes_what_makes_sense(name: str, values: list[Any]):
    assert [option(**{name: value}) for value in values] == values
    assert option(**{name: None}) == (0 if name == "priority" else None)


@pytest.mark.parametrize(
    ("name", "values"),
    [
        ("priority", [1.0, "1", True, 2**31, -(2**31) - 1, 10**5000, math.nan]),
        ("key", ["", "x" * 256, "a\0b", "line\n", "\ud800", 7, b"key", True]),
        ("max_attempts", [0, -1, 1.5, True, "3", 2**31, 10**5000, math.inf]),
        ("timeout", [0, -1, math.nan, math.inf, True, "30", 10**400, 10**5000]),
    ],
)
def test_an_option_refuses_what_makes_no_sense(name: str, values: list[Any]):
    for value in values:
        with pytest.raises(InvalidOption, match=name):
            option(**{name: value})


def test_an_unknown_option_is_refused_with_those_that_are_known():
    with pytest.raises(InvalidOption, match=r"no option 'delay'.*key, max_attempts, priority, run_after, timeout"):
        option(delay=5)


def test_numbers_are_told_by_their_names():
    assert whole_number("batch_size", 5) == 5
    assert positive_number("poll_interval", 2) == 2.0
    with pytest.raises(InvalidOption, match="poll_interval"):
        positive_number("poll_interval", 10**400)
