"""Backoff: it doubles, it is capped, it is jittered, and no number breaks it."""

from __future__ import annotations

import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tq.errors import InvalidOption
from tq.retry import SIX_HOURS, Backoff


def exact(low: float, high: float) -> float:
    return (low + high) / 2


def test_the_delay_doubles_from_ten_seconds_up_to_six_hours():
    delays = [Backoff().delay(attempts, exact) for attempts in range(1, 15)]
    assert delays[:5] == [10, 20, 40, 80, 160]
    assert delays[10:] == [10240, 20480, SIX_HOURS, SIX_HOURS]


def test_base_factor_and_cap_are_what_was_asked_for():
    backoff = Backoff(base=1, factor=3, cap=20, jitter=0)
    assert [backoff.delay(attempts, exact) for attempts in (1, 2, 3, 4)] == [1, 3, 9, 20]


def test_the_jitter_is_a_share_of_the_delay():
    asked: list[tuple[float, float]] = []

    def lowest(low: float, high: float) -> float:
        asked.append((low, high))
        return low

    assert Backoff().delay(1, lowest) == 8
    assert asked == [(0.8, 1.2)]


@pytest.mark.parametrize("attempts", [0, -5])
def test_before_the_first_attempt_the_delay_is_that_of_the_first(attempts: int):
    assert Backoff().delay(attempts, exact) == 10


@pytest.mark.parametrize("attempts", [1_000, 2**31 - 1])
def test_many_attempts_end_at_the_cap_at_once(attempts: int):
    assert Backoff().delay(attempts, exact) == SIX_HOURS
    assert Backoff(base=3, factor=10).delay(attempts, exact) == SIX_HOURS  # whole numbers too


def test_no_base_is_no_delay_after_any_number_of_attempts():
    assert [Backoff(base=0).delay(attempts, exact) for attempts in (1, 10, 5000)] == [0, 0, 0]


@given(
    st.floats(0, 1e300),
    st.floats(0, 1e300),
    st.floats(0, 1e300),
    st.floats(0, 1),
    st.integers(-5, 2**31),
    st.floats(0, 1),
)
def test_any_delay_is_finite_and_within_its_cap(
    base: float, factor: float, cap: float, jitter: float, attempts: int, chance: float
):
    delay = Backoff(base, factor, cap, jitter).delay(attempts, lambda low, high: low + (high - low) * chance)
    assert math.isfinite(delay)
    assert 0 <= delay <= cap * (1 + jitter) * (1 + 1e-9)


def short(value: Any) -> str:
    return f"an int of {value.bit_length()} bits" if type(value) is int and value > 10**100 else repr(value)


@pytest.mark.parametrize("name", ["base", "factor", "cap", "jitter"])
@pytest.mark.parametrize(
    "value", [-1, -0.001, math.nan, math.inf, -math.inf, True, "10", None, 10**400, 10**5000], ids=short
)
def test_numbers_that_make_no_sense_are_refused(name: str, value: Any):
    with pytest.raises(InvalidOption, match=name):
        Backoff(**{name: value})


def test_a_jitter_above_one_is_refused():
    Backoff(jitter=1)
    with pytest.raises(InvalidOption, match="jitter"):
        Backoff(jitter=1.01)
