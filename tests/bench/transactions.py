"""What the two kinds of transactions cost, on both stores in turns: the figures of the cost model.

    python -m tests.bench.transactions

An *add* stores tasks, an *exchange* settles what has ended and claims what comes next. Each has a price of its own and
one for each task in it; they follow from transactions with 1 task and with 100, under FULL. See
docs/explanation/scaling.md.
"""

from __future__ import annotations

import argparse
import json
import time
from contextlib import ExitStack
from statistics import median
from typing import NamedTuple

from tests.bench.measure import stopwatch
from tests.bench.stores import STORES
from tests.bench.workload import TYPE, payloads
from tq.clock import SystemClock
from tq.ids import IdFactory
from tq.models import Settlement, Succeeded, TaskType, Want, WorkerRecord
from tq.payload import encode
from tq.scheduler import Scheduler
from tq.storage.location import locate

MANY = 100
CYCLES = {1: 20, MANY: 4}  # in a round, by tasks in a transaction


class Cost(NamedTuple):
    """Milliseconds."""

    add: float
    exchange: float


class Subject:
    def __init__(self, address: str) -> None:
        ids, clock = IdFactory(), SystemClock()
        self._worker = ids.new()
        self._scheduler = Scheduler(clock, ids, TaskType)
        self._store = locate(address, "full").opened()
        self._store.enlist_again(WorkerRecord(self._worker, "here", 0, "", clock.now()))

    def round(self, size: int) -> Cost:
        self._add(size)  # so that each exchange both settles and claims
        settlements = self._exchange([], size)
        costs = []
        for _ in range(CYCLES[size]):
            with stopwatch() as adding:
                self._add(size)
            with stopwatch() as exchanging:
                settlements = self._exchange(settlements, size)
            costs.append(Cost(adding() * 1000, exchanging() * 1000))
        self._exchange(settlements, 0)
        return medians(costs)

    def _add(self, size: int) -> None:
        self._store.add([self._scheduler.spec(TYPE, encode(input_)) for input_ in payloads(size)])

    def _exchange(self, settlements: list[Settlement], size: int) -> list[Settlement]:
        wants = [Want(TYPE, size)] if size else []
        claimed = self._store.exchange(self._worker, settlements, wants, time.time).claimed
        return [Settlement(task, self._scheduler.decide(task, Succeeded("null"))) for task in claimed]

    def close(self) -> None:
        self._store.close()


def medians(costs: list[Cost]) -> Cost:
    return Cost(*(median(each) for each in zip(*costs, strict=True)))


def model(one: Cost, many: Cost) -> dict[str, float]:
    """The price of a transaction, and of each task in it, in milliseconds."""
    figures = {}
    for kind, first, last in zip(Cost._fields, one, many, strict=True):
        each = (last - first) / (MANY - 1)
        figures |= {f"{kind}_fixed": round(first - each, 3), f"{kind}_each": round(each, 4)}
    return figures


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=20, help="how often the stores take turns (20)")
    rounds = parser.parse_args().rounds
    with ExitStack() as stack:
        subjects = {name: Subject(stack.enter_context(store.new_database())) for name, store in STORES.items()}
        costs: dict[tuple[str, int], list[Cost]] = {(name, size): [] for name in subjects for size in CYCLES}
        for _ in range(rounds):
            for (name, size), found in costs.items():
                found.append(subjects[name].round(size))
        for name, subject in subjects.items():
            one, many = (medians(costs[name, size]) for size in (1, MANY))
            print(json.dumps({"store": name, "rounds": rounds, **model(one, many)}))
            subject.close()


if __name__ == "__main__":
    main()
