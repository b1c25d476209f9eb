"""Numbered migrations: the schema's version stands in `tq_schema`, and a program never runs on a newer one."""

from __future__ import annotations

import re
import sqlite3
from pathlib import Path

from tq.errors import DatabaseUnusable, QueueMoved, SchemaTooNew
from tq.storage import sql
from tq.storage.address import shown


def migrate(connection: sqlite3.Connection, path: Path) -> None:
    """Bring the schema up to date. The caller holds the write lock, so two programs never migrate at once."""
    migrations = sql.migrations("sqlite")
    newest = migrations[-1][0]
    version = schema_version(connection)
    if version > newest:
        raise SchemaTooNew(
            f"{path} has schema version {version}, made by a newer tq; this one knows {newest}: upgrade tq-tasks"
        )
    for number, script in migrations:
        if number > version:
            _refuse_foreign_tables(connection, script, path)
            _apply(connection, f"BEGIN IMMEDIATE;\n{script}\n{_SET_VERSION.format(number)}COMMIT;")


_SET_VERSION = """
CREATE TABLE IF NOT EXISTS tq_schema (version INTEGER NOT NULL);
DELETE FROM tq_schema;
INSERT INTO tq_schema (version) VALUES ({});
"""


def schema_version(connection: sqlite3.Connection) -> int:
    if not _has_table(connection, "tq_schema"):
        return 0
    rows = connection.execute("SELECT version FROM tq_schema").fetchall()
    return int(rows[0][0]) if rows else 0


def moved(connection: sqlite3.Connection, path: Path) -> QueueMoved | None:
    """Where the queue in this file has gone, or is about to go; None while it lives here."""
    if not _has_table(connection, "tq_move"):
        return None
    for move_id, target, schema, done in connection.execute(_FENCED):
        if done:
            text = f"the queue in {path} has moved to {shown(target)}; point this program there"
        else:
            text = (
                f"the queue in {path} is being moved to {shown(target)}; wait for `tq move` to end, or if it was "
                "interrupted run it again, or with --cancel"
            )
        return QueueMoved(text, target, schema, bool(done), move_id)
    return None


_FENCED = "SELECT id, target, schema, done FROM tq_move WHERE fenced"


_CREATED_TABLE = re.compile(r"^CREATE TABLE (\w+)", re.MULTILINE)


def _refuse_foreign_tables(connection: sqlite3.Connection, script: str, path: Path) -> None:
    for name in _CREATED_TABLE.findall(script):
        if _has_table(connection, name):
            raise DatabaseUnusable(f"{path} has a table named {name} that is not tq's; give tq a file of its own")


def _apply(connection: sqlite3.Connection, script: str) -> None:
    try:
        connection.executescript(script)
    except BaseException:
        if connection.in_transaction:  # or the file stays locked for as long as somebody keeps the error
            connection.execute("ROLLBACK")
        raise


def _has_table(connection: sqlite3.Connection, name: str) -> bool:
    return bool(connection.execute("SELECT 1 FROM sqlite_master WHERE name = ? COLLATE NOCASE", (name,)).fetchall())
