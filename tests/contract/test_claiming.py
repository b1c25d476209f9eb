"""Claiming: which tasks, in which order, and never before their time."""

from __future__ import annotations

import threading

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.contract.vocabulary import NOW, Database, add, claim, exchange, ids, numbered, settle, spec, task_id
from tq.models import Released, Retry, Want
from tq.storage.store import Store


def test_a_claimed_task_tells_all_that_a_worker_needs(store: Store):
    add(store, 1, input_="[1]", priority=3, timeout=2.5)
    (task,) = claim(store, now=NOW + 5, max_attempts=4)
    assert (task.id, task.type, task.input, task.priority, task.timeout) == (task_id(1), "email", "[1]", 3, 2.5)
    assert (task.version, task.attempts, task.crashes, task.max_attempts) == (1, 1, 0, 4)
    assert (task.ready_at, task.claimed_at) == (NOW, NOW + 5)


def test_a_claim_is_seen_on_the_task(store: Store):
    add(store, 1)
    claim(store, now=NOW + 5, worker="w7")
    task = store.get(task_id(1))
    assert task is not None
    assert (task.status, task.worker_id, task.version, task.attempts) == ("in-progress", "w7", 1, 1)
    assert (task.last_attempt_at, task.updated_at) == (NOW + 5, NOW + 5)


def test_the_limit_of_the_task_goes_before_the_limit_of_its_type(store: Store):
    add(store, 1, max_attempts=9)
    add(store, 2)
    assert [task.max_attempts for task in claim(store, max_attempts=4)] == [9, 4]


# --- order ---------------------------------------------------------------------------------------------------------


def test_the_oldest_goes_first_within_a_batch(store: Store):
    add(store, *range(200))
    assert ids(claim(store, 200)) == numbered(*range(200))


def test_the_oldest_goes_first_over_batches(store: Store):
    add(store, 5, 3, 9)
    add(store, 4, 1)
    assert [ids(claim(store, room)) for room in (2, 1, 2)] == [numbered(1, 3), numbered(4), numbered(5, 9)]


def test_a_higher_priority_goes_first(store: Store):
    store.add([spec(1), spec(2, priority=-1), spec(3, priority=10), spec(4, priority=10), spec(5, priority=2**31 - 1)])
    assert ids(claim(store, 3)) == numbered(5, 3, 4)
    assert ids(claim(store, 3)) == numbered(1, 2)


def test_any_mixture_is_claimed_by_priority_and_age(store: Store):
    numbers = iter(range(1_000_000))

    @given(st.lists(st.integers(-3, 3), max_size=30), st.integers(1, 7))
    def in_order(priorities: list[int], room: int) -> None:
        tasks = [spec(next(numbers), priority=priority) for priority in priorities]
        store.add(tasks)
        claimed = []
        while batch := claim(store, room):
            claimed += ids(batch)
        assert claimed == [task.id for task in sorted(tasks, key=lambda task: (-task.priority, task.id))]

    in_order()


def test_a_task_that_was_given_back_keeps_its_place(store: Store):
    add(store, 1, 2, 3)
    first = claim(store, 1)[0]
    settle(store, first, Released())
    assert ids(claim(store)) == numbered(1, 2, 3)


# --- room and types ------------------------------------------------------------------------------------------------


def test_no_more_than_the_room_is_claimed(store: Store):
    add(store, *range(10))
    assert len(claim(store, 3)) == 3
    assert store.stats()["to-do"] == 7


@pytest.mark.parametrize("room", [0, -1])
def test_without_room_nothing_is_claimed(store: Store, room: int):
    add(store, 1)
    assert claim(store, room) == []


def test_only_wanted_types_are_claimed(store: Store):
    add(store, 1, type_="email")
    add(store, 2, type_="sms")
    add(store, 3, type_="fax")
    claimed = exchange(store, wants=[Want("sms", 5), Want("email", 5)]).claimed
    assert sorted(ids(claimed)) == numbered(1, 2)
    assert store.status(task_id(3)) == ("to-do", False)


def test_each_type_has_its_own_room(store: Store):
    store.add([spec(number, "email" if number % 2 else "sms") for number in range(20)])
    claimed = exchange(store, wants=[Want("sms", 2), Want("email", 3)]).claimed
    assert sorted(task.type for task in claimed) == ["email"] * 3 + ["sms"] * 2


def test_nobody_claims_what_another_has_claimed(store: Store, database: Database):
    add(store, *range(400))
    claimed: list[list[str]] = [[] for _ in range(4)]

    def work(number: int, mine: Store) -> None:
        while batch := claim(mine, 7, worker=f"w{number}"):
            claimed[number] += ids(batch)

    threads = [threading.Thread(target=work, args=(number, database.open())) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(each for batch in claimed for each in batch) == numbered(*range(400))


# --- not before their time -----------------------------------------------------------------------------------------


def test_a_scheduled_task_is_never_early_and_runs_when_due(store: Store):
    add(store, 1, run_after=NOW + 60)
    early = exchange(store, wants=[Want("email", 1)], now=NOW + 59.999)
    assert early.claimed == []
    assert early.look_again_in == pytest.approx(0.001, abs=1e-5)
    assert ids(claim(store, now=NOW + 60)) == numbered(1)


def test_a_retry_is_never_early_and_runs_when_due(store: Store):
    add(store, 1)
    settle(store, claim(store)[0], Retry("no answer"))
    early = exchange(store, wants=[Want("email", 1)], now=NOW + 9.999)
    assert early.claimed == []
    assert early.look_again_in == pytest.approx(0.001, abs=1e-5)
    (task,) = claim(store, now=NOW + 10)
    assert (task.id, task.attempts) == (task_id(1), 2)


def test_a_due_task_takes_its_place_by_priority_and_age(store: Store):
    add(store, 1, run_after=NOW + 60)
    add(store, 2)
    add(store, 3, run_after=NOW + 30, priority=1)
    assert ids(claim(store, now=NOW + 60)) == numbered(3, 1, 2)


def test_due_tasks_of_other_types_do_not_stand_in_the_way(store: Store):
    add(store, 1, type_="sms", run_after=NOW + 1)
    add(store, 2, run_after=NOW + 2)
    assert ids(claim(store, now=NOW + 3)) == numbered(2)
    assert ids(claim(store, now=NOW + 3, type_="sms")) == numbered(1)


def test_more_tasks_may_fall_due_at_once_than_a_claim_promotes(store: Store):
    add(store, *range(2500), run_after=NOW + 1)
    claimed: list[str] = []
    while True:
        answer = exchange(store, wants=[Want("email", 10_000)], now=NOW + 1)
        claimed += ids(answer.claimed)
        if answer.look_again_in is None:
            break
        assert answer.look_again_in <= 0  # there is more: look at once
    assert sorted(claimed) == numbered(*range(2500))


def test_the_next_moment_to_look_is_the_earliest(store: Store):
    add(store, 1, run_after=NOW + 60)
    add(store, 2, run_after=NOW + 30, type_="sms")
    assert exchange(store, wants=[Want("email", 1)]).look_again_in == 30


def test_with_nothing_scheduled_there_is_no_moment_to_look_again(store: Store):
    add(store, 1)
    assert exchange(store, wants=[Want("email", 5)]).look_again_in is None


@pytest.mark.parametrize("moment", [1e300, NOW + 0.000_001])
def test_any_moment_can_be_scheduled(store: Store, moment: float):
    add(store, 1, run_after=moment)
    assert claim(store) == []
    assert ids(claim(store, now=moment)) == numbered(1)
