"""Recovery: what a dead worker had claimed goes on without it, and nobody alive is robbed."""

from __future__ import annotations

import threading

import pytest

from tests.contract.vocabulary import (
    NOW,
    Database,
    add,
    claim,
    decide_at,
    enlist,
    enlist_here,
    exchange,
    ids,
    numbered,
    settle,
    task_id,
)
from tq.models import MAX_CRASHES, ClaimedTask, Outcome, Released, Succeeded, Task, Transition, Want
from tq.storage.store import Store


def recover(store: Store, now: float = NOW, my_id: str = "rescuer") -> list[ClaimedTask]:
    return store.recover(my_id, decide_at(now), now)


def found(store: Store, number: int) -> Task:
    task = store.get(task_id(number))
    assert task is not None
    return task


def run_and_die(store: Store, database: Database, now: float) -> None:
    """Claim one task, start it, die; and be recovered."""
    worker, presence = enlist(store)
    (task,) = claim(store, 1, worker=worker, now=now, max_attempts=99)
    presence.started(task)
    database.kill(presence)
    recover(store, now)


def test_a_living_worker_is_not_robbed(store: Store, database: Database):
    for number, enlisted in enumerate((enlist, enlist_here)):
        worker, presence = enlisted(store)
        add(store, number)
        (task,) = claim(store, worker=worker)
        presence.started(task)
        assert recover(database.open(), NOW + 1e9) == []  # a long time says nothing about the worker
        assert settle(store, task, Succeeded("1"), NOW + 1e9, worker=worker)
        presence.leave()
        store.retire(worker)


def test_a_task_that_had_started_is_retried_and_the_crash_is_counted(store: Store, database: Database):
    worker, presence = enlist(store)
    add(store, 1)
    (task,) = claim(store, worker=worker)
    presence.started(task)
    database.kill(presence)
    assert ids(recover(store, NOW + 5)) == numbered(1)
    recovered = found(store, 1)
    assert (recovered.status, recovered.attempts, recovered.crashes) == ("failed", 1, 1)
    assert recovered.run_after == NOW + 15
    assert "died while it ran this task" in str(recovered.error)
    assert [row[:2] for row in store.attempts(task.id)] == [(1, "retry")]


def test_a_rule_that_adds_may_decide_about_the_tasks_of_the_dead(store: Store, database: Database):
    """A rule of set_backoff() is the program's own code, and may use the queue."""

    def decide(task: ClaimedTask, outcome: Outcome) -> Transition:
        add(store, 2)
        return decide_at(NOW)(task, outcome)

    worker, presence = enlist(store)
    add(store, 1)
    (task,) = claim(store, worker=worker)
    presence.started(task)
    database.kill(presence)
    assert ids(store.recover("rescuer", decide, NOW)) == numbered(1)
    assert found(store, 2).status == "to-do"


def test_a_task_that_had_not_started_gets_its_attempt_back(store: Store, database: Database):
    worker, presence = enlist(store)
    add(store, 1, 2, max_attempts=1)
    first, second = claim(store, worker=worker)
    presence.started(first)
    database.kill(presence)
    recover(store)
    assert (found(store, 1).status, found(store, 1).finished) == ("failed", True)
    assert (found(store, 2).status, found(store, 2).attempts, found(store, 2).crashes) == ("to-do", 0, 0)
    assert ids(claim(store, worker="w2")) == [second.id]


def test_a_task_that_was_settled_before_the_crash_stays_settled(store: Store, database: Database):
    worker, presence = enlist(store)
    add(store, 1)
    (task,) = claim(store, worker=worker)
    presence.started(task)
    settle(store, task, Succeeded("1"), worker=worker)  # and dies before it can strike the task off its list
    database.kill(presence)
    assert recover(store) == []
    assert store.status(task.id) == ("success", True)


def test_a_task_that_was_struck_off_and_claimed_again_has_not_started(store: Store, database: Database):
    worker, presence = enlist(store)
    add(store, 1, max_attempts=1)
    (task,) = claim(store, worker=worker)
    presence.started(task)
    settle(store, task, Released(), worker=worker)
    presence.settled(task.id)
    claim(store, worker=worker)
    database.kill(presence)
    recover(store)
    assert (found(store, 1).status, found(store, 1).attempts) == ("to-do", 0)


def test_three_crashes_set_a_task_aside(store: Store, database: Database):
    add(store, 1, max_attempts=99)
    for crash in range(1, MAX_CRASHES + 1):
        run_and_die(store, database, NOW + crash * 100_000)
        assert found(store, 1).crashes == crash
    assert (found(store, 1).status, found(store, 1).finished) == ("failed", True)
    assert "set aside" in str(found(store, 1).error)
    assert claim(store, now=NOW + 1e9) == []


def test_a_crash_in_the_last_attempt_fails_the_task(store: Store, database: Database):
    add(store, 1, max_attempts=1)
    run_and_die(store, database, NOW)
    assert (found(store, 1).status, found(store, 1).finished, found(store, 1).crashes) == ("failed", True, 1)


def test_a_crash_before_its_start_never_ends_a_task(store: Store, database: Database):
    """At the most it costs an attempt that the task can afford."""
    add(store, 1)
    for crash in range(1, 10):
        worker, presence = enlist(store)
        assert ids(claim(store, worker=worker, now=NOW + crash * 100_000)) == numbered(1)
        database.kill(presence)
        recover(store, NOW + crash * 100_000)
    assert not found(store, 1).finished
    assert found(store, 1).crashes < MAX_CRASHES


def test_a_worker_that_was_taken_for_dead_claims_nothing_until_it_is_enlisted_again(store: Store, database: Database):
    worker, presence = enlist(store)
    add(store, 1, 2)
    (task,) = claim(store, 1, worker=worker)
    presence.started(task)
    database.kill(presence)
    recover(store)
    answer = store.exchange(worker, [], [Want("email", 5)], lambda: NOW)
    assert (answer.claimed, answer.enlisted) == ([], False)
    assert ids(claim(store, worker=worker)) == numbered(2)


def test_many_started_tasks_are_all_remembered(store: Store, database: Database):
    worker, presence = enlist(store)
    add(store, *range(1000), max_attempts=1)
    claimed = claim(store, 1000, worker=worker)
    for task in claimed[:700]:
        presence.started(task)
    for task in claimed[:100]:
        settle(store, task, Succeeded("1"), worker=worker)
        presence.settled(task.id)
    database.kill(presence)
    assert len(recover(store)) == 900
    crashes = [found(store, number).crashes for number in range(1000)]
    assert crashes == [0] * 100 + [1] * 600 + [0] * 300
    assert store.stats()["to-do"] == 300


def test_only_the_dead_workers_tasks_are_recovered(store: Store, database: Database):
    living, _ = enlist(store)
    dying, presence = enlist(store)
    add(store, 1, 2)
    claim(store, 1, worker=living)
    claim(store, 1, worker=dying)
    database.kill(presence)
    assert ids(recover(store)) == numbered(2)
    assert found(store, 1).status == "in-progress"


def test_a_worker_does_not_recover_itself(store: Store, database: Database):
    worker, presence = enlist(store)
    add(store, 1)
    claim(store, worker=worker)
    database.kill(presence)
    assert recover(store, my_id=worker) == []


def test_a_dead_worker_is_recovered_once(store: Store, database: Database):
    worker, presence = enlist(store)
    add(store, 1)
    claim(store, worker=worker)
    database.kill(presence)
    assert len(recover(store)) == 1
    assert store.workers() == []
    assert recover(store) == []


def test_a_dead_worker_without_tasks_leaves_nothing(store: Store, database: Database):
    _, presence = enlist(store)
    database.kill(presence)
    assert recover(store) == []
    assert store.workers() == []


def test_two_rescuers_at_once_recover_each_task_once(database: Database):
    stores = [database.open() for _ in range(4)]
    add(stores[0], *range(300))
    for _ in range(10):
        worker, presence = enlist(stores[0])
        for task in claim(stores[0], 30, worker=worker):
            presence.started(task)
        database.kill(presence)
    together = threading.Barrier(len(stores))
    recovered: list[str] = []

    def rescue(store: Store) -> None:
        together.wait()
        while store.workers():
            recovered.extend(ids(recover(store)))

    threads = [threading.Thread(target=rescue, args=(store,)) for store in stores]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(recovered) == numbered(*range(300))
    assert {found(stores[0], number).crashes for number in range(300)} == {1}


def test_a_worker_that_retired_is_gone(store: Store):
    worker, presence = enlist(store)
    assert [each.id for each in store.workers()] == [worker]
    presence.leave()
    store.retire(worker)
    assert store.workers() == []


def test_a_worker_that_retires_with_claimed_tasks_does_not_take_them_to_the_grave(store: Store, database: Database):
    worker, presence = enlist(store)
    add(store, 1)
    claim(store, worker=worker)
    presence.leave()
    store.retire(worker)
    assert ids(recover(store)) == numbered(1)


def test_a_worker_knows_what_it_owns(store: Store):
    add(store, 1, 2, 3)
    first, second = claim(store, 2, worker="w1")
    claim(store, 1, worker="w2")
    settle(store, first, Succeeded("1"))
    owned = store.owned_by("w1")
    assert [(task.id, task.version) for task in owned] == [(second.id, second.version)]
    assert settle(store, owned[0], Released())
    assert store.owned_by("w1") == []


@pytest.mark.parametrize("count", [1, 50])
def test_recovered_tasks_keep_their_order(store: Store, database: Database, count: int):
    worker, presence = enlist(store)
    add(store, *range(count), max_attempts=1)
    claim(store, worker=worker)
    database.kill(presence)
    recover(store)
    assert ids(exchange(store, wants=[]).claimed) == []
    assert ids(claim(store)) == numbered(*range(count))
