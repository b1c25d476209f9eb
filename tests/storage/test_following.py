"""What follows a queue to another database, and what does not."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest

from tests.contract.vocabulary import DEAD_PROCESS, add, ids, task_id
from tests.postgres import new_database, new_schema, run_sql, server_url
from tests.processes import in_child
from tests.waiting import eventually
from tq import TaskQueue
from tq.errors import StorageError
from tq.ids import IdFactory
from tq.storage.following import FollowingDriver
from tq.storage.location import Location, locate
from tq.storage.move import Move
from tq.storage.store import Store

WORKER = DEAD_PROCESS._replace(id=task_id(0xF0000001))


@pytest.fixture
def schema() -> Iterator[str]:
    name = new_schema()
    server_url()
    yield name
    run_sql(f"DROP SCHEMA IF EXISTS {name} CASCADE")


@pytest.fixture
def store(folder: Path) -> Iterator[Store]:
    store = locate(folder / "tasks.db", "normal").opened()
    yield store
    store.close()


def move(folder: Path, schema: str) -> None:
    Move(folder / "tasks.db", server_url(), schema, IdFactory().new, lambda *_: None).run()


def beating() -> set[threading.Thread]:
    return {thread for thread in threading.enumerate() if thread.name == "tq-lease"}


def workers(schema: str) -> list[str]:
    return [name for (name,) in run_sql(f"SELECT id FROM {schema}.workers WHERE lease_until > 0")]


def test_a_worker_that_has_left_does_not_follow(store: Store, folder: Path, schema: str):
    presence = store.enlist(WORKER)
    presence.drop()
    store.retire(WORKER.id)
    move(folder, schema)
    assert store.stats()["to-do"] == 0
    assert workers(schema) == []


def test_a_forked_child_follows_without_its_parents_worker(store: Store, folder: Path, schema: str):
    presence = store.enlist(WORKER)
    move(folder, schema)
    run_sql(f"UPDATE {schema}.workers SET lease_until = 0")
    assert in_child(lambda: add(store, 1)) == [task_id(1)]
    assert workers(schema) == []  # the child has not spoken for its parent
    assert ids(store.owned_by(WORKER.id)) == []  # now the parent follows
    assert workers(schema) == [WORKER.id]
    presence.drop()


def test_a_worker_that_cannot_show_up_in_the_new_place_leaves_nothing_behind(store: Store, folder: Path, schema: str):
    before = beating()
    presence = store.enlist(WORKER)
    move(folder, schema)
    run_sql(f"ALTER TABLE {schema}.workers RENAME TO somewhere_else")
    with pytest.raises(StorageError, match="has lost tables"):
        store.stats()
    eventually(lambda: beating() <= before)
    run_sql(f"ALTER TABLE {schema}.somewhere_else RENAME TO workers")
    assert store.stats()["to-do"] == 0
    presence.drop()


def test_an_address_that_leads_elsewhere_from_here_is_not_followed(
    folder: Path, schema: str, make_queue: Callable[..., TaskQueue], monkeypatch: pytest.MonkeyPatch
):
    """`postgresql:///app` is another database where PGHOST is another; and a failover may have lost the move."""
    before = make_queue()
    before("work").add(1)
    driver: Any = before._opened()._driver
    right, opened = driver._open_new, Location._open_postgres
    move(folder, schema)
    with new_database() as elsewhere:
        driver._open_new = lambda _, **options: right(elsewhere, **options)
        with pytest.raises(StorageError, match=r"the queue has moved to .*, but: what .* in schema .* is not that"):
            before("work").add(2)
        monkeypatch.setattr(Location, "_open_postgres", lambda self, _, **options: opened(self, elsewhere, **options))
        with pytest.raises(StorageError, match="is not that queue"):
            make_queue()
        with psycopg.connect(elsewhere) as connection:
            assert connection.execute(f"SELECT count(*) FROM {schema}.tasks").fetchone() == (0,)
    monkeypatch.undo()
    driver._open_new = right
    for queue in (before, make_queue()):
        queue("work").add(2)
    assert run_sql(f"SELECT count(*) FROM {schema}.tasks") == [(3,)]


def test_a_server_that_is_away_when_the_queue_has_moved_is_told_of_and_waited_for(
    folder: Path, schema: str, make_queue: Callable[..., TaskQueue]
):
    queue = make_queue()
    queue("work").add(1)
    away = True
    driver: Any = queue._opened()._driver
    assert isinstance(driver, FollowingDriver)
    opened = driver._open_new

    def open_new(url: str, *, schema: str) -> Any:
        return opened("postgresql://localhost:1/gone" if away else url, schema=schema)

    driver._open_new = open_new
    move(folder, schema)
    with pytest.raises(StorageError, match=r"the queue has moved to .*, but: cannot reach"):
        queue("work").add(2)
    away = False
    queue("work").add(2)
    eventually(lambda: run_sql(f"SELECT count(*) FROM {schema}.tasks") == [(2,)])
