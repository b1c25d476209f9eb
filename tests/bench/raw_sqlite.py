"""The reference on SQLite.

Its connection has tq's own settings, but for one: SQLite checkpoints by itself, every 1000 pages, as it does for
everybody who does not turn that off. tq turns it off and checkpoints under its write lock; without any checkpoint the
reference would be too cheap.
"""

from __future__ import annotations

import socket
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from tests.bench.raw import Row, row
from tests.bench.workload import TYPE
from tq.storage import sqlite_file
from tq.storage.migrate import migrate

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


class RawSqlite:
    """Who rings sends a datagram to a socket beside the file."""

    def __init__(self, address: str, durability: str) -> None:
        path = Path(address)
        self._bell_path = str(path.with_name("bell"))
        self._bell = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self._connection = sqlite_file.connect(path, durability)
        self._connection.execute("PRAGMA wal_autocheckpoint = 1000").fetchall()
        migrate(self._connection, path)

    def insert(self, input_: Any) -> None:
        self._connection.execute(INSERT, row(input_))

    def insert_many(self, inputs: Iterable[Any]) -> None:
        self._connection.execute("BEGIN IMMEDIATE")
        self._connection.executemany(INSERT, [row(input_) for input_ in inputs])
        self._connection.execute("COMMIT")

    def pump(self, settled: list[Row], count: int = 100) -> list[Row]:
        self._connection.execute("BEGIN IMMEDIATE")
        if settled:
            self._connection.executemany(SETTLE, settled)
        claimed = self._connection.execute(CLAIM, (time.time(), TYPE, count)).fetchall()
        self._connection.execute("COMMIT")
        return claimed

    def succeeded(self) -> int:
        ((count,),) = self._connection.execute("SELECT count(*) FROM tasks WHERE status = 'success'").fetchall()
        return int(count)

    def insert_and_ring(self, input_: Any) -> None:
        self.insert(input_)
        self._bell.sendto(b"!", self._bell_path)

    def listen(self) -> None:
        self._bell.bind(self._bell_path)

    def wait(self) -> None:
        self._bell.recv(64)

    def load(self, *statements: str) -> None:
        self._connection.execute("PRAGMA synchronous = OFF").fetchall()
        self._connection.execute("BEGIN IMMEDIATE")
        for statement in statements:
            self._connection.execute(statement)
        self._connection.execute("COMMIT")
        self._connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()

    def close(self) -> None:
        self._bell.close()
        self._connection.close()
