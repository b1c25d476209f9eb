"""Writers of one process share a commit: whoever comes while another commits waits, and goes with the next.

The first caller leads. It runs its own operation in its own thread, so a lone caller pays for no hand-over; the others
queue, and when the leader is done the first of them leads for all that wait. Under `synchronous=FULL`, where a commit
costs a disk flush, 32 callers get several times the throughput of one (see tests/bench).

An exception may be raised between any two steps of a caller: by Ctrl-C, or when a handler that writes is interrupted.
So every step leaves a state that `_step_back` can put in order, and waking somebody twice does no harm.
"""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import Any, Generic, TypeVar

from tq.errors import StorageBusy

S = TypeVar("S")


class Entry(Generic[S]):
    """One caller's operation, and what became of it."""

    __slots__ = ("done", "error", "operation", "thread", "turn", "value")

    def __init__(self, operation: Callable[[S], Any]) -> None:
        self.operation = operation
        self.thread = threading.get_ident()
        self.value: Any = None
        self.error: Exception | None = None
        self.done = False
        self.turn: queue.SimpleQueue[None] | None = None  # what a caller waits on who does not lead at once

    def wake(self) -> None:
        if self.turn is not None:
            self.turn.put(None)

    def outcome(self) -> Any:
        if self.error is not None:
            raise self.error
        return self.value


class GroupCommit(Generic[S]):
    """`commit(entries)` runs the operations of all entries in one transaction, or raises. What it has not marked as
    done when it raises has changed nothing."""

    def __init__(self, commit: Callable[[list[Entry[S]]], None]) -> None:
        self._commit = commit
        self._guard = threading.RLock()  # reentrant, so that a signal's handler hears `_refuse_reentry`
        self._leader: Entry[S] | None = None
        self._batch: list[Entry[S]] = []  # what the leader commits
        self._waiting: list[Entry[S]] = []  # with the next leader in front, once it was chosen

    @staticmethod
    def _refuse_reentry() -> None:
        raise StorageBusy(
            "the queue was used inside one of its own database operations, by a signal handler or a finalizer of the "
            "same thread; set a flag there, and use the queue afterwards"
        )

    def run(self, operation: Callable[[S], Any]) -> Any:
        entry = Entry(operation)
        try:
            self._join(entry)
            if entry.turn is not None:
                entry.turn.get()
            if not entry.done:
                self._lead(entry)
        except BaseException:
            self._step_back(entry)
            raise
        return entry.outcome()

    def _join(self, entry: Entry[S]) -> None:
        with self._guard:
            if self._leader is None:
                self._leader = entry
                return
            if any(other.thread == entry.thread for other in (self._leader, *self._batch, *self._waiting)):
                self._refuse_reentry()
            entry.turn = queue.SimpleQueue()
            self._waiting.append(entry)

    def _lead(self, entry: Entry[S]) -> None:
        with self._guard:
            self._batch, self._waiting = [entry, *(other for other in self._waiting if other is not entry)], []
        self._commit_all(self._batch)
        with self._guard:
            self._hand_over()

    def _commit_all(self, batch: list[Entry[S]]) -> None:
        try:
            self._commit(batch)
        except Exception as error:
            failed = [entry for entry in batch if not entry.done]
            if len(failed) == 1 or isinstance(error, StorageBusy):  # to wait again, one by one, would take minutes
                for entry in failed:
                    entry.error, entry.done = error, True
            else:  # one of them failed: each for itself, so that only that one hears of it
                for entry in failed:
                    self._commit_all([entry])
        else:
            for entry in batch:
                entry.done = True

    def _hand_over(self) -> None:
        """Wake all who are done, and the next leader."""
        for other in self._batch:
            if other.done:
                other.wake()
        waiting = [other for other in self._batch if not other.done] + self._waiting
        successor = waiting[0] if waiting else None
        self._batch, self._waiting, self._leader = [], waiting, successor
        if successor is not None:
            successor.wake()

    def _step_back(self, entry: Entry[S]) -> None:
        """Leave, wherever the caller was interrupted; the others go on, what was not committed with the next leader."""
        left = False
        while not left:
            with suppress(BaseException):  # a second Ctrl-C; the first is on its way to the caller
                with self._guard:
                    self._leave(entry)
                left = True

    def _leave(self, entry: Entry[S]) -> None:
        entry.thread = 0  # it may still be committed by others, but its thread is free to come again
        if entry in self._waiting:
            self._waiting.remove(entry)
        if self._leader is entry:
            self._batch = [other for other in self._batch if other is not entry]
            self._hand_over()
        elif self._leader is not None:  # perhaps we were about to wake it
            self._leader.wake()
