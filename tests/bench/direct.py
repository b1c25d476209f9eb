"""A queue whose store is called directly: what is measured is the transaction, not the threads around it."""

from __future__ import annotations

import time
from itertools import islice

from tests.bench.measure import stopwatch
from tests.bench.workload import TYPE, payloads
from tq.clock import SystemClock
from tq.ids import IdFactory
from tq.models import ClaimedTask, Settlement, Succeeded, TaskType, Want, WorkerRecord
from tq.payload import encode
from tq.scheduler import Scheduler
from tq.storage.location import locate

BATCH = 100
BULK = 1000


class DirectStore:
    """Under NORMAL, so that the disk does not hide what the statements cost."""

    def __init__(self, address: str) -> None:
        ids, clock = IdFactory(), SystemClock()
        self._worker_id = ids.new()
        self._scheduler = Scheduler(clock, ids, TaskType)
        self._store = locate(address, "normal").opened()
        self._store.enlist_again(WorkerRecord(self._worker_id, "here", 0, "", clock.now()))

    def add_rate(self, n: int) -> float:
        """Add n tasks, one at a time; tasks in a second."""
        inputs = payloads(n)
        with stopwatch() as seconds:
            for input_ in inputs:
                self._store.add([self._scheduler.spec(TYPE, encode(input_))])
        return n / seconds()

    def add_in_bulk(self, n: int) -> None:
        inputs = iter(payloads(n))
        while batch := list(islice(inputs, BULK)):
            self._store.add([self._scheduler.spec(TYPE, encode(input_)) for input_ in batch])

    def claim_rate(self, n: int) -> float:
        """Claim and settle n of the tasks that were added, 100 a transaction; tasks in a second."""
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
