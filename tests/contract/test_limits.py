"""Limits that all workers of a database share: tokens for each second, and how many may run at once."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.contract.vocabulary import (
    NOW,
    Database,
    add,
    claim,
    decide_at,
    enlist,
    exchange,
    ids,
    numbered,
    settle,
    settlement,
)
from tq.models import Released, Retry, Succeeded, Want
from tq.storage.store import Store

# --- tokens --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("rate", "at_once"), [(5, 5), (1, 1), (0.25, 1), (2.5, 2)])
def test_a_full_bucket_holds_a_second_and_one_token_at_least(store: Store, rate: float, at_once: int):
    add(store, *range(20))
    assert len(claim(store, rate_limit=rate)) == at_once
    assert claim(store, rate_limit=rate) == []


def test_tokens_come_back_with_time(store: Store):
    add(store, *range(20))
    counts = [len(claim(store, rate_limit=5, now=NOW + moment)) for moment in (0, 0.1, 0.2, 0.5, 0.6, 10)]
    assert counts == [5, 0, 1, 1, 1, 5]


def test_the_answer_says_when_the_next_token_comes(store: Store):
    add(store, *range(20))
    answer = exchange(store, wants=[Want("email", 10, rate_limit=4)])
    assert len(answer.claimed) == 4
    assert answer.look_again_in == pytest.approx(0.25)


def test_all_workers_spend_from_one_bucket(store: Store, database: Database):
    add(store, *range(20))
    stores = [store, database.open(), database.open()]
    claimed = [claim(each, 3, worker=f"w{number}", rate_limit=5) for number, each in enumerate(stores)]
    assert [len(batch) for batch in claimed] == [3, 2, 0]


def test_each_type_has_a_bucket_of_its_own(store: Store):
    add(store, *range(10))
    add(store, *range(10, 20), type_="sms")
    wants = [Want("email", 9, rate_limit=2), Want("sms", 9, rate_limit=3)]
    assert len(exchange(store, wants=wants).claimed) == 5


def test_a_token_that_nobody_could_use_is_not_lost(store: Store):
    for moment in (0, 0.3, 0.6):
        assert claim(store, rate_limit=5, now=NOW + moment) == []
    add(store, *range(20))
    assert len(claim(store, rate_limit=5, now=NOW + 0.6)) == 5


def test_fractions_of_a_token_add_up(store: Store):
    add(store, *range(20))
    claim(store, rate_limit=1)
    counts = [len(claim(store, rate_limit=1, now=NOW + tenth / 10)) for tenth in range(1, 21)]
    assert counts == [0] * 9 + [1] + [0] * 9 + [1]


def test_tokens_are_spent_in_the_claim_or_not_at_all(store: Store):
    add(store, *range(20))
    broken = Want("sms", 1, rate_limit="five")  # type: ignore[arg-type]
    with pytest.raises(TypeError):
        exchange(store, wants=[Want("email", 3, rate_limit=5), broken])
    assert len(claim(store, rate_limit=5)) == 5


def test_a_clock_that_jumps_back_brings_no_burst_and_no_standstill(store: Store):
    add(store, *range(100))
    assert len(claim(store, rate_limit=5)) == 5
    an_hour_ago = NOW - 3600
    assert claim(store, rate_limit=5, now=an_hour_ago) == []
    assert len(claim(store, rate_limit=5, now=an_hour_ago + 1)) <= 5
    later = sum(len(claim(store, rate_limit=5, now=an_hour_ago + second)) for second in range(2, 7))
    assert 20 <= later <= 25


def test_a_lower_rate_holds_at_once(store: Store):
    add(store, *range(300))
    claim(store, 1, rate_limit=100)
    assert len(claim(store, rate_limit=3)) == 3


def test_workers_with_moments_out_of_order_get_no_more_than_the_rate(database: Database):
    store = database.open()
    add(store, *range(20_000))
    # Workers read the clock before they queue for the database, so that their moments come out of order.
    starts = iter(range(int(NOW), int(NOW) + 10_000_000, 10_000))

    @given(st.lists(st.tuples(st.floats(-0.3, 0.5), st.integers(1, 9)), min_size=1, max_size=30))
    def rate_is_kept(moves: list[tuple[float, int]]) -> None:
        earliest = latest = float(next(starts))  # far from the example before: the bucket is full again
        started = 0
        for step, room in moves:
            moment = latest + step
            started += len(claim(store, room, rate_limit=5, now=moment))
            earliest, latest = min(earliest, moment), max(latest, moment)
        assert started <= 5 + 5 * (latest - earliest) + 1e-5

    rate_is_kept()


# --- how many may run at once --------------------------------------------------------------------------------------


def test_no_more_than_the_global_limit_run_over_all_workers(store: Store, database: Database):
    add(store, *range(20))
    other = database.open()
    assert len(claim(store, 2, global_limit=3)) == 2
    assert len(claim(other, 2, worker="w2", global_limit=3)) == 1
    assert claim(store, 2, global_limit=3) == []


@pytest.mark.parametrize("outcome", [Succeeded("1"), Retry("again"), Released()], ids=lambda each: type(each).__name__)
def test_whatever_ends_makes_room(store: Store, outcome):
    add(store, *range(20))
    first = claim(store, global_limit=1)[0]
    assert claim(store, global_limit=1) == []
    assert len(exchange(store, [settlement(first, outcome)], [Want("email", 5, global_limit=1)]).claimed) == 1


def test_a_dead_worker_does_not_keep_its_places(store: Store, database: Database):
    worker, presence = enlist(store)
    add(store, 1, 2, 3)
    presence.started(claim(store, 1, worker=worker, global_limit=1)[0])
    database.kill(presence)
    assert claim(store, global_limit=1) == []
    store.recover("w2", decide_at(NOW), NOW)
    assert ids(claim(store, global_limit=1)) == numbered(2)


def test_the_limit_of_one_type_is_not_another_types(store: Store):
    add(store, 1, 2)
    add(store, 3, 4, type_="sms")
    claim(store, global_limit=1)
    assert len(claim(store, type_="sms", global_limit=1)) == 1


def test_a_lowered_limit_waits_until_enough_have_ended(store: Store):
    add(store, *range(20))
    running = claim(store, 4, global_limit=4)
    assert claim(store, global_limit=2) == []
    for task in running[:2]:
        settle(store, task, Succeeded("1"))
    assert claim(store, global_limit=2) == []
    settle(store, running[2], Succeeded("1"))
    assert len(claim(store, global_limit=2)) == 1


def test_both_limits_hold_together(store: Store):
    add(store, *range(20))
    assert len(claim(store, rate_limit=5, global_limit=3)) == 3
    assert len(claim(store, rate_limit=5, global_limit=10)) == 2


def test_a_global_limit_that_is_reached_costs_no_tokens(store: Store):
    add(store, *range(20))
    claim(store, rate_limit=2, global_limit=1)
    claim(store, rate_limit=2, global_limit=1)
    assert len(claim(store, rate_limit=2)) == 1


def test_a_worker_that_waits_for_a_place_is_not_told_to_look_again_at_once(store: Store):
    """Tokens are there, places are not: looking again would find the same, as fast as the machine can."""
    add(store, *range(20))
    claim(store, rate_limit=5, global_limit=2)
    assert exchange(store, wants=[Want("email", 3, rate_limit=5, global_limit=2)]).look_again_in is None
