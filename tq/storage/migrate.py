"""Numbered migrations: the schema's version stands in `tq_schema`, and a program never runs on a newer one."""

from __future__ import annotations

import re
import sqlite3
from pathlib import Path

from tq.errors import DatabaseUnusable, SchemaTooNew
from tq.storage import sql


def migrate(connection: sqlite3.Connection, path: Path) -> None:
    """Bring the schema up to date. The caller holds the write lock, so two programs never migrate at once."""
    migrations = sql.migrations("sqlite")
    newest = migrations[-1][0]
    version = schema_version(connection)
    if version > newest:
        raise SchemaTooNew(
            f"{path} has schema version {version}, made by a newer tq; this one knows {newest}: upgrade tq-tasks"
        )
    if version == 0:
        _refuse_foreign_tables(connection, path)
    for number, script in migrations:
        if number > version:
            connection.executescript(f"BEGIN IMMEDIATE;\n{script}\n{_SET_VERSION.format(number)}COMMIT;")


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


def _refuse_foreign_tables(connection: sqlite3.Connection, path: Path) -> None:
    for _, script in sql.migrations("sqlite"):
        for name in re.findall(r"^CREATE TABLE (\w+)", script, re.MULTILINE):
            if _has_table(connection, name):
                raise DatabaseUnusable(f"{path} has a table named {name} that is not tq's; give tq a file of its own")


def _has_table(connection: sqlite3.Connection, name: str) -> bool:
    return bool(connection.execute("SELECT 1 FROM sqlite_master WHERE name = ? COLLATE NOCASE", (name,)).fetchall())
