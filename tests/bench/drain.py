"""How fast one worker process with 8 threads drains tasks that do nothing, from the first body to the last.

    python -m tests.bench.drain [--n 10000] [--repeats 5]

drain_normal, drain_full     against a raw pump in a process: settle 100 and claim 100 a transaction, bodies inline
drain_async                  the same with handlers that are coroutines, under NORMAL
drain_3_processes            three worker processes on one file, against one
drain_4_kb                   4 kB of JSON in each task, against 216 bytes
"""

from __future__ import annotations

import time
from contextlib import ExitStack
from functools import partial
from itertools import islice
from pathlib import Path

from tests.bench import raw
from tests.bench.measure import Figures, arguments, compare, new_database, report
from tests.bench.processes import WorkerProcess
from tests.bench.workload import LARGE, SMALL, TYPE, Tally, payloads
from tq import TaskQueue

_GIVE_UP_SECONDS = 300.0


def drain_tq(n: int, durability: str, *, size: int = SMALL, processes: int = 1, coroutines: bool = False) -> float:
    with new_database() as path:
        queue = TaskQueue().init(path, durability=durability)
        inputs = iter(payloads(n, size))
        while batch := list(islice(inputs, 1000)):
            queue(TYPE).add_many(batch)
        flags = ["--coroutines"] if coroutines else []
        rate = drained(n, "tq-drain", path, durability, processes, *flags)
        assert queue.stats()["success"] == n
        queue.stop()
    return rate


def drain_raw(n: int, durability: str) -> float:
    with new_database() as path:
        connection = raw.connect(path, durability)
        inputs = iter(payloads(n))
        while batch := list(islice(inputs, 1000)):
            raw.insert_many(connection, batch)
        rate = drained(n, "raw-drain", path, durability, 1)
        (ended,) = connection.execute("SELECT count(*) FROM tasks WHERE status = 'success'").fetchall()
        assert ended == (n,)
        connection.close()
    return rate


def drained(n: int, role: str, path: Path, durability: str, processes: int, *flags: str) -> float:
    """Let processes loose on the database, all at once; tasks in a second."""
    tally_path = path.with_name("tally")
    tally = Tally(tally_path)
    options = (role, str(path), "--durability", durability, "--tally", str(tally_path), *flags)
    with ExitStack() as stack:
        workers = [
            stack.enter_context(WorkerProcess("worker", *options, "--slot", str(slot))) for slot in range(processes)
        ]
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


def measure(n: int, repeats: int) -> Figures:
    normal = partial(drain_tq, n, "normal")
    return {
        "drain_normal": compare(normal, partial(drain_raw, n, "normal"), repeats),
        "drain_full": compare(partial(drain_tq, n, "full"), partial(drain_raw, n, "full"), repeats),
        "drain_async": compare(partial(normal, coroutines=True), partial(drain_raw, n, "normal"), repeats),
        "drain_3_processes": compare(partial(normal, processes=3), normal, repeats),
        "drain_4_kb": compare(partial(normal, size=LARGE), normal, repeats),
    }


def main() -> None:
    options = arguments(__doc__, n=10_000).parse_args()
    report("drain", options, measure(options.n, options.repeats))


if __name__ == "__main__":
    main()
