"""What many tasks leave behind in PostgreSQL, which keeps the old version of every row that changes until it vacuums.

    python -m tests.bench.bloat [--n 200000] [--repeats 5] [--patience 180]

n tasks go through, 10,000 at a time: added in bulk, claimed, settled. Then, at once:

bloat_postgres_dead_rows              dead rows in the table, for each living one
bloat_postgres_table_bytes            size of the table, by task
bloat_postgres_index_bytes            size of its indexes, by task
bloat_postgres_claim                  claim 100 and settle 100 a transaction, against a new database

The server looks once in autovacuum_naptime (a minute, if nobody changed it) whether a table needs a vacuum, and all may
be over before. So the program waits for that, up to so many seconds of patience, and asks again:

bloat_postgres_vacuums                how often the server has vacuumed the table by itself; 0: the wait was in vain
bloat_postgres_dead_rows_vacuumed     as above
bloat_postgres_claim_vacuumed         as above
"""

from __future__ import annotations

import time
from contextlib import closing
from typing import NamedTuple

import psycopg

from tests.bench.direct import DirectStore
from tests.bench.measure import Figure, Figures, arguments, compare, report
from tests.bench.stores import STORES
from tq.storage.postgres_schema import DEFAULT_SCHEMA

POSTGRES = STORES["postgres"]
AT_ONCE = 10_000
MEASURED = 2000
_GIVE_UP_SECONDS = 10.0

OTHERS = """
SELECT count(*) FROM pg_stat_activity
WHERE datname = current_database() AND backend_type = 'client backend' AND pid != pg_backend_pid()"""
LEFT_BEHIND = f"""
SELECT n_dead_tup::float8 / greatest(n_live_tup, 1), pg_table_size(relid), pg_indexes_size(relid), autovacuum_count
FROM pg_stat_user_tables WHERE schemaname = '{DEFAULT_SCHEMA}' AND relname = 'tasks'"""


class LeftBehind(NamedTuple):
    """What the server says of the table."""

    dead_rows: float
    table_bytes: int
    index_bytes: int
    vacuums: int


def run_through(address: str, n: int) -> None:
    with closing(DirectStore(address)) as direct:
        for done in range(0, n, AT_ONCE):
            count = min(AT_ONCE, n - done)
            direct.add_in_bulk(count)
            direct.claim_rate(count)


def left_behind(address: str) -> LeftBehind:
    """Asks once those who used the table have gone: they report what they did when they end."""
    with psycopg.connect(address, autocommit=True) as connection:
        wait_until_alone(connection)
        (row,) = connection.execute(LEFT_BEHIND.encode()).fetchall()
    return LeftBehind(*row)


def wait_until_alone(connection: psycopg.Connection[tuple[int]]) -> None:
    give_up_at = time.monotonic() + _GIVE_UP_SECONDS
    while connection.execute(OTHERS).fetchall() != [(0,)]:
        if time.monotonic() > give_up_at:
            raise RuntimeError("somebody still uses the database")
        time.sleep(0.02)


def left_behind_by_vacuum(address: str, patience: float) -> LeftBehind:
    give_up_at = time.monotonic() + patience
    while not (found := left_behind(address)).vacuums and time.monotonic() < give_up_at:
        time.sleep(0.5)
    return found


def claim_rate(direct: DirectStore, n: int) -> float:
    direct.add_in_bulk(n)
    return direct.claim_rate(n)


def compare_claims(worn_address: str, new_address: str, n: int, repeats: int) -> Figure:
    with closing(DirectStore(worn_address)) as worn, closing(DirectStore(new_address)) as new:
        for direct in (worn, new):  # statements are prepared, pages come from the disk
            claim_rate(direct, n)
        return compare(lambda: claim_rate(worn, n), lambda: claim_rate(new, n), repeats)


def measure(n: int, repeats: int, patience: float) -> Figures:
    with POSTGRES.new_database() as worn, POSTGRES.new_database() as new:
        run_through(worn, n)
        at_once = left_behind(worn)
        claim = compare_claims(worn, new, min(n, MEASURED), repeats)
        later = left_behind_by_vacuum(worn, patience)
        claim_vacuumed = compare_claims(worn, new, min(n, MEASURED), repeats)
    figures = {
        "dead_rows": amount(at_once.dead_rows, "for each living row"),
        "table_bytes": amount(at_once.table_bytes / n, "bytes/task"),
        "index_bytes": amount(at_once.index_bytes / n, "bytes/task"),
        "claim": claim,
        "vacuums": amount(later.vacuums, "times"),
        "dead_rows_vacuumed": amount(later.dead_rows, "for each living row"),
        "claim_vacuumed": claim_vacuumed,
    }
    return {POSTGRES.named("bloat", name): figure for name, figure in figures.items()}


def amount(value: float, unit: str) -> Figure:
    return Figure("amount", unit, [value], [0.0])


def main() -> None:
    parser = arguments(__doc__, n=200_000)
    parser.add_argument("--patience", type=float, default=180.0, help="seconds to wait for a vacuum (180)")
    options = parser.parse_args()
    report("bloat", options, POSTGRES.about(), measure(options.n, options.repeats, options.patience))


if __name__ == "__main__":
    main()
