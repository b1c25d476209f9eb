"""How long a task that another process adds waits for an idle worker, until its body starts.

    python -m tests.bench.latency [--n 60] [--repeats 3] [--store sqlite|postgres]

latency_p50, latency_p99     under NORMAL, against a bare datagram socket that wakes a raw claim
latency_full_p50             the same under FULL

latency_postgres_p50, latency_postgres_p99
                             on PostgreSQL, against an INSERT that notifies and wakes a raw claim

Both workers are there all the time, and tasks go to them in turn, each after the one before it was done and a pause.
"""

from __future__ import annotations

import random
import statistics
import time
from collections.abc import Callable

from tests.bench.measure import Figure, Figures, arguments, report
from tests.bench.processes import WorkerProcess
from tests.bench.stores import STORES, BenchStore, add_store_option, usual_mode
from tests.bench.workload import TYPE, payload
from tq import TaskQueue

PAUSE_SECONDS = (0.02, 0.06)
WARM_UP = 8  # psycopg prepares a statement when it comes for the sixth time

Add = Callable[[dict[str, object]], object]


def milliseconds_of_one(add: Add, worker: WorkerProcess, number: int) -> float:
    time.sleep(random.uniform(*PAUSE_SECONDS))
    add({**payload(number), "added_at": time.monotonic()})
    return float(worker.hear()) * 1000


def in_turn(store: BenchStore, n: int, durability: str) -> tuple[list[float], list[float]]:
    """The latencies of n tasks each, of tq and of the reference, sorted."""
    with store.new_database() as address, store.new_database() as raw_address:
        queue = TaskQueue().init(address, durability=durability)
        reference = store.raw(raw_address, durability)
        mode = ("--durability", durability)
        with (
            WorkerProcess("worker", "tq-latency", address, *mode) as worker,
            WorkerProcess("worker", "raw-latency", raw_address, *mode) as raw_worker,
        ):
            worker.say()
            raw_worker.say()
            pairs = [
                (
                    milliseconds_of_one(queue(TYPE).add, worker, number),
                    milliseconds_of_one(reference.insert_and_ring, raw_worker, number),
                )
                for number in range(WARM_UP + n)
            ]
        queue.stop()
        reference.close()
    ours, theirs = zip(*pairs[WARM_UP:], strict=True)
    return sorted(ours), sorted(theirs)


def p99(ordered: list[float]) -> float:
    return ordered[min(len(ordered) - 1, int(len(ordered) * 0.99))]


def measure(store: BenchStore, n: int, repeats: int) -> Figures:
    p50_name, p99_name = store.named("latency", "p50"), store.named("latency", "p99")
    figures = {name: Figure("ratio", "ms") for name in (p50_name, p99_name)}
    for _ in range(repeats):
        ours, theirs = in_turn(store, n, usual_mode(store))
        figures[p50_name].add(statistics.median(ours), statistics.median(theirs))
        figures[p99_name].add(p99(ours), p99(theirs))
        for label, mode in list(store.modes.items())[1:]:
            ours, theirs = in_turn(store, n, mode)
            figure = figures.setdefault(store.named("latency", label, "p50"), Figure("ratio", "ms"))
            figure.add(statistics.median(ours), statistics.median(theirs))
    return figures


def main() -> None:
    parser = arguments(__doc__, n=60, repeats=3)
    add_store_option(parser)
    options = parser.parse_args()
    store = STORES[options.store]
    report("latency", options, store.about(), measure(store, options.n, options.repeats))


if __name__ == "__main__":
    main()
