"""The databases that the programs of this folder use, and questions asked of them directly, past tq."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

import psycopg
import pytest


class PostgresSchema(NamedTuple):
    """A schema of a PostgreSQL, and the lease of the workers on it: short, so that nobody waits long for a death."""

    url: str
    schema: str
    lease: float = 1.5
    durability: str = "normal"  # "full" where the server itself crashes


Database: TypeAlias = Path | PostgresSchema


def on(*kinds: str) -> pytest.MarkDecorator:
    """The rig of a test is on these: `@on("sqlite", "postgres")`."""
    return pytest.mark.parametrize("rig", kinds, indirect=True)


def address(database: Database) -> tuple[str, dict[str, Any]]:
    """What `init` gets: where the queue is, and the options that it needs there."""
    if isinstance(database, PostgresSchema):
        return database.url, {"schema": database.schema, "lease": database.lease, "durability": database.durability}
    return str(database), {}


def rows(database: Database, statement: str, *parameters: object) -> list[tuple]:
    """Ask the database directly, past tq. Each ? stands for a parameter."""
    if isinstance(database, PostgresSchema):
        return _rows_of_schema(database, statement.replace("?", "%s"), parameters)
    with closing(sqlite3.connect(database, timeout=30)) as connection:
        return connection.execute(statement, parameters).fetchall()


def _rows_of_schema(database: PostgresSchema, statement: str, parameters: tuple[object, ...]) -> list[tuple]:
    path = f"-c search_path={database.schema}"
    with psycopg.connect(database.url, options=path, autocommit=True) as connection:
        cursor = connection.execute(statement, parameters)
        return cursor.fetchall() if cursor.description else []


def is_sound(database: Database) -> bool:
    """Whether the database itself finds nothing wrong. PostgreSQL has no such check: its rows must be readable."""
    if isinstance(database, PostgresSchema):
        return rows(database, "SELECT count(*) FROM tasks") == rows(database, "SELECT count(id) FROM tasks")
    return rows(database, "PRAGMA integrity_check") == [("ok",)]


def drop(database: Database) -> None:
    if isinstance(database, PostgresSchema):
        rows(database, f"DROP SCHEMA IF EXISTS {database.schema} CASCADE")
