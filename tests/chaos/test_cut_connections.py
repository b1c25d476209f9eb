"""A connection to PostgreSQL is lost in the middle of a commit: what was to happen happens once, whoever heard."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Iterator
from itertools import cycle, islice

import pytest

from tests.chaos.databases import PostgresSchema, drop, rows
from tests.chaos.proxy import Proxy
from tests.contract.vocabulary import NOW, add, claim, decide_at, enlist, ids, numbered, settlement, spec
from tests.postgres import new_schema, server_url
from tests.processes import child
from tests.waiting import eventually
from tq import TaskQueue
from tq.errors import StorageError, TaskFailed
from tq.models import Released, Succeeded, Want
from tq.storage.postgres import PostgresDriver
from tq.storage.store import Store

at_commit = pytest.mark.parametrize("fault", ["cut-before", "cut-after"])


@pytest.fixture
def proxy() -> Iterator[Proxy]:
    proxy = Proxy(server_url())
    yield proxy
    proxy.close()


@pytest.fixture
def database() -> Iterator[PostgresSchema]:
    database = PostgresSchema(server_url(), new_schema())
    yield database
    drop(database)


@pytest.fixture
def store(proxy: Proxy, database: PostgresSchema) -> Iterator[Store]:
    """It reaches the server through the proxy."""
    store = Store(PostgresDriver(proxy.url, schema=database.schema))
    yield store
    store.close()


def _statuses(database: PostgresSchema) -> list[tuple]:
    return rows(database, "SELECT id, status, attempts FROM tasks ORDER BY id")


# --- one commit ----------------------------------------------------------------------------------------------------


@at_commit
@pytest.mark.parametrize("count", [1, 100])
@pytest.mark.parametrize("text", ["{}", '"' + "x" * 5000 + '"'], ids=["short", "long"])
def test_what_is_added_while_the_connection_is_cut_is_stored_once(
    proxy: Proxy, store: Store, database: PostgresSchema, fault: str, count: int, text: str
) -> None:
    specs = [spec(number, input_=text) for number in range(count)]
    proxy.at_next_commits(fault, fault)
    assert store.add(specs) == numbered(*range(count))
    assert proxy.struck
    assert _statuses(database) == [(id_, "to-do", 0) for id_ in numbered(*range(count))]
    assert rows(database, "SELECT count(*) FROM task_inputs") == [(count if len(text) > 1024 else 0,)]


@at_commit
def test_a_key_that_is_added_while_the_connection_is_cut_belongs_to_one_task(
    proxy: Proxy, store: Store, database: PostgresSchema, fault: str
) -> None:
    proxy.at_next_commits(fault)
    assert store.add([spec(1, key="invoice-7")]) == numbered(1)
    assert store.add([spec(2, key="invoice-7")]) == numbered(1)
    assert _statuses(database) == [(numbered(1)[0], "to-do", 0)]


@at_commit
def test_a_result_that_is_stored_while_the_connection_is_cut_counts_once(
    proxy: Proxy, store: Store, database: PostgresSchema, fault: str
) -> None:
    worker, presence = enlist(store)
    add(store, 1)
    done = [settlement(task, Succeeded("1")) for task in claim(store, worker=worker)]
    proxy.at_next_commits(fault)
    with pytest.raises(StorageError):  # nobody knows whether it stands: the worker looks, and sends it again
        store.exchange(worker, done, [], lambda: NOW)
    left = store.owned_by(worker)
    assert len(left) == (fault == "cut-before")
    refused = store.exchange(worker, done, [], lambda: NOW).lost
    assert len(refused) == (fault == "cut-after")
    assert _statuses(database) == [(numbered(1)[0], "success", 1)]
    assert rows(database, "SELECT status, count FROM finished_counts") == [("success", 1)]
    presence.drop()


@at_commit
def test_a_claim_that_nobody_heard_of_is_given_back_and_costs_no_attempt(
    proxy: Proxy, store: Store, database: PostgresSchema, fault: str
) -> None:
    worker, presence = enlist(store)
    add(store, 1, 2)
    proxy.at_next_commits(fault)
    with pytest.raises(StorageError):
        store.exchange(worker, [], [Want("email", 1)], lambda: NOW)
    left = store.owned_by(worker)
    assert ids(left) == (numbered(1) if fault == "cut-after" else [])
    store.exchange(worker, [settlement(task, Released()) for task in left], [], lambda: NOW)
    assert _statuses(database) == [(id_, "to-do", 0) for id_ in numbered(1, 2)]
    presence.drop()


def test_a_failure_that_was_stored_without_an_answer_is_told_and_not_called_dropped(
    proxy: Proxy, database: PostgresSchema, caplog: pytest.LogCaptureFixture
) -> None:
    queue = TaskQueue().init(proxy.url, schema=database.schema, poll_interval=3600)

    def handler(_: object) -> None:
        proxy.at_next_commits("cut-after")  # that of the exchange that settles this task
        raise ValueError("no such mailbox")

    handle = queue("work").set_max_attempts(1).set_worker(handler).submit(1)
    with pytest.raises(TaskFailed, match="no such mailbox"):
        handle.result(timeout=60)
    eventually(lambda: "failed, for good: ValueError: no such mailbox" in caplog.text)
    assert queue.stop()
    assert proxy.struck
    assert "no longer ours" not in caplog.text
    assert rows(database, "SELECT status, count FROM finished_counts") == [("failed", 1)]


# --- many commits --------------------------------------------------------------------------------------------------


def test_a_queue_whose_commits_are_cut_again_and_again_loses_nothing_and_repeats_nothing(
    proxy: Proxy, database: PostgresSchema
) -> None:
    ran: Counter[int] = Counter()
    queue = TaskQueue().init(proxy.url, schema=database.schema, poll_interval=0.1)
    queue("work").set_worker_count(3).set_worker(lambda number: ran.update([number]))
    proxy.at_next_commits(*islice(cycle(["pass", "pass", "cut-before", "pass", "pass", "pass", "cut-after"]), 70))
    for number in range(0, 300, 10):
        queue("work").add(number).add_many(range(number + 1, number + 10))
    assert queue.join(60)
    eventually(lambda: proxy.struck)
    assert ran == dict.fromkeys(range(300), 1)
    assert rows(database, "SELECT status, count FROM finished_counts") == [("success", 300)]
    assert queue.stop()


# --- neither dead nor alive ----------------------------------------------------------------------------------------


def test_a_worker_that_is_cut_off_in_the_middle_of_a_transaction_does_not_hold_up_the_others(
    proxy: Proxy, database: PostgresSchema
) -> None:
    """It holds its own row and the count of its type: no other could end a task, or declare it dead."""
    cut_off = Store(PostgresDriver(proxy.url, schema=database.schema, lease_seconds=database.lease))
    other = Store(PostgresDriver(server_url(), schema=database.schema, lease_seconds=database.lease))
    worker, presence = enlist(cut_off)
    add(cut_off, 1, 2)
    (first,) = claim(cut_off, room=1, worker=worker)
    (second,) = claim(other, room=1, worker="w2")
    presence._left.set()  # nothing of it comes through any more
    proxy.at_next_commits("freeze")
    done = [settlement(first, Succeeded("1"))]
    frozen = threading.Thread(target=lambda: _refused(cut_off, worker, done))
    frozen.start()
    eventually(lambda: proxy.struck)
    assert not other.exchange("w2", [settlement(second, Succeeded("2"))], [], lambda: NOW).lost
    eventually(lambda: other.recover("w2", decide_at(NOW), NOW))
    assert _statuses(database) == [(first.id, "failed", 1), (second.id, "success", 1)]
    proxy.close()
    frozen.join(60)
    presence.drop()
    other.close()
    cut_off.close()


def _refused(store: Store, worker: str, done: list) -> None:
    with pytest.raises(StorageError):
        store.exchange(worker, done, [], lambda: NOW)


def test_a_forked_child_that_cannot_reach_the_server_leaves_its_parents_connections_alone(
    proxy: Proxy, store: Store, database: PostgresSchema
) -> None:
    def add_from_child() -> list[str]:
        refusals = []
        for number in (1, 2):  # the second one must not find what the first one left half open
            try:
                add(store, number)
            except StorageError as error:
                refusals.append(str(error))
        return refusals

    add(store, 3)
    proxy.refusing = True
    with child(add_from_child) as (_, answer):
        refusals = answer()
    assert len(refusals) == 2 and all("cannot reach" in refusal for refusal in refusals)
    add(store, 4)
    assert [row[0] for row in _statuses(database)] == numbered(3, 4)
    proxy.refusing = False
    with child(add_from_child) as (_, answer):
        assert answer() == []
    assert len(_statuses(database)) == 4
