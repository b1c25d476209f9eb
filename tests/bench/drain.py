"""How fast one worker process with 8 threads drains tasks that do nothing, from the first body to the last.

    python -m tests.bench.drain [--n 10000] [--repeats 5] [--store sqlite|postgres]

drain_normal, drain_full     against a raw pump in a process: settle 100 and claim 100 a transaction, bodies inline
drain_async                  the same with handlers that are coroutines, under NORMAL
drain_3_processes            three worker processes on one database, against one
drain_4_kb                   4 kB of JSON in each task, against 216 bytes

drain_postgres, drain_postgres_async, drain_postgres_3_processes, drain_postgres_4_kb
                             the same on PostgreSQL
"""

from __future__ import annotations

import tempfile
import time
from contextlib import ExitStack
from functools import partial
from itertools import islice
from pathlib import Path

from tests.bench.measure import Figures, arguments, compare, report
from tests.bench.processes import WorkerProcess
from tests.bench.stores import STORES, BenchStore, add_store_option, usual_mode
from tests.bench.workload import LARGE, SMALL, TYPE, Tally, payloads
from tq import TaskQueue

_GIVE_UP_SECONDS = 300.0


def drain_tq(
    store: BenchStore, n: int, durability: str, *, size: int = SMALL, processes: int = 1, coroutines: bool = False
) -> float:
    with store.new_database() as address:
        queue = TaskQueue().init(address, durability=durability)
        inputs = iter(payloads(n, size))
        while batch := list(islice(inputs, 1000)):
            queue(TYPE).add_many(batch)
        flags = ["--coroutines"] if coroutines else []
        rate = drained(n, processes, "tq-drain", address, "--durability", durability, *flags)
        assert queue.stats()["success"] == n
        queue.stop()
    return rate


def drain_raw(store: BenchStore, n: int, durability: str) -> float:
    with store.new_database() as address:
        connection = store.raw(address, durability)
        inputs = iter(payloads(n))
        while batch := list(islice(inputs, 1000)):
            connection.insert_many(batch)
        rate = drained(n, 1, "raw-drain", address, "--durability", durability)
        assert connection.succeeded() == n
        connection.close()
    return rate


def drained(n: int, processes: int, *options: str) -> float:
    """Let processes loose on the database, all at once; tasks in a second."""
    with tempfile.TemporaryDirectory(prefix="tq-bench-") as folder, ExitStack() as stack:
        tally_path = Path(folder) / "tally"
        tally = Tally(tally_path)
        places = [("--tally", str(tally_path), "--slot", str(slot)) for slot in range(processes)]
        workers = [stack.enter_context(WorkerProcess("worker", *options, *place)) for place in places]
        for worker in workers:
            worker.say()
        wait_for(n, tally, workers)
        return tally.rate()


def wait_for(n: int, tally: Tally, workers: list[WorkerProcess]) -> None:
    give_up_at = time.monotonic() + _GIVE_UP_SECONDS
    while tally.count() < n:
        if time.monotonic() > give_up_at or not all(worker.running() for worker in workers):
            raise RuntimeError(f"the workers ran {tally.count()} of {n} tasks")
        time.sleep(0.02)


def measure(store: BenchStore, n: int, repeats: int) -> Figures:
    figures = {
        store.named("drain", label): compare(
            partial(drain_tq, store, n, mode), partial(drain_raw, store, n, mode), repeats
        )
        for label, mode in store.modes.items()
    }
    usual = partial(drain_tq, store, n, usual_mode(store))
    raw = partial(drain_raw, store, n, usual_mode(store))
    return figures | {
        store.named("drain", "async"): compare(partial(usual, coroutines=True), raw, repeats),
        store.named("drain", "3_processes"): compare(partial(usual, processes=3), usual, repeats),
        store.named("drain", "4_kb"): compare(partial(usual, size=LARGE), usual, repeats),
    }


def main() -> None:
    parser = arguments(__doc__, n=10_000)
    add_store_option(parser)
    options = parser.parse_args()
    store = STORES[options.store]
    report("drain", options, store.about(), measure(store, options.n, options.repeats))


if __name__ == "__main__":
    main()
