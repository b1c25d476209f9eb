"""Handlers that are coroutines run on one event loop, in a thread of its own; each type within its worker count."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import threading
from collections import Counter, deque
from collections.abc import Callable

from tq.lanes.job import Job, LaneParts, Strike, end_forked_child
from tq.models import Cancelled, Released

log = logging.getLogger("tq")

_ANSWER_SECONDS = 0.25


class LoopLane:
    """All asynchronous types of a worker."""

    def __init__(self, parts: LaneParts) -> None:
        self._executor, self._basket, self._clock, self._started, self._stopping = parts
        self._pid = os.getpid()
        self._abandoned: set[Job] = set()
        self._current = _LoopThread(self._attempt)
        self._stuck: list[_LoopThread] = []  # blocked by a handler that was given up on

    def start(self, jobs: list[Job]) -> None:
        self._current.accept(jobs)

    async def _attempt(self, job: Job) -> None:
        if job.cancelled:
            self._basket.put(job, Cancelled(job.cancelled), last=not self._current.pending)
            return
        try:
            self._started(job.task)
        except Exception:  # the disk is full: what cannot be listed as started must not start
            self._basket.put(job, Released(), last=not self._current.pending)
            return
        job.begun_at = begun_at = self._clock.monotonic()
        outcome = await self._executor.run_async(
            job.kind, job.task, lambda: self._stopping() or job.struck, lambda: bool(job.cancelled)
        )
        end_forked_child(self._pid)
        job.seconds = self._clock.monotonic() - begun_at
        job.end()
        if job.abandoned:
            self._abandoned.discard(job)
        else:
            self._basket.put(job, job.verdict(outcome), last=not self._current.pending)

    def strike(self, job: Job, by: Strike, why: str, now: float) -> None:
        job.strike(why, now, lambda: self._cancel(job))

    def _cancel(self, job: Job) -> None:
        self._stuck = [thread for thread in self._stuck if thread.busy]
        for thread in (self._current, *self._stuck):
            thread.cancel(job)

    def abandon(self, job: Job) -> None:
        self._abandoned.add(job)
        if self._current.answers():
            self._current.forget(job)
        else:  # a handler blocks the loop: leave it alone with it, the others go on in a new one
            self._stuck.append(self._current)
            self._current = _LoopThread(self._attempt)
            self._current.accept(self._stuck[-1].retire())

    def withdraw(self, concerns: Callable[[str], bool]) -> list[Job]:
        return self._current.withdraw(concerns)

    def overdue(self) -> int:
        return len(self._abandoned)

    def close(self) -> None:
        self._current.retire()


class _LoopThread:
    """One event loop in one thread. Jobs wait in `pending` until their type has a free place."""

    def __init__(self, attempt: Callable[[Job], object]) -> None:
        self._attempt = attempt
        self._loop = asyncio.new_event_loop()
        self._lock = threading.Lock()
        self.pending: deque[Job] = deque()
        self._running: Counter[str] = Counter()
        self._admitted: dict[Job, None] = {}  # have a place, and have not begun: the loop may be blocked
        self._tasks: dict[Job, asyncio.Task[None]] = {}
        self._retired = False
        threading.Thread(target=self._run, name="tq-loop", daemon=True).start()

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        while True:
            try:
                self._loop.run_forever()
                break
            except BaseException:  # such as SystemExit in a task that a handler has started
                log.warning("a handler's own task tried to end the event loop, which goes on", exc_info=True)
        self._loop.close()

    def accept(self, jobs: list[Job]) -> None:
        with self._lock:
            self.pending.extend(jobs)
        self._loop.call_soon_threadsafe(self._admit)

    def _admit(self) -> None:
        with self._lock:
            waiting, self.pending = self.pending, deque()
            for job in waiting:
                if self._running[job.task.type] < job.kind.worker_count:
                    self._running[job.task.type] += 1
                    self._admitted[job] = None
                    self._tasks[job] = self._loop.create_task(self._occupy(job))
                else:
                    self.pending.append(job)

    async def _occupy(self, job: Job) -> None:
        with self._lock:
            if job not in self._admitted:  # it was withdrawn
                return
            del self._admitted[job]
        try:
            await self._attempt(job)  # type: ignore[misc]
        finally:
            self.forget(job)
            if self._retired and not self._tasks:
                self._loop.stop()

    def forget(self, job: Job) -> None:
        """Free the place of a job, once. Called on the loop, or while the loop answers."""
        with self._lock:
            if self._tasks.pop(job, None) is not None:
                self._running[job.task.type] -= 1
        if self.pending:
            self._loop.call_soon_threadsafe(self._admit)

    @property
    def busy(self) -> bool:
        return bool(self._tasks)

    def cancel(self, job: Job) -> None:
        task = self._tasks.get(job)
        if task is not None:
            self._loop.call_soon_threadsafe(task.cancel)

    def answers(self) -> bool:
        answered = threading.Event()
        self._loop.call_soon_threadsafe(answered.set)
        return answered.wait(_ANSWER_SECONDS)

    def withdraw(self, concerns: Callable[[str], bool]) -> list[Job]:
        with self._lock:
            jobs = [job for job in (*self._admitted, *self.pending) if concerns(job.task.type)]
            self.pending = deque(job for job in self.pending if not concerns(job.task.type))
            for job in jobs:
                if job in self._admitted:
                    del self._admitted[job], self._tasks[job]
                    self._running[job.task.type] -= 1
        return jobs

    def retire(self) -> list[Job]:
        """Stop when the last running handler has ended; hand back what had not started."""
        self._retired = True
        jobs = self.withdraw(lambda type_: True)
        if not self._tasks:
            with contextlib.suppress(RuntimeError):  # it has stopped already
                self._loop.call_soon_threadsafe(self._loop.stop)
        return jobs
