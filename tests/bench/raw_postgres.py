"""The reference on PostgreSQL, in the default schema of a database.

Every statement is prepared. One that stands alone commits by itself and so needs one round trip; two that belong
together travel in one pipeline. Claims skip what others hold, as tq's do.
"""

from __future__ import annotations

import time
from collections.abc import Iterable
from typing import Any

import psycopg

from tests.bench.raw import Row, row
from tests.bench.workload import TYPE
from tq.storage.location import locate
from tq.storage.postgres_schema import DEFAULT_SCHEMA

INSERT = b"INSERT INTO tasks (id, type, input, created_at, updated_at) VALUES ($1, $2, $3, $4, $4)"
INSERT_AND_RING = b"WITH accepted AS (" + INSERT + b" RETURNING id) SELECT pg_notify('raw', '') FROM accepted"
COPY = b"COPY tasks (id, type, input, created_at, updated_at) FROM STDIN"
CLAIM = b"""
UPDATE tasks SET status = 'in-progress', version = version + 1, attempts = attempts + 1, worker_id = 'raw',
    last_attempt_at = $1, updated_at = $1
WHERE id = ANY (ARRAY(SELECT id FROM tasks WHERE type = $2 AND status = 'to-do' AND run_after IS NULL
    ORDER BY priority DESC, id LIMIT $3 FOR UPDATE SKIP LOCKED))
RETURNING id, input, attempts"""
SETTLE = b"""
UPDATE tasks AS task SET status = 'success', version = task.version + 1, output = done.output, completed_at = $1,
    updated_at = $1
FROM unnest($2::text[], $3::text[]) AS done (id, output)
WHERE task.id = done.id AND task.status = 'in-progress'"""


class RawPostgres:
    """Who rings notifies a second connection, which listens."""

    def __init__(self, address: str, durability: str) -> None:
        locate(address, durability).opened().close()  # makes the tables
        commit = "on" if durability == "full" else "off"
        self._address = address
        self._options = f"-c search_path={DEFAULT_SCHEMA} -c synchronous_commit={commit}"
        self._connection = self._connect()
        self._line: psycopg.Connection[Row] | None = None

    def _connect(self) -> psycopg.Connection[Row]:
        return psycopg.connect(self._address, autocommit=True, cursor_factory=psycopg.RawCursor, options=self._options)

    def insert(self, input_: Any) -> None:
        self._connection.execute(INSERT, row(input_), prepare=True)

    def insert_many(self, inputs: Iterable[Any]) -> None:
        with self._connection.cursor() as cursor, cursor.copy(COPY) as copy:
            for input_ in inputs:
                id_, type_, text, now = row(input_)
                copy.write_row((id_, type_, text, now, now))

    def pump(self, settled: list[Row], count: int = 100) -> list[Row]:
        if not settled:
            return self._claim(count).fetchall()
        with self._connection.pipeline(), self._connection.transaction():
            outputs, _, ids = zip(*settled, strict=True)
            self._connection.execute(SETTLE, (time.time(), list(ids), list(outputs)), prepare=True)
            claimed = self._claim(count)
        return claimed.fetchall()

    def _claim(self, count: int) -> psycopg.Cursor[Row]:
        return self._connection.execute(CLAIM, (time.time(), TYPE, count), prepare=True)

    def succeeded(self) -> int:
        ((count,),) = self._connection.execute("SELECT count(*) FROM tasks WHERE status = 'success'").fetchall()
        return int(count)

    def insert_and_ring(self, input_: Any) -> None:
        self._connection.execute(INSERT_AND_RING, row(input_), prepare=True)

    def listen(self) -> None:
        self._line = self._connect()
        self._line.execute("LISTEN raw")

    def wait(self) -> None:
        assert self._line is not None
        for _ in self._line.notifies(stop_after=1):
            pass

    def load(self, *statements: str) -> None:
        with self._connection.transaction():
            for statement in statements:
                self._connection.execute(statement.encode())
        self._connection.execute("VACUUM (ANALYZE) tasks")
        self._connection.execute("CHECKPOINT")

    def close(self) -> None:
        self._connection.close()
        if self._line is not None:
            self._line.close()
