"""Whether adding, and claiming and settling, cost the same in a table that already has many rows.

    python -m tests.bench.table_size [--n 2000] [--repeats 5] [--rows 100000 1000000] [--store sqlite|postgres]

For each kind of row (finished; scheduled for the future; ready, but of a type that nobody here works on) and each size:

claim_KIND_SIZE     claim 100 and settle 100 a transaction, against an empty table, under NORMAL
add_KIND_SIZE       one at a time, against an empty table, under NORMAL
stats_KIND_SIZE     milliseconds of `stats()`

claim_postgres_KIND_SIZE, add_postgres_KIND_SIZE, stats_postgres_KIND_SIZE
                    the same on PostgreSQL
"""

from __future__ import annotations

import time
from contextlib import closing
from functools import partial

from tests.bench.direct import DirectStore
from tests.bench.measure import Figures, arguments, compare, report
from tests.bench.stores import STORES, BenchStore, add_store_option
from tests.bench.workload import TYPE, payload
from tq import TaskQueue
from tq.payload import encode

KINDS = ("finished", "scheduled", "foreign")

# A million rows in seconds: the database makes them itself, with ids of past days so that new tasks come after them.
# Both dialects take it, and both want the values in the text: they write parameters differently.
FILL = """
WITH RECURSIVE numbers (number) AS (SELECT 1 UNION ALL SELECT number + 1 FROM numbers WHERE number < {rows})
INSERT INTO tasks (id, type, input, created_at, updated_at, status, version, attempts, last_attempt_at, output,
    completed_at, run_after, worker_id, attempts_allowed)
SELECT '01800000-0000-7000-8000-' || substr('' || (1000000000000 + number), 2),
    '{type}', '{input}', {then}, {then}, {values}
FROM numbers"""
VALUES = {
    "finished": "'success', 2, 1, {then}, 'null', {then}, NULL, 'gone', 3",
    "scheduled": "'to-do', 0, 0, NULL, NULL, NULL, {later} + number * 0.001, NULL, NULL",
    "foreign": "'to-do', 0, 0, NULL, NULL, NULL, NULL, NULL, NULL",
}
COUNT_FINISHED = "INSERT INTO finished_counts (type, status, count) VALUES ('{type}', 'success', {rows})"


def fill(store: BenchStore, address: str, kind: str, rows: int) -> None:
    """Put rows into a new database as if tq had, with the kept counts that belong to them."""
    now = time.time()
    type_ = "foreign" if kind == "foreign" else TYPE
    values = VALUES[kind].format(then=now - 86_400, later=now + 86_400)
    text = encode(payload(0))
    statements = [FILL.format(rows=rows, type=type_, input=text, then=now - 86_400, values=values)]
    if kind == "finished":
        statements.append(COUNT_FINISHED.format(type=TYPE, rows=rows))
    with closing(store.raw(address, "normal")) as connection:
        connection.load(*statements)


def measure_kind(store: BenchStore, kind: str, rows: int, n: int, repeats: int) -> Figures:
    """The empty table keeps what was measured in it, as the filled one does: little beside a hundred thousand rows."""
    with store.new_database() as address, store.new_database() as empty_address:
        fill(store, address, kind, rows)
        with closing(DirectStore(address)) as filled, closing(DirectStore(empty_address)) as empty:
            for direct in (filled, empty):  # the first pages come from the disk, and the log grows to its size
                direct.add_rate(n)
                direct.claim_rate(n)
            figures = {
                "add": compare(partial(filled.add_rate, n), partial(empty.add_rate, n), repeats),
                "claim": compare(partial(filled.claim_rate, n), partial(empty.claim_rate, n), repeats),
                "stats": compare(filled.stats_milliseconds, empty.stats_milliseconds, repeats, "ms"),
            }
        figures["stats"].kind = "amount"
        check(address, kind, rows + (repeats + 1) * n)
    return {store.named(name, kind, str(rows)): figure for name, figure in figures.items()}


def check(address: str, kind: str, total: int) -> None:
    """The filled table must be one that tq could have made: its counts agree with its rows."""
    queue = TaskQueue().init(address)
    stats = queue.stats()
    queue.stop()
    assert stats["to-do"] + stats["success"] == total, f"{kind}: {stats}"


def measure(store: BenchStore, n: int, repeats: int, sizes: list[int]) -> Figures:
    figures: Figures = {}
    for rows in sizes:
        for kind in KINDS:
            figures |= measure_kind(store, kind, rows, n, repeats)
    return figures


def main() -> None:
    parser = arguments(__doc__, n=2000)
    parser.add_argument("--rows", type=int, nargs="+", default=[100_000, 1_000_000], help="sizes of the table")
    add_store_option(parser)
    options = parser.parse_args()
    store = STORES[options.store]
    report("table_size", options, store.about(), measure(store, options.n, options.repeats, options.rows))


if __name__ == "__main__":
    main()
