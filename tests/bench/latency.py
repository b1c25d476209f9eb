"""How long a task that another process adds waits for an idle worker, until its body starts.

    python -m tests.bench.latency [--n 60] [--repeats 3]

latency_p50, latency_p99     under NORMAL, against a bare datagram socket that wakes a raw claim
latency_full_p50             the same under FULL

Both workers are there all the time, and tasks go to them in turn, each after the one before it was done and a pause.
"""

from __future__ import annotations

import random
import socket
import sqlite3
import statistics
import time
from collections.abc import Callable
from pathlib import Path

from tests.bench import raw
from tests.bench.measure import Figure, Figures, arguments, new_database, report
from tests.bench.processes import WorkerProcess
from tests.bench.workload import TYPE, payload
from tq import TaskQueue

PAUSE_SECONDS = (0.02, 0.06)
WARM_UP = 3

Add = Callable[[dict[str, object]], object]


class RawAdder:
    """Inserts a task and rings the worker's bell."""

    def __init__(self, connection: sqlite3.Connection, bell: Path) -> None:
        self._connection = connection
        self._bell = str(bell)
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)

    def add(self, input_: dict[str, object]) -> None:
        raw.insert(self._connection, input_)
        self._socket.sendto(b"!", self._bell)

    def close(self) -> None:
        self._socket.close()
        self._connection.close()


def milliseconds_of_one(add: Add, worker: WorkerProcess, number: int) -> float:
    time.sleep(random.uniform(*PAUSE_SECONDS))
    add({**payload(number), "added_at": time.monotonic()})
    return float(worker.hear()) * 1000


def in_turn(n: int, durability: str) -> tuple[list[float], list[float]]:
    """The latencies of n tasks each, of tq and of the reference, sorted."""
    with new_database() as path, new_database() as raw_path:
        bell = raw_path.with_name("bell")
        queue = TaskQueue().init(path, durability=durability)
        reference = RawAdder(raw.connect(raw_path, durability), bell)
        mode = ("--durability", durability)
        with (
            WorkerProcess("worker", "tq-latency", str(path), *mode) as worker,
            WorkerProcess("worker", "raw-latency", str(raw_path), *mode, "--bell", str(bell)) as raw_worker,
        ):
            worker.say()
            raw_worker.say()
            pairs = [
                (
                    milliseconds_of_one(queue(TYPE).add, worker, number),
                    milliseconds_of_one(reference.add, raw_worker, number),
                )
                for number in range(WARM_UP + n)
            ]
        queue.stop()
        reference.close()
    ours, theirs = zip(*pairs[WARM_UP:], strict=True)
    return sorted(ours), sorted(theirs)


def p99(ordered: list[float]) -> float:
    return ordered[min(len(ordered) - 1, int(len(ordered) * 0.99))]


def measure(n: int, repeats: int) -> Figures:
    figures = {name: Figure("ratio", "ms") for name in ("latency_p50", "latency_p99", "latency_full_p50")}
    for _ in range(repeats):
        ours, theirs = in_turn(n, "normal")
        figures["latency_p50"].add(statistics.median(ours), statistics.median(theirs))
        figures["latency_p99"].add(p99(ours), p99(theirs))
        ours, theirs = in_turn(n, "full")
        figures["latency_full_p50"].add(statistics.median(ours), statistics.median(theirs))
    return figures


def main() -> None:
    options = arguments(__doc__, n=60, repeats=3).parse_args()
    report("latency", options, measure(options.n, options.repeats))


if __name__ == "__main__":
    main()
