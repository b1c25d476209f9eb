"""Pausing: nothing new starts, in any process, until it is resumed."""

from __future__ import annotations

import pytest

from tests.contract.vocabulary import (
    NOW,
    Database,
    add,
    claim,
    exchange,
    ids,
    numbered,
    settlement,
    task_id,
)
from tq.models import EVERY_TYPE, Succeeded, Want
from tq.storage.store import Store

BOTH = [Want("email", 5), Want("sms", 5)]


@pytest.fixture(autouse=True)
def one_of_each(store: Store) -> None:
    add(store, 1)
    add(store, 2, type_="sms")


def test_a_paused_queue_starts_nothing(store: Store):
    store.pause(EVERY_TYPE)
    answer = exchange(store, wants=BOTH)
    assert (answer.claimed, answer.settings.paused) == ([], {EVERY_TYPE})


def test_a_paused_type_leaves_the_others_alone(store: Store):
    store.pause("email")
    answer = exchange(store, wants=BOTH)
    assert (ids(answer.claimed), answer.settings.paused) == (numbered(2), {"email"})


def test_a_resumed_queue_goes_on(store: Store):
    store.pause(EVERY_TYPE)
    store.resume(EVERY_TYPE)
    assert len(exchange(store, wants=BOTH).claimed) == 2


def test_a_type_that_was_paused_by_itself_stays_paused_when_the_queue_resumes(store: Store):
    store.pause(EVERY_TYPE)
    store.pause("email")
    store.resume(EVERY_TYPE)
    assert ids(exchange(store, wants=BOTH).claimed) == numbered(2)


def test_a_resumed_type_waits_while_the_queue_is_paused(store: Store):
    store.pause(EVERY_TYPE)
    store.pause("email")
    store.resume("email")
    assert exchange(store, wants=BOTH).claimed == []


def test_a_pause_holds_for_every_store_on_the_database(store: Store, database: Database):
    store.pause("email")
    other = database.open()
    assert claim(other) == []
    assert other.settings().paused == {"email"}
    other.resume("email")
    assert ids(claim(store)) == numbered(1)


def test_pausing_twice_is_pausing_once(store: Store):
    store.pause("email")
    store.pause("email")
    assert store.settings().paused == {"email"}
    store.resume("email")
    assert store.settings().paused == set()


def test_what_is_not_paused_can_be_resumed(store: Store):
    store.resume("email")
    assert store.settings().paused == set()


def test_what_runs_may_end_while_paused(store: Store):
    (task,) = claim(store)
    store.pause(EVERY_TYPE)
    exchange(store, [settlement(task, Succeeded("1"))], BOTH)
    assert store.status(task.id) == ("success", True)


def test_tasks_are_accepted_and_fall_due_while_paused(store: Store):
    store.pause(EVERY_TYPE)
    add(store, 3, run_after=NOW + 10)
    assert exchange(store, wants=BOTH, now=NOW + 20).claimed == []
    store.resume(EVERY_TYPE)
    assert task_id(3) in ids(exchange(store, wants=BOTH, now=NOW + 20).claimed)
