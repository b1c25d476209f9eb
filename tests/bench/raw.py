"""The reference: the same work on the same tables, in the fewest statements a careful person needs by hand.

It has no retries, no limits, no recovery, no threads and no second worker to think of. `raw_sqlite.py` and
`raw_postgres.py` have the statements, and here is what they share.
"""

from __future__ import annotations

import json
import random
import time
from collections.abc import Callable, Iterable
from typing import Any, Protocol

from tests.bench.workload import TYPE

Row = tuple[Any, ...]
Body = Callable[[Any], Any]


class Raw(Protocol):
    """One connection to a database with tq's tables."""

    def insert(self, input_: Any) -> None:
        """One task, in a transaction of its own."""

    def insert_many(self, inputs: Iterable[Any]) -> None:
        """All of them in one transaction, in the way that is fastest here."""

    def pump(self, settled: list[Row], count: int = 100) -> list[Row]:
        """One transaction: write down what has ended, claim what comes next."""

    def succeeded(self) -> int: ...

    def insert_and_ring(self, input_: Any) -> None:
        """Insert a task and wake the process that listens."""

    def listen(self) -> None: ...

    def wait(self) -> None:
        """Sleep until somebody rings. What was rung since `listen` is not lost."""

    def load(self, *statements: str) -> None:
        """Run statements that fill the tables, and leave those as a database does that had time to tidy up."""

    def close(self) -> None: ...


def new_id() -> str:
    """A UUIDv7, without a guard against a clock that goes back."""
    nanoseconds, noise = time.time_ns(), random.getrandbits(62)
    milliseconds, rest = divmod(nanoseconds, 1_000_000)
    head = f"{milliseconds:012x}"
    fraction = rest * 4096 // 1_000_000
    return f"{head[:8]}-{head[8:]}-7{fraction:03x}-{0x8000 | noise >> 48:04x}-{noise & 0xFFFFFFFFFFFF:012x}"


def row(input_: Any) -> Row:
    return new_id(), TYPE, json.dumps(input_), time.time()


def drain(connection: Raw, body: Body) -> None:
    """Pump until nothing is left, with the bodies between two transactions."""
    settled: list[Row] = []
    while claimed := connection.pump(settled):
        settled = [run(body, task) for task in sorted(claimed)]


def run(body: Body, task: Row) -> Row:
    id_, input_, _ = task
    return json.dumps(body(json.loads(input_))), time.time(), id_
