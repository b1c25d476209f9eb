"""Settling: what each outcome makes of a task, and that nobody settles what is not his."""

from __future__ import annotations

import pytest

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
    spec,
    task_id,
)
from tq.models import Cancelled, Crashed, Failed, Outcome, Released, Retry, Settlement, Succeeded, Task, Want
from tq.storage.store import Store


def one_claimed(store: Store):
    add(store, 1)
    return claim(store)[0]


def task_one(store: Store) -> Task:
    task = store.get(task_id(1))
    assert task is not None
    return task


def test_a_success_keeps_its_output(store: Store):
    settle(store, one_claimed(store), Succeeded('{"sent":true}'), NOW + 3)
    task = task_one(store)
    assert (task.status, task.output, task.error) == ("success", {"sent": True}, None)
    assert (task.completed_at, task.updated_at, task.attempts) == (NOW + 3, NOW + 3, 1)
    assert task.finished


def test_a_failure_is_final_and_says_why(store: Store):
    settle(store, one_claimed(store), Failed("no such mailbox"), NOW + 3)
    task = task_one(store)
    assert (task.status, task.error, task.completed_at, task.run_after) == ("failed", "no such mailbox", NOW + 3, None)


def test_a_retry_waits_for_its_time(store: Store):
    settle(store, one_claimed(store), Retry("no answer"), NOW + 3)
    task = task_one(store)
    assert (task.status, task.error, task.completed_at, task.run_after) == ("failed", "no answer", None, NOW + 13)
    assert not task.finished


def test_the_last_attempt_fails_for_good(store: Store):
    add(store, 1, max_attempts=2)
    settle(store, claim(store)[0], Retry("once", delay=0))
    settle(store, claim(store)[0], Retry("twice", delay=0))
    assert (task_one(store).status, task_one(store).error, task_one(store).finished) == ("failed", "twice", True)
    assert claim(store, now=NOW + 1e6) == []


def test_a_released_task_gets_its_attempt_back(store: Store):
    settle(store, one_claimed(store), Released())
    task = task_one(store)
    assert (task.status, task.attempts, task.run_after, task.completed_at) == ("to-do", 0, None, None)
    assert claim(store)[0].attempts == 1


def test_a_cancelled_task_is_final(store: Store):
    settle(store, one_claimed(store), Cancelled("not needed any more"), NOW + 3)
    task = task_one(store)
    assert (task.status, task.error, task.completed_at) == ("cancelled", "not needed any more", NOW + 3)


def test_a_late_success_forgets_the_error_but_not_the_attempts(store: Store):
    settle(store, one_claimed(store), Retry("no answer", delay=0))
    settle(store, claim(store)[0], Succeeded("1"))
    assert (task_one(store).status, task_one(store).error, task_one(store).attempts) == ("success", None, 2)


# --- only by its owner ---------------------------------------------------------------------------------------------

OUTCOMES: list[Outcome] = [
    Succeeded("1"),
    Retry("again"),
    Failed("never"),
    Cancelled("no"),
    Released(),
    Crashed("died"),
]
each_outcome = pytest.mark.parametrize("outcome", OUTCOMES, ids=lambda outcome: type(outcome).__name__)


@each_outcome
def test_a_task_is_settled_once(store: Store, outcome: Outcome):
    task = one_claimed(store)
    assert settle(store, task, outcome)
    before = task_one(store)
    assert not settle(store, task, Succeeded('"twice"'))
    assert task_one(store) == before


@each_outcome
def test_a_stale_worker_cannot_settle(store: Store, outcome: Outcome):
    stale = one_claimed(store)
    settle(store, stale, Released())
    (fresh,) = claim(store, worker="w2")
    before = task_one(store)
    assert not settle(store, stale, outcome, worker="w1")
    assert task_one(store) == before
    assert settle(store, fresh, Succeeded("1"), worker="w2")


@pytest.mark.parametrize("version", [-1, 0, 2, 2**40])
def test_another_version_cannot_be_settled(store: Store, version: int):
    task = one_claimed(store)
    assert not settle(store, task._replace(version=version), Succeeded("1"))
    assert task_one(store).status == "in-progress"


def test_a_task_that_was_never_claimed_cannot_be_settled(store: Store):
    task = one_claimed(store)
    add(store, 2)
    assert not settle(store, task._replace(id=task_id(2), version=0), Succeeded("1"))
    assert store.status(task_id(2)) == ("to-do", False)


def test_a_task_that_does_not_exist_cannot_be_settled(store: Store):
    assert not settle(store, one_claimed(store)._replace(id=task_id(99)), Succeeded("1"))


def test_after_recovery_the_dead_worker_cannot_settle(store: Store, database: Database):
    worker, presence = enlist(store)
    add(store, 1)
    (task,) = claim(store, worker=worker)
    presence.started(task)
    database.kill(presence)
    store.recover("w2", decide_at(NOW), NOW)
    before = task_one(store)
    assert not settle(store, task, Succeeded("1"), worker=worker)
    assert task_one(store) == before


def test_what_was_lost_is_named_and_the_rest_is_settled(store: Store):
    add(store, 1, 2, 3)
    tasks = claim(store)
    settle(store, tasks[1], Released())
    answer = exchange(store, [settlement(task, Succeeded("1")) for task in tasks])
    assert answer.lost == [tasks[1]]
    assert [store.status(each) for each in numbered(1, 2, 3)] == [
        ("success", True),
        ("to-do", False),
        ("success", True),
    ]


def test_a_lost_settlement_counts_nowhere(store: Store):
    task = one_claimed(store)
    settle(store, task, Succeeded("1"))
    settle(store, task, Failed("late"))
    assert (store.stats()["success"], store.stats()["failed"]) == (1, 0)
    assert store.attempts(task.id) == []


# --- one transaction -----------------------------------------------------------------------------------------------


class Trouble(Exception):
    """An error that has nothing to do with any database."""


class SecondIsBroken(list):
    def __iter__(self):
        yield self[0]
        raise Trouble


def test_one_exchange_settles_and_claims(store: Store):
    add(store, 1, 2)
    first = claim(store, 1)[0]
    answer = exchange(store, [settlement(first, Succeeded("1"))], [Want("email", 1)])
    assert ids(answer.claimed) == numbered(2)
    assert store.status(first.id) == ("success", True)


def test_what_is_released_can_be_claimed_in_the_same_exchange(store: Store):
    first = one_claimed(store)
    answer = exchange(store, [settlement(first, Released())], [Want("email", 1)])
    assert ids(answer.claimed) == numbered(1)
    assert answer.claimed[0].version == first.version + 2


def test_an_error_between_two_settlements_leaves_nothing(store: Store):
    task = one_claimed(store)
    before = task_one(store), store.stats()
    with pytest.raises(Trouble):
        exchange(store, SecondIsBroken([settlement(task, Failed("broken"))]))
    assert (task_one(store), store.stats()) == before
    assert store.attempts(task.id) == []
    assert settle(store, task, Succeeded("1"))


def test_an_error_in_the_claim_undoes_the_settlement_and_the_claims_before_it(store: Store):
    store.add([spec(1), spec(2), spec(3, "sms")])
    first = claim(store, 1)[0]
    before = store.stats()
    broken = Want("sms", 1, rate_limit="five")  # type: ignore[arg-type]
    with pytest.raises(TypeError):
        exchange(store, [settlement(first, Succeeded("1"))], [Want("email", 1, rate_limit=5), broken])
    assert store.stats() == before
    assert store.status(task_id(2)) == ("to-do", False)
    assert ids(claim(store, rate_limit=5)) == numbered(2)


# --- history -------------------------------------------------------------------------------------------------------


def test_a_clean_success_has_no_history_beyond_its_row(store: Store):
    task = one_claimed(store)
    settle(store, task, Succeeded("1"))
    assert store.attempts(task.id) == []


def test_every_attempt_that_did_not_end_well_is_remembered(store: Store):
    settle(store, one_claimed(store), Retry("first", delay=5, details="a traceback"), NOW + 1)
    settle(store, claim(store, now=NOW + 6)[0], Retry("second", delay=5), NOW + 7, worker="w2")
    settle(store, claim(store, now=NOW + 12)[0], Failed("third"), NOW + 13)
    assert store.attempts(task_id(1)) == [
        (1, "retry", "a traceback", NOW, NOW + 1, "w1"),
        (2, "retry", "second", NOW + 6, NOW + 7, "w2"),
        (3, "failed", "third", NOW + 12, NOW + 13, "w1"),
    ]


def test_giving_back_is_not_worth_remembering(store: Store):
    task = one_claimed(store)
    settle(store, task, Released())
    assert store.attempts(task.id) == []


def test_a_cancelled_attempt_is_remembered(store: Store):
    task = one_claimed(store)
    settle(store, task, Cancelled("stop"))
    assert [row[:3] for row in store.attempts(task.id)] == [(1, "cancelled", "stop")]


def test_histories_do_not_mix(store: Store):
    add(store, 1, 2)
    for task in claim(store):
        exchange(store, [Settlement(task, decide_at(NOW)(task, Failed(task.id)))])
    assert [[row[2] for row in store.attempts(each)] for each in numbered(1, 2)] == [numbered(1), numbered(2)]
