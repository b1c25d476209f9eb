"""Handlers that are plain functions run in threads: as many for each type as its worker count."""

from __future__ import annotations

import ctypes
import itertools
import queue
import threading
from collections.abc import Callable

from tq.clock import Clock
from tq.errors import TaskInterrupted, TaskTimeout
from tq.executor import Executor
from tq.lanes.job import Basket, Job, Strike
from tq.models import Outcome

_STRIKES = (TaskTimeout, TaskInterrupted)


class ThreadLane:
    """The threads of one type, fed by a SimpleQueue: it hands over in 0.4 µs, a pool takes 22 (measured)."""

    def __init__(
        self,
        name: str,
        executor: Executor,
        basket: Basket,
        clock: Clock,
        started: Callable[[str], None],
        stopping: Callable[[], bool],
    ) -> None:
        self._name = name
        self._executor = executor
        self._basket = basket
        self._clock = clock
        self._started = started
        self._stopping = stopping
        self._queue: queue.SimpleQueue[Job | None] = queue.SimpleQueue()
        self._threads: set[threading.Thread] = set()
        self._runners: dict[str, threading.Thread] = {}  # by task id
        self._abandoned: set[threading.Thread] = set()
        self._numbers = itertools.count(1)

    def start(self, jobs: list[Job]) -> None:
        wanted = min(jobs[0].kind.worker_count, len(jobs) + self._queue.qsize() + len(self._runners))
        for job in jobs:
            self._queue.put(job)
        while len(self._threads) < wanted:
            if not self._spawn():
                break

    def _spawn(self) -> bool:
        """Add a thread. Where the machine gives no more, those that there are will do; without any it is an error."""
        thread = threading.Thread(target=self._work, name=f"tq-{self._name}-{next(self._numbers)}", daemon=True)
        self._threads.add(thread)
        try:
            thread.start()
        except RuntimeError:
            self._threads.discard(thread)
            if not self._threads:
                raise
            return False
        return True

    def _work(self) -> None:
        me = threading.current_thread()
        while (job := self._queue.get()) is not None:
            self._runners[job.task.id] = me
            outcome = self._attempt(job)
            self._runners.pop(job.task.id, None)
            if job.abandoned:  # the attempt was settled without us, and another thread has our place, or may have it
                self._threads.discard(me)
                self._abandoned.discard(me)
                return
            self._basket.put(job, outcome, last=self._queue.empty())

    def _attempt(self, job: Job) -> Outcome:
        outcome = None
        try:
            self._started(job.task.id)
            job.begun_at = begun_at = self._clock.monotonic()
            outcome = self._executor.run(job.kind, job.task, lambda: self._stopping() or job.struck)
            job.seconds = self._clock.monotonic() - begun_at
        except _STRIKES:
            pass
        try:
            job.end()
            if job.struck:
                _let_it_arrive()
        except _STRIKES:  # it was on its way while the handler ended by itself
            job.end()
        return job.verdict(outcome)

    def strike(self, job: Job, by: Strike, why: str, now: float) -> None:
        thread = self._runners.get(job.task.id)
        if thread is not None and thread.ident is not None:
            ident = thread.ident
            job.strike(why, now, lambda: _raise_in(ident, by))

    def abandon(self, job: Job) -> None:
        job.abandoned = True
        thread = self._runners.get(job.task.id)
        if thread is not None:
            self._threads.discard(thread)
            self._abandoned.add(thread)
            if not self._queue.empty():
                self._spawn()

    def withdraw(self, concerns: Callable[[str], bool]) -> list[Job]:
        jobs: list[Job] = []
        while concerns(self._name):
            try:
                job = self._queue.get_nowait()
            except queue.Empty:
                break
            if job is not None:
                jobs.append(job)
        return jobs

    def overdue(self) -> int:
        return sum(thread.is_alive() for thread in list(self._abandoned))

    def close(self) -> None:
        self.withdraw(lambda type_: True)  # what has not started stays unstarted
        for _ in self._threads:
            self._queue.put(None)


def _raise_in(thread_id: int, error: Strike) -> None:
    """Raise an exception in another thread, at its next call or jump."""
    ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(thread_id), ctypes.py_object(error))


def _let_it_arrive() -> None:
    """Make the jumps at which an exception that is on its way arrives.

    It could be taken back instead, but Python would go on looking for it: every call in the program took up to half as
    long again from then on, and under a tracer Python 3.11 hung (measured).
    """
    for _ in range(1000):
        pass
