"""`tq move` says after every failure how to go on; what it does is tested in tests/storage/test_move.py."""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest

from tests.contract.vocabulary import add
from tests.postgres import new_schema, run_sql, server_url
from tq.cli.move import run
from tq.errors import StorageBusy, TqError
from tq.ids import IdFactory
from tq.storage import move_source
from tq.storage.sqlite import SqliteDriver
from tq.storage.store import Store


@pytest.fixture
def schema() -> Iterator[str]:
    name = new_schema()
    yield name
    run_sql(f"DROP SCHEMA IF EXISTS {name} CASCADE")
    run_sql(f"DROP SCHEMA IF EXISTS {name}_moving CASCADE")


@pytest.fixture
def asked(folder: Path, schema: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[Namespace]:
    """To move a queue into a schema that another mover has taken."""
    monkeypatch.setattr(move_source, "_LOCK_SECONDS", 0.1)
    store = Store(SqliteDriver(folder / "tasks.db"))
    add(store, 1)
    store.close()
    with psycopg.connect(server_url(), autocommit=True) as other:
        other.execute("SELECT pg_advisory_lock(hashtextextended(%s, 0))", (f"{schema} move",))
        yield Namespace(source=str(folder / "tasks.db"), target=server_url(), schema=schema, cancel=False)


def begin(asked: Namespace) -> None:
    move_source.begin(
        Path(asked.source), move_source.Record(IdFactory().new(), asked.target, asked.schema, fenced=0, done=0)
    )


def test_whatever_stops_a_move_that_has_begun_it_says_how_to_go_on(asked: Namespace):
    begin(asked)
    with pytest.raises(TqError, match=r"another move into schema .*: run it again, or with --cancel to forget it"):
        run(asked)


def test_a_move_that_has_not_begun_has_nothing_to_go_on_with(asked: Namespace):
    with pytest.raises(StorageBusy, match=r"wait until it has ended$"):
        run(asked)
