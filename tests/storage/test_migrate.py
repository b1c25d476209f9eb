"""Migrations: run once, by one program, and never over what is not tq's."""

from __future__ import annotations

import sqlite3
from pathlib import Path

import pytest

from tests.processes import child
from tq.errors import DatabaseUnusable, SchemaTooNew
from tq.storage import sql
from tq.storage.migrate import migrate, schema_version
from tq.storage.sqlite import SqliteDriver

NEWEST = sql.migrations("sqlite")[-1][0]


@pytest.fixture
def path(folder: Path) -> Path:
    return folder / "tasks.db"


@pytest.fixture
def connection(path: Path):
    connection = sqlite3.connect(path, isolation_level=None)
    yield connection
    connection.close()


def tables(connection: sqlite3.Connection) -> set[str]:
    return {row[0] for row in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}


def test_the_migrations_are_numbered_from_one_without_a_gap():
    assert [number for number, _ in sql.migrations("sqlite")] == list(range(1, NEWEST + 1))


def test_an_empty_database_gets_the_newest_schema(connection: sqlite3.Connection, path: Path):
    assert schema_version(connection) == 0
    migrate(connection, path)
    assert schema_version(connection) == NEWEST
    assert {"tasks", "attempts", "workers", "settings"} <= tables(connection)


def test_migrating_again_changes_nothing(connection: sqlite3.Connection, path: Path):
    migrate(connection, path)
    before = connection.total_changes
    migrate(connection, path)
    assert connection.total_changes == before


def test_programs_that_open_a_new_database_at_once_migrate_it_once(path: Path):
    def open_it() -> int:
        driver = SqliteDriver(path)
        version = schema_version(driver._writer._connection)
        driver.close()
        return version

    with child(open_it) as (_, first), child(open_it) as (_, second), child(open_it) as (_, third):
        assert [first(), second(), third()] == [NEWEST] * 3


def test_a_newer_schema_is_refused_and_left_alone(connection: sqlite3.Connection, path: Path):
    migrate(connection, path)
    connection.execute("UPDATE tq_schema SET version = 999")
    with pytest.raises(SchemaTooNew, match=r"999.*upgrade tq-tasks"):
        SqliteDriver(path)
    assert schema_version(connection) == 999


@pytest.mark.parametrize("name", ["tasks", "attempts", "settings", "workers", "TASKS"])
def test_a_foreign_table_with_a_name_of_ours_is_refused_and_left_alone(
    connection: sqlite3.Connection, path: Path, name: str
):
    connection.execute(f"CREATE TABLE {name} (mine TEXT)")
    with pytest.raises(DatabaseUnusable, match=name.lower()):
        SqliteDriver(path)
    assert tables(connection) == {name}


def test_a_programs_own_tables_stay_beside_ours(connection: sqlite3.Connection, path: Path):
    connection.execute("CREATE TABLE customers (name TEXT)")
    connection.execute("INSERT INTO customers VALUES ('Ada')")
    SqliteDriver(path).close()
    assert connection.execute("SELECT name FROM customers").fetchall() == [("Ada",)]
    assert "tasks" in tables(connection)


def test_a_migration_that_fails_leaves_the_version_before(connection: sqlite3.Connection, path: Path, monkeypatch):
    migrate(connection, path)
    broken = [*sql.migrations("sqlite"), (NEWEST + 1, "CREATE TABLE fresh (x); CREATE TABLE tasks (x);")]
    monkeypatch.setattr(sql, "migrations", lambda dialect: broken)
    with pytest.raises(sqlite3.OperationalError):
        migrate(connection, path)
    connection.rollback()
    assert schema_version(connection) == NEWEST
    assert "fresh" not in tables(connection)
