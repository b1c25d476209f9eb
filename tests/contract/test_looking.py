"""Looking: what stats, get, status and unfinished say after every kind of change."""

from __future__ import annotations

import threading

from tests.contract.vocabulary import NOW, Database, add, claim, decide_at, enlist, settle, task_id
from tq.models import Cancelled, Failed, Released, Retry, Succeeded
from tq.storage.store import Store

NOTHING = {"to-do": 0, "in-progress": 0, "success": 0, "failed": 0, "cancelled": 0, "byType": {}}


def counts(store: Store) -> dict[str, int]:
    """The totals that are not 0; checked against those by type."""
    stats = store.stats()
    by_type = stats.pop("byType")
    for status, total in stats.items():
        assert total == sum(counted.get(status, 0) for counted in by_type.values())
    return {status: total for status, total in stats.items() if total}


def test_an_empty_queue_has_all_the_statuses(store: Store):
    assert store.stats() == NOTHING


def test_the_stats_have_totals_and_types(store: Store):
    add(store, 1, 2)
    add(store, 3, type_="sms")
    claim(store, type_="sms")
    assert store.stats() == {
        **NOTHING,
        "to-do": 2,
        "in-progress": 1,
        "byType": {"email": {"to-do": 2}, "sms": {"in-progress": 1}},
    }


def test_every_transition_moves_a_task_from_one_count_to_another(store: Store, database: Database):
    add(store, 1)
    assert counts(store) == {"to-do": 1}
    (task,) = claim(store)
    assert counts(store) == {"in-progress": 1}
    settle(store, task, Released())
    assert counts(store) == {"to-do": 1}
    settle(store, claim(store)[0], Retry("again", delay=10))
    assert counts(store) == {"failed": 1}  # it waits for its retry
    assert claim(store, type_="another", now=NOW + 10) == []
    assert counts(store) == {"to-do": 1}  # it has fallen due
    settle(store, claim(store)[0], Failed("for good"))
    assert counts(store) == {"failed": 1}
    add(store, 2, run_after=NOW + 60)
    assert counts(store) == {"failed": 1, "to-do": 1}
    settle(store, claim(store, now=NOW + 60)[0], Succeeded("1"))
    assert counts(store) == {"failed": 1, "success": 1}
    add(store, 3)
    settle(store, claim(store)[0], Cancelled("no"))
    assert counts(store) == {"failed": 1, "success": 1, "cancelled": 1}
    worker, presence = enlist(store)
    add(store, 4, max_attempts=1)
    presence.started(claim(store, worker=worker)[0])
    database.kill(presence)
    assert counts(store) == {"failed": 1, "success": 1, "cancelled": 1, "in-progress": 1}
    store.recover("w2", decide_at(NOW), NOW)
    assert counts(store) == {"failed": 2, "success": 1, "cancelled": 1}


def test_no_task_is_missed_or_counted_twice_while_others_work(store: Store, database: Database):
    total = 60
    add(store, *range(total))
    watcher = database.open()
    stop = threading.Event()

    def work() -> None:
        while not stop.is_set():
            for task in claim(store, 20):
                settle(store, task, Retry("again", delay=0) if task.attempts < 2 else Released())

    thread = threading.Thread(target=work)
    thread.start()
    try:
        sums = {sum(counts(watcher).values()) for _ in range(300)}
    finally:
        stop.set()
        thread.join()
    assert sums == {total}


def test_what_does_not_exist_is_none(store: Store):
    assert store.get(task_id(1)) is None
    assert store.status(task_id(1)) is None
    assert store.attempts(task_id(1)) == []
    assert store.get("") is None


def test_a_status_says_whether_it_is_final(store: Store):
    add(store, 1, 2)
    assert store.status(task_id(1)) == ("to-do", False)
    first, second = claim(store)
    assert store.status(first.id) == ("in-progress", False)
    settle(store, first, Retry("again"))
    settle(store, second, Failed("never"))
    assert (store.status(first.id), store.status(second.id)) == (("failed", False), ("failed", True))


def test_a_queue_is_unfinished_while_any_task_may_still_run(store: Store):
    assert not store.unfinished()
    add(store, 1, run_after=NOW + 10)
    assert store.unfinished()  # scheduled
    assert claim(store, type_="another", now=NOW + 10) == []
    assert store.unfinished()  # ready
    (task,) = claim(store)
    assert store.unfinished()  # running
    settle(store, task, Retry("again"))
    assert store.unfinished()  # waiting for its retry
    settle(store, claim(store, now=NOW + 1000)[0], Succeeded("null"))
    assert not store.unfinished()


def test_every_store_on_the_database_sees_the_same(store: Store, database: Database):
    other = database.open()
    add(store, 1)
    assert other.status(task_id(1)) == ("to-do", False)
    claim(other)
    assert store.status(task_id(1)) == ("in-progress", False)
    assert store.stats() == other.stats()
