"""The schema that holds a queue in PostgreSQL: its name, its version, and the statements that make it."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import psycopg

from tq.errors import InvalidOption, SchemaTooNew
from tq.storage import sql

DEFAULT_SCHEMA = "tq"
_NAME = re.compile(r"[a-z_][a-z0-9_]{0,47}")
Connection = psycopg.Connection[Any]


def checked_schema(name: Any) -> str:
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        raise InvalidOption(
            f"schema={name!r}: give a name of small letters, digits and underscores, up to 48, such as {DEFAULT_SCHEMA}"
        )
    return name


def migrate(connection: Connection, schema: str, filled_in: Callable[[str], str], name: str) -> None:
    """Bring the schema up to date, in the caller's transaction. Two programs never do so at once."""
    version = _schema_version(connection, schema)
    newest = sql.migrations("postgres")[-1][0]
    if version < newest:
        connection.execute("SELECT pg_advisory_xact_lock(hashtextextended($1, 0))", (migrations_lock(schema),))
        version = _schema_version(connection, schema)  # another program may have done it while we waited
    if version > newest:
        raise SchemaTooNew(
            f"schema {schema} of {name} has version {version}, made by a newer tq; this one knows {newest}: "
            "upgrade tq-tasks"
        )
    if version < newest:
        connection.execute(filled_in(ddl(version)).encode(), prepare=False)


def migrations_lock(schema: str) -> str:
    """What is held, by name, by whoever makes tables there, or puts others in their place."""
    return f"{schema} migrations"


def ddl(version: int = 0) -> str:
    """The statements that bring a schema from this version to the newest one."""
    scripts = [script for number, script in sql.migrations("postgres") if number > version]
    return "\n".join(
        [
            "CREATE SCHEMA IF NOT EXISTS {schema};",
            *scripts,
            "CREATE TABLE IF NOT EXISTS {schema}.tq_schema (version INTEGER NOT NULL);",
            "DELETE FROM {schema}.tq_schema;",
            f"INSERT INTO {{schema}}.tq_schema VALUES ({sql.migrations('postgres')[-1][0]});",  # noqa: S608 (a number)
        ]
    )


_HAS_VERSION = "SELECT 1 FROM pg_catalog.pg_tables WHERE schemaname = $1 AND tablename = 'tq_schema'"


def _schema_version(connection: Connection, schema: str) -> int:
    # Not by to_regclass(): after waiting for the lock it may answer from before (reproduced).
    if not connection.execute(_HAS_VERSION, (schema,)).fetchall():
        return 0
    rows = connection.execute(f'SELECT version FROM "{schema}".tq_schema'.encode()).fetchall()  # noqa: S608 (checked)
    return int(rows[0][0]) if rows else 0
