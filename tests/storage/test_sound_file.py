"""A file that SQLite itself calls damaged is damaged to everybody who looks, even when it is not."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from tq.storage import sqlite_file
from tq.storage.sqlite import SqliteDriver


@pytest.fixture
def connection(folder: Path):
    SqliteDriver(folder / "tasks.db").close()
    with closing(sqlite_file.connect(folder / "tasks.db", "normal")) as opened:
        yield opened


def test_the_file_is_sound_when_every_table_has_rows(connection: sqlite3.Connection):
    """SQLite 3.40 looks for the other columns in the wrong place unless a key's columns come first."""
    for table in _tables(connection):
        columns = connection.execute(f"PRAGMA table_info({table})").fetchall()
        connection.execute(
            f"INSERT INTO {table} VALUES ({', '.join('?' for _ in columns)})", range(1, len(columns) + 1)
        )
    assert connection.execute("PRAGMA integrity_check").fetchall() == [("ok",)]


def _tables(connection: sqlite3.Connection) -> list[str]:
    found = connection.execute("SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT LIKE 'sqlite_%'")
    return [name for (name,) in found.fetchall() if name != "tq_schema"]
