"""Operators: what they may change of tasks that others have added, what they find, and what is told of it."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count
from typing import Any

import pytest

from tests.contract.vocabulary import (
    DEAD_PROCESS,
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
    spec,
    task_id,
)
from tq.models import (
    EVERY_TYPE,
    STATES,
    STEERABLE,
    Action,
    Cancelled,
    Failed,
    Released,
    Retry,
    StoredSettings,
    Succeeded,
    Task,
    TaskFilter,
    Want,
)
from tq.storage import operators
from tq.storage.rows import task_of
from tq.storage.store import Store

LONG = "x" * 5000
_numbers = count(1)


def action(name: str, at: float = NOW, by: str = "ann") -> Action:
    return Action(task_id(next(_numbers)), at, by, name, "some tasks")


def cancel(store: Store, *numbers: int, at: float = NOW, by: str = "ann") -> list[str]:
    return store.operators.cancel(numbered(*numbers), action("cancel", at, by))


def retry(store: Store, *numbers: int, at: float = NOW) -> list[str]:
    return store.operators.retry(numbered(*numbers), action("retry", at))


def delete(store: Store, *numbers: int) -> list[str]:
    return store.operators.delete(numbered(*numbers), action("delete"))


def put(store: Store, type_: str, **values: str | None) -> None:
    store.operators.set(type_, values, action("override"))


def task(store: Store, number: int = 1) -> Task:
    found = store.get(task_id(number))
    assert found is not None
    return found


def one_of_each(store: Store) -> dict[str, int]:
    """One task in each state, by the word for it."""
    add(store, 1, 2, 3, 4, 5)
    running, *rest = claim(store)
    for claimed, outcome in zip(rest, (Succeeded("1"), Failed("never"), Retry("later"), Released()), strict=True):
        settle(store, claimed, outcome)
    add(store, 6, run_after=NOW + 60)
    add(store, 7)
    cancel(store, 7)
    assert running.id == task_id(1)
    return {"in-progress": 1, "success": 2, "dead": 3, "retrying": 4, "ready": 5, "scheduled": 6, "cancelled": 7}


def counts(store: Store) -> dict[str, int]:
    return {status: total for status, total in store.stats().items() if status != "byType" and total}


# --- cancelling ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("state", ["ready", "scheduled", "retrying"])
def test_what_waits_is_cancelled_at_once(store: Store, state: str):
    number = one_of_each(store)[state]
    assert cancel(store, number, at=NOW + 5) == numbered(number)
    cancelled = task(store, number)
    assert (cancelled.status, cancelled.cancelled_by, cancelled.completed_at) == ("cancelled", "ann", NOW + 5)
    assert cancelled.run_after is None
    assert task_id(number) not in ids(claim(store, now=NOW + 1e6))


def test_what_runs_stays_its_workers_and_the_worker_hears_of_it(store: Store):
    add(store, 1, 2)
    first, _ = claim(store)
    assert cancel(store, 1) == numbered(1)
    assert (task(store).status, task(store).cancelled_by, task(store).version) == ("in-progress", "ann", first.version)
    assert exchange(store).cancelled == {task_id(1): "ann"}
    assert exchange(store, worker="w2").cancelled == {}


@pytest.mark.parametrize("state", ["success", "dead", "cancelled"])
def test_what_has_ended_cannot_be_cancelled(store: Store, state: str):
    number = one_of_each(store)[state]
    before = task(store, number), counts(store)
    assert cancel(store, number, by="bob") == []
    assert (task(store, number), counts(store)) == before


def test_the_first_who_cancels_is_named(store: Store):
    add(store, 1)
    claim(store)
    assert cancel(store, 1, by="ann") == numbered(1)
    assert cancel(store, 1, by="bob") == []
    assert exchange(store).cancelled == {task_id(1): "ann"}


def test_a_batch_cancels_what_it_can(store: Store):
    states = one_of_each(store)
    cancelled = cancel(store, *range(1, 9))
    assert sorted(cancelled) == numbered(
        *sorted(states[state] for state in ("in-progress", "ready", "retrying", "scheduled"))
    )
    assert counts(store) == {"in-progress": 1, "success": 1, "failed": 1, "cancelled": 4}


def test_the_worker_settles_what_it_was_asked_to_stop(store: Store):
    add(store, 1)
    (claimed,) = claim(store)
    cancel(store, 1)
    assert settle(store, claimed, Cancelled("cancelled by ann"), NOW + 3)
    assert (task(store).status, task(store).error, task(store).attempts) == ("cancelled", "cancelled by ann", 1)
    assert exchange(store).cancelled == {}


@pytest.mark.parametrize(("outcome", "status"), [(Succeeded("1"), "success"), (Failed("never"), "failed")])
def test_what_ends_by_itself_before_it_is_stopped_stands(store: Store, outcome: Any, status: str):
    add(store, 1)
    (claimed,) = claim(store)
    cancel(store, 1)
    assert settle(store, claimed, outcome)
    assert (task(store).status, task(store).cancelled_by) == (status, "ann")
    assert counts(store) == {status: 1}


@pytest.mark.parametrize(("outcome", "attempts"), [(Released(), 0), (Retry("again"), 1), (Retry("now", delay=0), 1)])
def test_what_is_to_be_cancelled_does_not_come_again(store: Store, outcome: Any, attempts: int):
    add(store, 1)
    (claimed,) = claim(store)
    cancel(store, 1)
    assert settle(store, claimed, outcome, NOW + 3)
    ended = task(store)
    assert (ended.status, ended.attempts, ended.completed_at) == ("cancelled", attempts, NOW + 3)
    assert counts(store) == {"cancelled": 1}
    assert claim(store, now=NOW + 1e6) == []


def test_what_came_back_before_it_was_cancelled_is_cancelled_at_once(store: Store):
    add(store, 1)
    (claimed,) = claim(store)
    settle(store, claimed, Retry("again"))
    assert cancel(store, 1) == numbered(1)
    assert task(store).finished
    assert not settle(store, claimed, Succeeded("1"))
    assert task(store).status == "cancelled"


def test_others_in_the_batch_settle_as_they_ended(store: Store):
    add(store, 1, 2, 3)
    claimed = claim(store)
    cancel(store, 2)
    assert exchange(store, [settlement(each, Retry("again")) for each in claimed]).lost == []
    assert [task(store, number).status for number in (1, 2, 3)] == ["failed", "cancelled", "failed"]


def test_a_stale_worker_cannot_settle_what_was_cancelled_meanwhile(store: Store):
    add(store, 1)
    (stale,) = claim(store)
    settle(store, stale, Released())
    claim(store, worker="w2")
    cancel(store, 1)
    assert exchange(store, [settlement(stale, Retry("again"))]).lost == [stale]
    assert task(store).status == "in-progress"


def test_a_dead_workers_cancelled_task_is_cancelled_by_whoever_takes_over(store: Store, database: Database):
    add(store, 1, 2)
    worker, presence = enlist(store)
    for claimed in claim(store, worker=worker):
        presence.started(claimed)
    cancel(store, 1)
    database.kill(presence)
    assert sorted(ids(store.recover("w2", decide_at(NOW), NOW))) == numbered(1, 2)
    assert (task(store, 1).status, task(store, 1).crashes) == ("cancelled", 0)
    assert task(store, 2).status == "failed"
    assert counts(store) == {"cancelled": 1, "failed": 1}


# --- retrying ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("state", ["dead", "cancelled"])
def test_what_failed_or_was_cancelled_runs_again_with_all_of_its_attempts(store: Store, state: str):
    number = one_of_each(store)[state]
    before = counts(store)
    assert retry(store, number, at=NOW + 5) == numbered(number)
    again = task(store, number)
    assert (again.status, again.attempts, again.crashes, again.ready_at) == ("to-do", 0, 0, NOW + 5)
    assert (again.completed_at, again.cancelled_by) == (None, None)
    assert sum(counts(store).values()) == sum(before.values())
    assert counts(store)["to-do"] == before["to-do"] + 1
    assert task_id(number) in ids(claim(store))


def test_the_attempts_of_a_retried_task_are_its_full_number(store: Store):
    add(store, 1, max_attempts=2)
    for _ in range(2):
        settle(store, claim(store)[0], Retry("no", delay=0))
    retry(store, 1)
    for _ in range(2):
        settle(store, claim(store)[0], Retry("no", delay=0))
    assert task(store).finished
    assert claim(store, now=NOW + 1e6) == []


@pytest.mark.parametrize("state", ["scheduled", "retrying"])
def test_what_waits_for_its_time_is_hastened(store: Store, state: str):
    number = one_of_each(store)[state]
    attempts = task(store, number).attempts
    assert retry(store, number, at=NOW + 1) == numbered(number)
    hastened = task(store, number)
    assert (hastened.status, hastened.run_after, hastened.ready_at) == ("to-do", None, NOW + 1)
    assert hastened.attempts == attempts
    assert task_id(number) in ids(claim(store, now=NOW + 1))


@pytest.mark.parametrize("state", ["ready", "in-progress", "success"])
def test_what_runs_is_ready_or_succeeded_cannot_be_retried(store: Store, state: str):
    number = one_of_each(store)[state]
    before = task(store, number), counts(store)
    assert retry(store, number) == []
    assert (task(store, number), counts(store)) == before


def test_what_is_asked_to_stop_can_be_retried_only_after_that(store: Store):
    add(store, 1)
    (claimed,) = claim(store)
    cancel(store, 1)
    assert retry(store, 1) == []
    settle(store, claimed, Cancelled("cancelled by ann"))
    assert retry(store, 1) == numbered(1)
    assert exchange(store).cancelled == {}
    settle(store, claim(store)[0], Retry("again"))
    assert task(store).status == "failed"


def test_a_claim_from_before_a_retry_settles_nothing(store: Store):
    add(store, 1)
    (stale,) = claim(store)
    settle(store, stale, Failed("never"))
    retry(store, 1)
    assert not settle(store, stale, Succeeded("1"))
    (claimed,) = claim(store)
    assert not settle(store, stale, Succeeded("1"))
    assert settle(store, claimed, Succeeded("2"))


# --- deleting ------------------------------------------------------------------------------------------------------


def test_what_has_ended_can_be_deleted_and_nothing_else(store: Store):
    states = one_of_each(store)
    gone = {states[state] for state in ("success", "dead", "cancelled")}
    assert sorted(delete(store, *range(1, 9))) == numbered(*sorted(gone))
    assert {number for number in range(1, 8) if store.get(task_id(number)) is None} == gone
    assert counts(store) == {"in-progress": 1, "to-do": 2, "failed": 1}


def test_a_deleted_task_leaves_neither_input_nor_history(store: Store):
    add(store, 1, input_=f'"{LONG}"')
    settle(store, claim(store)[0], Failed("never"))
    delete(store, 1)
    assert (store.get(task_id(1)), store.attempts(task_id(1)), store.status(task_id(1))) == (None, [], None)
    add(store, 1, input_='"short"')
    assert (task(store).input, store.attempts(task_id(1))) == ("short", [])


def test_the_key_of_a_deleted_task_is_free_again(store: Store):
    add(store, 1, key="order-7")
    settle(store, claim(store)[0], Succeeded("1"))
    assert add(store, 2, key="order-7") == numbered(1)
    delete(store, 1)
    assert add(store, 2, key="order-7") == numbered(2)
    assert task(store, 2).key == "order-7"


def test_a_deleted_task_cannot_be_settled(store: Store):
    add(store, 1)
    (stale,) = claim(store)
    settle(store, stale, Failed("never"))
    delete(store, 1)
    assert exchange(store, [settlement(stale, Retry("again"))]).lost == [stale]
    assert store.get(task_id(1)) is None


def test_what_does_not_exist_is_no_trouble(store: Store):
    assert (cancel(store, 1), retry(store, 1), delete(store, 1)) == ([], [], [])
    assert cancel(store) == []


# --- what is remembered --------------------------------------------------------------------------------------------


def test_actions_are_remembered_with_who_and_how_many(store: Store):
    add(store, 1, 2, 3)
    cancel(store, 1, 2, 9, at=NOW + 1, by="ann")
    retry(store, 1, at=NOW + 2)
    put(store, "email", rate_limit="5")
    told = [(at, actor, name, touched) for _, at, actor, name, _, touched in store.operators.actions("g", 10)]
    assert told == [(NOW, "ann", "override", 1), (NOW + 2, "ann", "retry", 1), (NOW + 1, "ann", "cancel", 2)]
    first = store.operators.actions("g", 1)[0][0]
    assert len(store.operators.actions(first, 10)) == 2


def test_an_action_that_changed_nothing_is_not_remembered(store: Store):
    delete(store, 1)
    assert store.operators.actions("g", 10) == []


def test_the_history_of_a_task_tells_who_cancelled_and_retried_it(store: Store):
    add(store, 1)
    cancel(store, 1, at=NOW + 1, by="ann")
    retry(store, 1, at=NOW + 2)
    settle(store, claim(store)[0], Failed("never"))
    told = [(outcome, error, ended, by) for _, outcome, error, _, ended, by in store.attempts(task_id(1))]
    assert told == [
        ("cancelled", None, NOW + 1, "ann"),
        ("retried", None, NOW + 2, "ann"),
        ("failed", "never", NOW, "w1"),
    ]


# --- finding -------------------------------------------------------------------------------------------------------


@pytest.fixture(params=["few", "many"])
def way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """The two ways to read a page; the second in steps of three tasks."""
    if request.param == "many":
        monkeypatch.setattr(operators, "_FEW", 0)
        monkeypatch.setattr(operators, "_REACH", 3)
    yield request.param


def found(store: Store, limit: int = 1000, **wanted: Any) -> list[str]:
    """All that match, page after page, in the order in which they come."""
    asked, answer, below = TaskFilter(**wanted), [], "g"
    for _ in range(100):
        rows, next_ = store.operators.page(asked._replace(below_id=min(below, asked.below_id)), limit)
        assert len(rows) <= limit
        answer += [row[0] for row in rows]
        if next_ is None:
            return answer
        assert next_ < below, "each page begins below the one before"
        below = next_
    raise AssertionError("pages without end")


def newest_first(*numbers: int) -> list[str]:
    return sorted(numbered(*numbers), reverse=True)


@pytest.mark.parametrize("limit", [1, 2, 5, 1000])
def test_pages_have_every_task_once_the_newest_first(store: Store, way: str, limit: int):
    add(store, *range(1, 12))
    assert found(store, limit) == newest_first(*range(1, 12))
    assert found(store, limit, states=STATES["ready"]) == newest_first(*range(1, 12))
    assert found(store, limit, type="email") == newest_first(*range(1, 12))
    assert found(store, limit, type="sms") == []


def test_a_page_has_whole_tasks(store: Store, way: str):
    add(store, 1, input_=f'"{LONG}"', priority=3, key="a", max_attempts=2, timeout=7.5)
    rows, _ = store.operators.page(TaskFilter(), 10)
    assert list(map(task_of, rows)) == [task(store)]


@pytest.mark.parametrize("word", sorted(STATES))
def test_every_word_finds_its_states(store: Store, way: str, word: str):
    states = one_of_each(store)
    assert found(store, states=STATES[word]) == newest_first(*(states[state] for state in STATES[word]))


def test_several_words_find_all_of_theirs(store: Store, way: str):
    states = one_of_each(store)
    wanted = ("dead", "cancelled", "ready")
    assert found(store, states=wanted) == newest_first(*(states[state] for state in wanted))
    assert found(store, limit=1, states=wanted, type="email") == newest_first(*(states[state] for state in wanted))


@pytest.mark.parametrize(
    ("text", "numbers"),
    [
        ("50%", [1]),
        ("%", [1]),
        ("a_b", [2]),
        ("_", [2]),
        ("it's", [3]),
        ('"', [4]),
        ("\\", [4]),
        ("plain", [5]),
        ("z", []),
    ],
)
def test_a_text_is_found_as_it_is_written(store: Store, way: str, text: str, numbers: list[int]):
    inputs = ["50% off", "a_b", "it's", '\\"', "plain"]
    for number, input_ in enumerate(inputs, 1):
        store.add([spec(number, input_=input_)])
    assert found(store, text=text) == newest_first(*numbers)


def test_a_text_is_found_in_long_inputs_and_in_errors(store: Store, way: str):
    add(store, 1, input_=f"{LONG} needle {LONG}")
    add(store, 2, 3)
    settle(store, claim(store)[1], Failed("a needle in the hay"))
    assert found(store, text="needle") == newest_first(1, 2)
    assert found(store, text="needle", states=STATES["failed"]) == newest_first(2)


def test_an_error_is_found_as_a_whole(store: Store, way: str):
    add(store, 1, 2, 3)
    for claimed, error in zip(claim(store), ("no answer", "no answer at all", "no answer"), strict=True):
        settle(store, claimed, Failed(error))
    assert found(store, error="no answer") == newest_first(1, 3)
    assert found(store, error="no answer", states=STATES["dead"]) == newest_first(1, 3)
    assert found(store, error="no") == []


def test_bounds_take_the_first_and_leave_the_last(store: Store, way: str):
    add(store, *range(1, 9))
    assert found(store, from_id=task_id(3), below_id=task_id(6)) == newest_first(3, 4, 5)
    assert found(store, from_id=task_id(3), below_id=task_id(6), states=STATES["ready"]) == newest_first(3, 4, 5)
    assert found(store, 1, from_id=task_id(3), below_id=task_id(6), type="email") == newest_first(3, 4, 5)
    assert found(store, from_id=task_id(9)) == []


def test_what_is_deleted_between_two_pages_leaves_no_gap(store: Store, way: str):
    add(store, *range(1, 7))
    cancel(store, *range(1, 7))
    rows, below = store.operators.page(TaskFilter(), 2)
    assert below is not None
    delete(store, 4, 5)
    assert [row[0] for row in rows] == newest_first(5, 6)
    assert found(store, below_id=below) == newest_first(1, 2, 3)


# --- steering ------------------------------------------------------------------------------------------------------


def test_what_is_set_is_told_to_whoever_looks_around(store: Store, database: Database):
    put(store, "email", worker_count="4", rate_limit="null")
    stored = StoredSettings(frozenset(), {"email": {"worker_count": 4, "rate_limit": None}})
    assert exchange(store).settings == stored
    assert database.open().settings() == stored


def test_a_later_word_holds_and_a_reset_ends_it(store: Store):
    put(store, "email", worker_count="4", max_attempts="7")
    put(store, "email", worker_count="2")
    assert store.settings().types == {"email": {"worker_count": 2, "max_attempts": 7}}
    put(store, "email", worker_count=None)
    assert store.settings().types == {"email": {"max_attempts": 7}}
    put(store, "email", **dict.fromkeys(STEERABLE))
    assert store.settings() == StoredSettings()


def test_a_reset_leaves_a_pause_alone(store: Store):
    store.pause("email")
    put(store, "email", timeout="5")
    put(store, "email", **dict.fromkeys(STEERABLE))
    assert store.settings() == StoredSettings(frozenset({"email"}))


def test_nothing_is_claimed_by_settings_that_the_worker_has_not_seen(store: Store):
    add(store, 1)
    store.enlist_again(DEAD_PROCESS._replace(id="w1"))
    put(store, "email", max_attempts="9")
    wants = [Want("email", 1)]
    answer = store.exchange("w1", [], wants, lambda: NOW, StoredSettings())
    assert answer.claimed == []
    assert ids(store.exchange("w1", [], wants, lambda: NOW, answer.settings).claimed) == numbered(1)


def test_what_has_ended_is_settled_also_by_who_has_not_seen_the_settings(store: Store):
    add(store, 1)
    (claimed,) = claim(store)
    put(store, "email", max_attempts="9")
    assert store.exchange("w1", [settlement(claimed, Succeeded("1"))], [], lambda: NOW, StoredSettings()).lost == []
    assert task(store).status == "success"


# --- looking -------------------------------------------------------------------------------------------------------

ABOUT = '{"types": {"email": {"worker_count": 2, "rate_limit": null}}, "overdue": 1}'


def test_workers_are_shown_with_what_they_say_and_run(store: Store):
    worker, presence = enlist(store)
    store.describe_worker(worker, ABOUT)
    add(store, 1)
    claim(store, worker=worker)
    seen = {view.record.id: view for view in store.observer.workers()}[worker]
    assert (seen.alive, seen.overdue, seen.types["email"]["worker_count"]) == (True, 1, 2)
    assert [tuple(running) for running in seen.tasks] == [(task_id(1), "email", NOW, 1)]
    presence.drop()


def test_types_are_shown_by_state_with_the_settings_that_hold(store: Store):
    one_of_each(store)
    worker, presence = enlist(store)
    store.describe_worker(worker, ABOUT)
    put(store, "email", worker_count="5")
    store.pause(EVERY_TYPE)
    (view,) = store.observer.types()
    assert view.name == "email"
    assert view.counts == dict.fromkeys(STATES.keys() - {"to-do", "failed"}, 1)
    assert (view.paused, view.overridden, view.workers) == (True, ("worker_count",), 1)
    assert view.settings == {"worker_count": 5, "rate_limit": None}
    presence.drop()


def test_a_dead_worker_is_shown_as_one(store: Store, database: Database):
    worker, presence = enlist(store)
    store.describe_worker(worker, ABOUT)
    database.kill(presence)
    assert [view.alive for view in store.observer.workers()] == [False]
    assert store.observer.types() == []


def test_a_situation_says_what_goes_first_and_what_holds(store: Store):
    add(store, 1, 2, 3)
    add(store, 4, priority=5)
    put(store, "email", rate_limit="5")
    situation = store.observer.situation(task_id(3), NOW)
    assert situation is not None
    assert (situation.task.id, situation.before, situation.before_capped) == (task_id(3), 3, False)
    assert situation.settings.types == {"email": {"rate_limit": 5}}
    assert store.observer.situation(task_id(9), NOW) is None
