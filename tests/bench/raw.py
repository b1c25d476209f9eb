"""The reference: the same work on the same tables, in the fewest SQLite statements a careful person needs by hand.

It has no retries, no limits, no recovery, no threads and no second process to think of. Its connection has tq's own
settings, but for one: SQLite checkpoints by itself, every 1000 pages, as it does for everybody who does not turn that
off. tq turns it off and checkpoints under its write lock; without any checkpoint the reference would be too cheap.
"""

from __future__ import annotations

import json
import random
import sqlite3
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from tests.bench.workload import TYPE
from tq.storage import sqlite_file
from tq.storage.migrate import migrate

Row = tuple[Any, ...]
Body = Callable[[Any], Any]

INSERT = "INSERT INTO tasks (id, type, input, created_at, updated_at) VALUES (?1, ?2, ?3, ?4, ?4)"
CLAIM = """
UPDATE tasks SET status = 'in-progress', version = version + 1, attempts = attempts + 1, worker_id = 'raw',
    last_attempt_at = ?1, updated_at = ?1
WHERE id IN (SELECT id FROM tasks WHERE type = ?2 AND status = 'to-do' AND run_after IS NULL
    ORDER BY priority DESC, id LIMIT ?3)
RETURNING id, input, attempts"""
SETTLE = """
UPDATE tasks SET status = 'success', version = version + 1, output = ?1, completed_at = ?2, updated_at = ?2
WHERE id = ?3 AND status = 'in-progress'"""


def connect(path: Path, durability: str) -> sqlite3.Connection:
    connection = sqlite_file.connect(path, durability)
    connection.execute("PRAGMA wal_autocheckpoint = 1000").fetchall()
    migrate(connection, path)
    return connection


def new_id() -> str:
    """A UUIDv7, without a guard against a clock that goes back."""
    nanoseconds, noise = time.time_ns(), random.getrandbits(62)
    milliseconds, rest = divmod(nanoseconds, 1_000_000)
    head = f"{milliseconds:012x}"
    fraction = rest * 4096 // 1_000_000
    return f"{head[:8]}-{head[8:]}-7{fraction:03x}-{0x8000 | noise >> 48:04x}-{noise & 0xFFFFFFFFFFFF:012x}"


def row(input_: Any) -> Row:
    return new_id(), TYPE, json.dumps(input_), time.time()


def insert(connection: sqlite3.Connection, input_: Any) -> None:
    connection.execute(INSERT, row(input_))


def insert_many(connection: sqlite3.Connection, inputs: Iterable[Any]) -> None:
    connection.execute("BEGIN IMMEDIATE")
    connection.executemany(INSERT, [row(input_) for input_ in inputs])
    connection.execute("COMMIT")


def pump(connection: sqlite3.Connection, settled: list[Row], count: int = 100) -> list[Row]:
    """One transaction: write down what has ended, claim what comes next."""
    connection.execute("BEGIN IMMEDIATE")
    if settled:
        connection.executemany(SETTLE, settled)
    claimed = connection.execute(CLAIM, (time.time(), TYPE, count)).fetchall()
    connection.execute("COMMIT")
    return claimed


def drain(connection: sqlite3.Connection, body: Body) -> None:
    """Pump until nothing is left, with the bodies between two transactions."""
    settled: list[Row] = []
    while claimed := pump(connection, settled):
        settled = [run(body, task) for task in sorted(claimed)]


def run(body: Body, task: Row) -> Row:
    id_, input_, _ = task
    return json.dumps(body(json.loads(input_))), time.time(), id_
