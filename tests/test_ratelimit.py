"""The token bucket: over any window no more than its capacity and what flowed in."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tq.ratelimit import Bucket, available, capacity, full, next_token_at, refill, take

NOW = 1_700_000_000.0
rates = st.floats(0.01, 1000)


@pytest.mark.parametrize(("rate", "holds"), [(5, 5), (1, 1), (0.1, 1), (2.5, 2.5)])
def test_a_bucket_holds_a_second_and_one_token_at_least(rate: float, holds: float):
    assert capacity(rate) == holds
    assert full(rate, NOW) == Bucket(holds, NOW)


def test_tokens_flow_in_up_to_the_capacity():
    empty = Bucket(0.0, NOW)
    assert refill(empty, 4, NOW + 0.5) == Bucket(2.0, NOW + 0.5)
    assert refill(empty, 4, NOW + 100) == Bucket(4, NOW + 100)


def test_ten_tenths_are_one():
    bucket = Bucket(0.0, NOW)
    for tenth in range(1, 11):
        assert available(bucket) == 0
        bucket = refill(bucket, 1, NOW + tenth / 10)
    assert available(bucket) == 1


def test_a_moment_out_of_order_changes_nothing():
    bucket = Bucket(1.5, NOW)
    assert refill(bucket, 5, NOW - 1) == bucket


def test_after_the_clock_was_set_back_time_counts_from_there():
    bucket = refill(Bucket(1.5, NOW), 5, NOW - 3600)
    assert bucket == Bucket(1.5, NOW - 3600)


def test_a_lower_rate_lowers_what_the_bucket_holds():
    assert refill(Bucket(100, NOW), 3, NOW).tokens == 3
    assert refill(Bucket(100, NOW), 3, NOW - 1).tokens == 3


@given(
    rates,
    st.lists(st.tuples(st.floats(0, 3), st.integers(0, 2000)), max_size=60),
)
def test_over_any_window_no_more_than_the_capacity_and_what_flowed_in(rate: float, steps: list[tuple[float, int]]):
    bucket, moment = full(rate, NOW), NOW
    taken: list[tuple[float, int]] = []
    for seconds, wanted in steps:
        moment += seconds
        bucket = refill(bucket, rate, moment)
        count = min(wanted, available(bucket))
        bucket = take(bucket, count)
        taken.append((moment, count))
    for first in range(len(taken)):
        total = 0
        for last in range(first, len(taken)):
            total += taken[last][1]
            window = taken[last][0] - taken[first][0]
            assert total <= capacity(rate) + rate * window + 1e-3


@given(rates, st.lists(st.floats(-0.5, 1), max_size=60))
def test_moments_out_of_order_bring_no_more(rate: float, steps: list[float]):
    bucket, latest, total = full(rate, NOW), NOW, 0
    for step in steps:
        moment = latest + step
        bucket = refill(bucket, rate, moment)
        total += available(bucket)
        bucket = take(bucket, available(bucket))
        latest = max(latest, moment)
    assert total <= capacity(rate) + rate * (latest - NOW) + 1e-3


@given(rates, st.floats(0, 1))
def test_the_next_token_comes_when_it_was_announced(rate: float, tokens: float):
    bucket = Bucket(tokens, NOW)
    moment = next_token_at(bucket, rate)
    assert moment >= NOW
    assert available(refill(bucket, rate, moment + 1e-6)) >= 1


def test_where_there_is_a_token_nobody_waits():
    assert next_token_at(Bucket(3.0, NOW), 5) == NOW


@pytest.mark.parametrize("rate", [5e-324, 1e-300, 1e300, 1.7e308])
def test_extreme_rates_break_nothing(rate: float):
    bucket = full(rate, NOW)
    assert available(bucket) >= 1
    empty = take(bucket, available(bucket))
    assert next_token_at(empty, rate) >= NOW
    assert not math.isnan(refill(empty, rate, NOW + 1).tokens)
