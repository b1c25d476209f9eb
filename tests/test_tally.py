"""Counts of each minute: nothing is counted twice, and percentiles are right to a tenth."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.contract.vocabulary import NOW
from tq.models import ClaimedTask, to_failed, to_released, to_retry, to_success
from tq.tally import MINUTE, Tally, minutes

TASK = ClaimedTask("t", "email", "{}", 1, 1, 0, 3, None, NOW, 0, NOW + 2.0)


def test_each_end_is_counted_in_its_minute():
    tally = Tally()
    tally.ended(TASK, to_success(TASK, "1", NOW), 0.5, NOW)
    tally.ended(TASK, to_retry(TASK, "no", NOW + 9), 0.5, NOW)
    tally.ended(TASK, to_failed(TASK, "no", NOW), 0.5, NOW + MINUTE)
    tally.ended(TASK, to_released(TASK), 0.5, NOW)
    first, second = minutes(tally.taken())
    assert (first.succeeded, first.retried, first.failed) == (1, 1, 0)
    assert (second.succeeded, second.retried, second.failed) == (0, 0, 1)
    assert second.at - first.at == MINUTE
    assert first.wait_p50 == pytest.approx(2.0, rel=0.1) and first.run_p95 == pytest.approx(0.5, rel=0.1)


def test_what_was_taken_is_gone():
    tally = Tally()
    tally.ended(TASK, to_success(TASK, "1", NOW), 0.5, NOW)
    assert len(tally.taken()) == 3
    assert tally.taken() == []


@given(st.lists(st.floats(0.002, 10_000), min_size=1, max_size=50))
def test_percentiles_are_right_to_a_tenth(spans: list[float]):
    tally = Tally()
    for seconds in spans:
        tally.ended(TASK, to_success(TASK, "1", NOW), seconds, NOW)
    [minute] = minutes(tally.taken())
    ordered = sorted(spans)
    exact = ordered[max(0, -(-len(spans) * 95 // 100) - 1)]
    assert minute.run_p95 == pytest.approx(exact, rel=0.1)


def test_a_minute_in_which_nothing_ended_has_no_spans():
    [minute] = minutes([(5, "email", "added", 3)])
    assert (minute.added, minute.wait_p50, minute.run_p95) == (3, None, None)


def test_the_mark_of_what_was_counted_is_no_type():
    assert minutes([(5, "", "counted", 1)]) == []
