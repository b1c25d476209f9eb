"""Handlers that are plain functions run in threads: as many for each type as its worker count."""

from __future__ import annotations

import contextlib
import ctypes
import itertools
import os
import queue
import threading
from collections.abc import Callable

from tq.errors import TaskAborted, TaskInterrupted, TaskTimeout
from tq.lanes.job import Job, LaneParts, Strike, end_forked_child
from tq.models import Cancelled, Outcome, Released

_STRIKES = (TaskTimeout, TaskInterrupted, TaskAborted)


class ThreadLane:
    """The threads of one type, fed by a SimpleQueue: it hands over in 0.4 µs, a pool takes 22 (measured)."""

    def __init__(self, name: str, parts: LaneParts) -> None:
        self._name = name
        self._executor, self._basket, self._clock, self._started, self._stopping = parts
        self._pid = os.getpid()
        self._queue: queue.SimpleQueue[Job | None] = queue.SimpleQueue()  # None sends one thread home
        self._places = 0  # threads that serve the queue: neither sent home nor abandoned
        self._runners: dict[Job, threading.Thread] = {}  # an abandoned attempt may meet the next one of its task
        self._abandoned: set[threading.Thread] = set()
        self._numbers = itertools.count(1)

    def start(self, jobs: list[Job]) -> None:
        limit = jobs[0].kind.worker_count
        self._send_home(self._places - limit)
        for job in jobs:
            self._queue.put(job)
        self._hire(min(limit, self._queue.qsize() + len(self._runners)) - self._places)

    def _hire(self, count: int) -> None:
        """Add threads. Where the machine gives no more, those that there are will do; without any it is an error."""
        for _ in range(count):
            name = f"tq-{self._name}-{next(self._numbers)}"
            try:
                threading.Thread(target=self._work, name=name, daemon=True).start()
            except RuntimeError:
                if not self._places:
                    raise
                return
            self._places += 1

    def _send_home(self, count: int) -> None:
        for _ in range(count):
            self._queue.put(None)
            self._places -= 1

    def _work(self) -> None:
        me = threading.current_thread()
        while (job := self._queue.get()) is not None:
            self._runners[job] = me
            outcome = self._attempt(job)
            end_forked_child(self._pid)
            self._runners.pop(job, None)
            if job.abandoned:  # the attempt was settled without us, and another thread has our place, or may have it
                self._abandoned.discard(me)
                return
            self._basket.put(job, outcome, last=self._queue.empty())

    def _attempt(self, job: Job) -> Outcome:
        outcome = None
        try:
            if job.cancelled:
                return Cancelled(job.cancelled)
            try:
                self._started(job.task)
            except Exception:  # the disk is full: what cannot be listed as started must not start
                return Released()
            job.begun_at = begun_at = self._clock.monotonic()
            outcome = self._executor.run(
                job.kind, job.task, lambda: self._stopping() or job.struck, lambda: bool(job.cancelled)
            )
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
        thread = self._runners.get(job)
        if thread is not None and thread.ident is not None:
            ident = thread.ident
            job.strike(why, now, lambda: _raise_in(ident, by))

    def abandon(self, job: Job) -> None:
        self._places -= 1
        self._abandoned.add(self._runners[job])
        if not self._queue.empty():
            self._hire(1)

    def withdraw(self, concerns: Callable[[str], bool]) -> list[Job]:
        waiting: list[Job | None] = []
        with contextlib.suppress(queue.Empty):
            while concerns(self._name):
                waiting.append(self._queue.get_nowait())
        jobs = [job for job in waiting if job is not None]
        for _ in range(len(waiting) - len(jobs)):
            self._queue.put(None)
        return jobs

    def overdue(self) -> int:
        return sum(thread.is_alive() for thread in list(self._abandoned))

    def close(self) -> None:
        self.withdraw(lambda type_: True)  # what has not started stays unstarted
        self._send_home(self._places)


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
