"""Lines to a real PostgreSQL: a statement that waits for another transaction's lock passes the baton meanwhile.

Whether a statement waits is asked of the server itself, so a schedule stays a function of its seed: after each
statement, and after each end of a transaction, all others have either been answered or are known to wait.
"""

from __future__ import annotations

import select
from collections.abc import Callable
from typing import Any

import psycopg
from psycopg import pq

_IDLE, _ACTIVE = pq.TransactionStatus.IDLE, pq.TransactionStatus.ACTIVE
_SOON_MILLISECONDS = 2


class Line(psycopg.Connection[tuple[Any, ...]]):
    """A connection that tells the switchboard when its statement is not answered soon."""

    switchboard: Switchboard | None = None
    hold_on: Callable[[Callable[[], bool]], None]  # lets others go on until this is true
    waiting = False

    def wait(self, gen: Any, *arguments: Any, **options: Any) -> Any:
        if self.switchboard is None:
            return super().wait(gen, *arguments, **options)
        try:
            state = next(gen)
            while True:
                state = gen.send(self._ready(state))
        except StopIteration as end:
            return end.value

    def _ready(self, state: int) -> int:
        """Which of reading and writing is possible, once one is: both bits are those of psycopg."""
        assert self.switchboard is not None
        while not (ready := self.poll(state, _SOON_MILLISECONDS)):
            if self.switchboard.waits_for_others(self):
                self.waiting = True
                self.switchboard.waiting.append(self)
                self.hold_on(lambda: not self.waiting)
        return ready

    def poll(self, state: int, milliseconds: int) -> int:
        poll = select.poll()
        poll.register(self.pgconn.socket, (state & 1 and select.POLLIN) | (state & 2 and select.POLLOUT))
        events = [event for _, event in poll.poll(milliseconds)]
        return (1 if any(event & ~select.POLLOUT for event in events) else 0) | (
            2 if any(event & select.POLLOUT for event in events) else 0
        )

    @property
    def in_transaction(self) -> bool:
        return self.info.transaction_status != _IDLE

    @property
    def in_statement(self) -> bool:
        return self.info.transaction_status == _ACTIVE


class Switchboard:
    """All lines, the free ones and those that wait, and a line of our own to ask the server who waits for whom."""

    def __init__(self, url: str, schema: str) -> None:
        self._url = url
        self._options = f"-c synchronous_commit=off -c search_path={schema}"
        self.monitor = self._connect(Line)
        self.free: list[Line] = []
        self.waiting: list[Line] = []
        self._all: dict[int, Line] = {}

    def _connect(self, kind: type[Line]) -> Line:
        return kind.connect(
            self._url, autocommit=True, cursor_factory=psycopg.RawCursor, options=self._options, application_name="sim"
        )

    def line(self, hold_on: Callable[[Callable[[], bool]], None]) -> Line:
        line = self.free.pop() if self.free else self._connect(Line)
        line.switchboard, line.hold_on = self, hold_on
        return line

    def hang_up(self, line: Line) -> None:
        """Its transaction is rolled back before anybody else goes on."""
        if line in self.waiting:
            self.waiting.remove(line)
        if line.in_statement:
            self.monitor.execute("SELECT pg_terminate_backend($1, 10000)", (line.info.backend_pid,))
            line.pgconn.finish()
            self.look_again()
        else:
            self.end(line, b"ROLLBACK")
            self.free.append(line)

    def end(self, line: Line, how: bytes) -> None:
        if line.in_transaction:
            line.execute(how)
        self.look_again()

    def waits_for_others(self, line: Line) -> bool:
        """Whether it waits for somebody who can go on. Where all wait in a circle, the server picks who gives way."""
        me = line.info.backend_pid
        found = reached = self._holders({me})
        while found and me not in reached:
            found = self._holders(found) - reached
            reached = reached | found
        return bool(reached) and me not in reached

    def _holders(self, waiting: set[int]) -> set[int]:
        query = "SELECT DISTINCT unnest(pg_blocking_pids(pid)) FROM unnest($1::integer[]) AS pid"
        return {pid for (pid,) in self.monitor.execute(query, (list(waiting),)).fetchall()}

    def look_again(self) -> None:
        """A transaction has ended: who waited for it has its answer now, or waits for the next one."""
        for line in list(self.waiting):
            while not line.poll(1, _SOON_MILLISECONDS):
                if self.waits_for_others(line):
                    break
            else:
                self.waiting.remove(line)
                line.waiting = False
