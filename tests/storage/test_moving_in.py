"""tq moves into a database that a program already uses, or says why it cannot, and leaves it as it was."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from tq import TaskQueue
from tq.errors import DatabaseUnusable
from tq.storage.migrate import migrate


@pytest.fixture
def foreign(folder: Path) -> Iterator[sqlite3.Connection]:
    with closing(sqlite3.connect(folder / "app.db", timeout=0, isolation_level=None)) as connection:
        yield connection


@pytest.mark.parametrize("name", ["tasks", "settings", "workers"])
def test_a_table_of_the_same_name_is_refused_by_name(name: str, folder: Path, foreign: sqlite3.Connection):
    foreign.execute(f"CREATE TABLE {name} (mine TEXT)")
    with pytest.raises(DatabaseUnusable, match=f"a table named {name} that is not tq's"):
        TaskQueue().init(folder / "app.db")


def test_a_refused_database_is_not_left_locked(folder: Path, foreign: sqlite3.Connection):
    foreign.execute("CREATE TABLE settings (mine TEXT)")
    with pytest.raises(DatabaseUnusable) as refused:
        TaskQueue().init(folder / "app.db")
    foreign.execute("INSERT INTO settings VALUES ('still mine')")
    assert refused.value  # it holds the traceback, and so whatever was left open


def test_a_migration_that_fails_changes_nothing_and_holds_nothing(folder: Path, foreign: sqlite3.Connection):
    foreign.execute("CREATE TABLE mine (still TEXT)")
    foreign.execute("CREATE INDEX tasks_due ON mine (still)")  # what no check foresees
    with closing(sqlite3.connect(folder / "app.db", isolation_level=None)) as connection:
        with pytest.raises(sqlite3.Error):
            migrate(connection, folder / "app.db")
        foreign.execute("INSERT INTO mine VALUES ('mine')")
        assert [row[0] for row in foreign.execute("SELECT name FROM sqlite_master ORDER BY name")] == [
            "mine",
            "tasks_due",
        ]


def test_other_tables_are_left_alone(folder: Path, foreign: sqlite3.Connection):
    foreign.execute("CREATE TABLE customers (name TEXT)")
    foreign.execute("INSERT INTO customers VALUES ('Ada')")
    queue = TaskQueue().init(foreign)
    queue("greet").add("Ada")
    queue.stop()
    assert foreign.execute("SELECT name FROM customers").fetchall() == [("Ada",)]
    assert foreign.execute("SELECT type FROM tasks").fetchall() == [("greet",)]
