"""Writers of one process share a commit: whoever comes while another commits waits, and goes with the next.

The first caller leads. It runs its own operation in its own thread, so a lone caller pays for no hand-over; the others
queue, and when the leader is done the first of them leads for all that wait. Under `synchronous=FULL`, where a commit
costs a disk flush, 32 callers get several times the throughput of one (see tests/bench).

Ctrl-C, or the end of a handler's time, may interrupt a caller between any two lines. So nothing here is remembered in
a local variable alone: whoever is interrupted steps down, and stepping down can be repeated.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any, Generic, TypeVar

S = TypeVar("S")


class Entry(Generic[S]):
    """One caller's operation, and what became of it."""

    __slots__ = ("done", "error", "operation", "turn", "value")

    def __init__(self, operation: Callable[[S], Any]) -> None:
        self.operation = operation
        self.value: Any = None
        self.error: Exception | None = None
        self.done = False
        self.turn: threading.Lock | None = None  # what a caller sleeps on; the leader needs none

    def outcome(self) -> Any:
        if self.error is not None:
            raise self.error
        return self.value

    def wake(self) -> None:
        if self.turn is not None and self.turn.locked():
            self.turn.release()


class GroupCommit(Generic[S]):
    """`commit(entries)` runs the operations of all entries in one transaction, or raises and has changed nothing.

    Only an interrupt may meet it when the changes stand already: then it has marked its entries as done.
    """

    def __init__(self, commit: Callable[[list[Entry[S]]], None]) -> None:
        self._commit = commit
        self._guard = threading.Lock()
        self._leader: Entry[S] | None = None
        self._waiting: list[Entry[S]] = []  # all that are not done, the leader first

    def run(self, operation: Callable[[S], Any]) -> Any:
        entry = Entry(operation)
        try:
            self._take_part(entry)
            self._step_down(entry)
        except BaseException:  # an interrupt, perhaps while stepping down
            self._step_down(entry)
            raise
        return entry.outcome()

    def _take_part(self, entry: Entry[S]) -> None:
        self._enter(entry)
        while not self._may_go_on(entry):
            assert entry.turn is not None
            entry.turn.acquire()
        if not entry.done:
            self._commit_all(list(self._waiting))

    def _enter(self, entry: Entry[S]) -> None:
        with self._guard:
            if self._leader is None:
                self._leader = entry
            else:
                entry.turn = threading.Lock()
                entry.turn.acquire()
            self._waiting.append(entry)

    def _may_go_on(self, entry: Entry[S]) -> bool:
        with self._guard:
            return entry.done or self._leader is entry

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

    def _step_down(self, entry: Entry[S]) -> None:
        """Leave, done or interrupted; a leader wakes those that went with it, and the next to lead."""
        with self._guard:
            # A call, not a loop: an interrupt at a jump back inside a `with` block leaves it locked on Python 3.13.
            self._hand_over(entry)

    def _hand_over(self, entry: Entry[S]) -> None:
        if self._leader is not entry:
            self._waiting = [other for other in self._waiting if other is not entry]
            return
        for other in self._waiting:
            if other.done:
                other.wake()
        self._waiting = [other for other in self._waiting if other is not entry and not other.done]
        successor = self._waiting[0] if self._waiting else None
        if successor is not None:
            successor.wake()
        self._leader = successor
