"""Writers of one process share a commit: whoever comes while another commits waits, and goes with the next.

The first caller leads. It runs its own operation in its own thread, so a lone caller pays for no hand-over; the others
queue, and when the leader is done the first of them leads for all that wait. Under `synchronous=FULL`, where a commit
costs a disk flush, 32 callers get several times the throughput of one (see tests/bench).
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any, Generic, TypeVar

S = TypeVar("S")


class Entry(Generic[S]):
    """One caller's operation, and what became of it."""

    __slots__ = ("done", "error", "leads", "operation", "turn", "value")

    def __init__(self, operation: Callable[[S], Any]) -> None:
        self.operation = operation
        self.value: Any = None
        self.error: Exception | None = None
        self.done = False
        self.leads = False
        self.turn: threading.Lock | None = None

    def outcome(self) -> Any:
        if self.error is not None:
            raise self.error
        return self.value


class GroupCommit(Generic[S]):
    """`commit(entries)` runs the operations of all entries in one transaction, or raises and has changed nothing."""

    def __init__(self, commit: Callable[[list[Entry[S]]], None]) -> None:
        self._commit = commit
        self._guard = threading.Lock()
        self._busy = False
        self._waiting: list[Entry[S]] = []

    def run(self, operation: Callable[[S], Any]) -> Any:
        entry = Entry(operation)
        with self._guard:
            if self._busy:
                entry.turn = threading.Lock()
                entry.turn.acquire()
                self._waiting.append(entry)
            else:
                self._busy = entry.leads = True
        if entry.turn is not None:
            self._await_turn(entry)
        if entry.leads:
            self._lead(entry)
        return entry.outcome()

    def _await_turn(self, entry: Entry[S]) -> None:
        assert entry.turn is not None
        try:
            entry.turn.acquire()
        except BaseException:  # Ctrl-C: nobody may wait for a leader that has gone
            with self._guard:
                if entry in self._waiting:
                    self._waiting.remove(entry)
            if entry.leads:
                self._hand_over()
            raise

    def _lead(self, entry: Entry[S]) -> None:
        with self._guard:
            batch, self._waiting = [entry, *(other for other in self._waiting if other is not entry)], []
        try:
            self._commit_all(batch)
        except BaseException:  # Ctrl-C in the leader: the others go with the next one
            with self._guard:
                self._waiting = [other for other in batch if other is not entry and not other.done] + self._waiting
            raise
        finally:
            self._hand_over()
            for other in batch:
                if other is not entry and other.done and other.turn is not None:
                    other.turn.release()

    def _commit_all(self, batch: list[Entry[S]]) -> None:
        try:
            self._commit(batch)
        except Exception as error:
            if len(batch) == 1:
                batch[0].error = error
            else:  # one of them failed: each for itself, so that only that one hears of it
                for entry in batch:
                    self._commit_all([entry])
        for entry in batch:
            entry.done = True

    def _hand_over(self) -> None:
        with self._guard:
            if not self._waiting:
                self._busy = False
                return
            successor = self._waiting[0]
            successor.leads = True
        assert successor.turn is not None
        successor.turn.release()
