"""Whether adding, and claiming and settling, cost the same in a table that already has many rows.

    python -m tests.bench.table_size [--n 2000] [--repeats 5] [--rows 100000 1000000]

For each kind of row (finished; scheduled for the future; ready, but of a type that nobody here works on) and each size:

claim_KIND_SIZE     claim 100 and settle 100 a transaction, against an empty table, under NORMAL
add_KIND_SIZE       one at a time, against an empty table, under NORMAL
stats_KIND_SIZE     milliseconds of `stats()`
"""

from __future__ import annotations

import time
from contextlib import closing
from functools import partial
from pathlib import Path

from tests.bench.measure import Figures, arguments, compare, new_database, report, stopwatch
from tests.bench.workload import TYPE, payload, payloads
from tq import TaskQueue
from tq.clock import SystemClock
from tq.ids import IdFactory
from tq.models import ClaimedTask, Settlement, Succeeded, TaskType, Want, WorkerRecord
from tq.payload import encode
from tq.scheduler import Scheduler
from tq.storage import sqlite_file
from tq.storage.sqlite import SqliteDriver
from tq.storage.store import Store

BATCH = 100
KINDS = ("finished", "scheduled", "foreign")

# A million rows in seconds: SQLite makes them itself, with ids of past days so that new tasks come after them.
FILL = """
WITH RECURSIVE numbers (number) AS (SELECT 1 UNION ALL SELECT number + 1 FROM numbers WHERE number < :rows)
INSERT INTO tasks (id, type, input, created_at, updated_at, status, version, attempts, last_attempt_at, output,
    completed_at, run_after, worker_id, attempts_allowed)
SELECT printf('01800000-%04x-7%03x-8%03x-%012x', number >> 12, number & 4095, number & 4095, number),
    :type, :input, :then, :then, {values}
FROM numbers"""
VALUES = {
    "finished": "'success', 2, 1, :then, 'null', :then, NULL, 'gone', 3",
    "scheduled": "'to-do', 0, 0, NULL, NULL, NULL, :later + number * 0.001, NULL, NULL",
    "foreign": "'to-do', 0, 0, NULL, NULL, NULL, NULL, NULL, NULL",
}


def fill(path: Path, kind: str, rows: int) -> None:
    """Put rows into a new database as if tq had, with the kept counts that belong to them."""
    TaskQueue().init(path).stop()
    now = time.time()
    type_ = "foreign" if kind == "foreign" else TYPE
    values = {"rows": rows, "type": type_, "input": encode(payload(0)), "then": now - 86_400, "later": now + 86_400}
    with closing(sqlite_file.connect(path, "normal")) as connection:
        connection.execute("PRAGMA synchronous = OFF").fetchall()
        connection.execute("BEGIN IMMEDIATE")
        connection.execute(FILL.format(values=VALUES[kind]), values)
        if kind == "finished":
            connection.execute("INSERT INTO finished_counts VALUES (?, 'success', ?)", (TYPE, rows))
        connection.execute("COMMIT")
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()


class Bench:
    """A queue whose store is called directly: what is measured is the transaction, not the threads around it."""

    def __init__(self, path: Path) -> None:
        ids, clock = IdFactory(), SystemClock()
        self._worker_id = ids.new()
        self._scheduler = Scheduler(clock, ids, TaskType)
        self._store = Store(SqliteDriver(path, "normal"))
        self._store.enlist_again(WorkerRecord(self._worker_id, "here", 0, "", clock.now()))

    def add_rate(self, n: int) -> float:
        inputs = payloads(n)
        with stopwatch() as seconds:
            for input_ in inputs:
                self._store.add([self._scheduler.spec(TYPE, encode(input_))])
        return n / seconds()

    def claim_rate(self, n: int) -> float:
        """Claim and settle n of the tasks that were added."""
        left = n
        settlements: list[Settlement] = []
        with stopwatch() as seconds:
            while left or settlements:
                wants = [Want(TYPE, min(BATCH, left))] if left else []
                exchange = self._store.exchange(self._worker_id, settlements, wants, time.time)
                assert not exchange.lost
                left -= len(exchange.claimed)
                settlements = [self._success(task) for task in exchange.claimed]
        return n / seconds()

    def _success(self, task: ClaimedTask) -> Settlement:
        return Settlement(task, self._scheduler.decide(task, Succeeded("null")))

    def stats_milliseconds(self) -> float:
        with stopwatch() as seconds:
            self._store.stats()
        return seconds() * 1000

    def close(self) -> None:
        self._store.close()


def measure_kind(kind: str, rows: int, n: int, repeats: int) -> Figures:
    """The empty table keeps what was measured in it, as the filled one does: little beside a hundred thousand rows."""
    with new_database() as path, new_database() as empty_path:
        fill(path, kind, rows)
        with closing(Bench(path)) as filled, closing(Bench(empty_path)) as empty:
            for bench in (filled, empty):  # the first pages come from the disk, and the log grows to its size
                bench.add_rate(n)
                bench.claim_rate(n)
            figures = {
                "add": compare(partial(filled.add_rate, n), partial(empty.add_rate, n), repeats),
                "claim": compare(partial(filled.claim_rate, n), partial(empty.claim_rate, n), repeats),
                "stats": compare(filled.stats_milliseconds, empty.stats_milliseconds, repeats, "ms"),
            }
        figures["stats"].kind = "amount"
        check(path, kind, rows + (repeats + 1) * n)
    return {f"{name}_{kind}_{rows}": figure for name, figure in figures.items()}


def check(path: Path, kind: str, total: int) -> None:
    """The filled table must be one that tq could have made: its counts agree with its rows."""
    queue = TaskQueue().init(path)
    stats = queue.stats()
    queue.stop()
    assert stats["to-do"] + stats["success"] == total, f"{kind}: {stats}"


def measure(n: int, repeats: int, sizes: list[int]) -> Figures:
    figures: Figures = {}
    for rows in sizes:
        for kind in KINDS:
            figures |= measure_kind(kind, rows, n, repeats)
    return figures


def main() -> None:
    parser = arguments(__doc__, n=2000)
    parser.add_argument("--rows", type=int, nargs="+", default=[100_000, 1_000_000], help="sizes of the table")
    options = parser.parse_args()
    report("table_size", options, measure(options.n, options.repeats, options.rows))


if __name__ == "__main__":
    main()
