"""How a worker process shows that it lives where no file is shared: a lease in the database, renewed by a thread.

The server's clock decides when a lease has run out. The worker itself counts from before each renewal was sent, so it
stops starting tasks before anybody else may take them over; what already runs then cannot be settled any more.
"""

from __future__ import annotations

import contextlib
import select
import socket
import threading
import time
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, NamedTuple, Protocol

from tq.errors import StorageError
from tq.models import ClaimedTask
from tq.storage.driver import Session

_BEATS = 3  # renewals in the time of one lease
_RETRY_SECONDS = 1.0
_PARTING_SECONDS = 1.0  # how long the end of a lease waits for a renewal that is under way
_LISTEN_AGAIN_SECONDS = 1.0
_LONGEST_WAIT_SECONDS = 86_400.0  # poll() takes no more than 24 days


def awake_seconds() -> float:
    """Seconds that never go back, and that go on while the machine sleeps: a lease runs out then too."""
    if hasattr(time, "CLOCK_BOOTTIME"):
        return time.clock_gettime(time.CLOCK_BOOTTIME)
    return time.monotonic()


class Timing(NamedTuple):
    """How time passes for a process that uses the database."""

    awake: Callable[[], float]  # seconds that go on while the machine sleeps, for leases
    monotonic: Callable[[], float]  # seconds that do not, for patience
    sleep: Callable[[float], None]


SYSTEM_TIMING = Timing(awake_seconds, time.monotonic, time.sleep)


class Server(Protocol):
    """What a presence needs of its driver."""

    lease_seconds: float
    listens: bool
    channel: str
    timing: Timing

    def write(self, operation: Callable[[Any], Any], repeatable: bool = False) -> Any: ...

    def change_apart(self, statement: str, parameters: Sequence[Any]) -> int: ...

    def connect(self) -> Any: ...


class LeasePresence:
    def __init__(self, server: Server, worker_id: str) -> None:
        self._server = server
        self._id = worker_id
        self._awake = server.timing.awake
        self._safe_until = self._awake() + server.lease_seconds
        self._left = threading.Event()
        self._dropped = False
        self._beating: threading.Thread | None = None
        self._hears, self._calls = socket.socketpair()
        for end in (self._hears, self._calls):
            end.setblocking(False)
        self._line: Any = None  # the connection that listens
        self._listen_at = 0.0
        self._start_beating()

    # --- the lease -----------------------------------------------------------------------------------------------

    def _start_beating(self) -> None:
        self._beating = threading.Thread(target=self._beat, args=(self._left.wait,), name="tq-lease", daemon=True)
        self._beating.start()

    def _beat(self, left_within: Callable[[float], bool]) -> None:
        pause = self._server.lease_seconds / _BEATS
        while not left_within(pause):
            renewed = False
            with contextlib.suppress(Exception):  # the worker's own loop says what is wrong with the database
                renewed = self.renew()
            pause = self._server.lease_seconds / _BEATS if renewed else min(_RETRY_SECONDS, pause)

    def renew(self) -> bool:
        """Prolong the lease; False if others have taken this worker for dead."""
        asked_at = self._awake()
        renewed = bool(self._server.change_apart("renew_lease", (self._id,)))
        if renewed:
            late = not self.counts_as_living
            self._safe_until = asked_at + self._server.lease_seconds
            if late:
                self.ring()  # the worker may claim again
        return renewed

    @property
    def counts_as_living(self) -> bool:
        return self._awake() <= self._safe_until

    def started(self, *tasks: ClaimedTask) -> None:
        if not self.counts_as_living:
            raise StorageError("this worker has not reached the database for too long, and starts nothing")
        for task in tasks:
            if task.last_chance and not self._server.write(partial(_mark_started, task), repeatable=True):
                raise StorageError(f"task {task.id} was no longer ours, and does not start")

    def settled(self, task_id: str) -> None:
        """Its settlement says so itself."""

    # --- the doorbell --------------------------------------------------------------------------------------------

    def ring(self) -> None:
        with contextlib.suppress(OSError):  # a full bell rings already, a closed one needs no ring
            self._calls.send(b"!")

    def wait(self, seconds: float) -> bool:
        poll = select.poll()
        poll.register(self._hears, select.POLLIN)
        line = self._listening()
        if line is not None:
            poll.register(line.fileno(), select.POLLIN)
            if self._notified(line):  # what came while we did something else
                return True
        elif self._server.listens:
            seconds = min(seconds, _LISTEN_AGAIN_SECONDS)
        rung = bool(poll.poll(min(max(0.0, seconds), _LONGEST_WAIT_SECONDS) * 1000))
        if rung:
            with contextlib.suppress(OSError):
                self._hears.recv(65536)
            if line is not None:
                self._notified(line)
        return rung

    def _listening(self) -> Any:
        """The connection that listens, made anew where it was lost; None while there is none."""
        if self._line is None and self._server.listens and self._awake() >= self._listen_at:
            self._listen_at = self._awake() + _LISTEN_AGAIN_SECONDS
            with contextlib.suppress(Exception):
                line = self._server.connect()
                line.execute(f'LISTEN "{self._server.channel}"'.encode())
                self._line = line
                self.ring()  # what was added before we listened was rung for in vain
        return self._line

    def _notified(self, line: Any) -> bool:
        heard = False
        try:
            line.pgconn.consume_input()
            while line.pgconn.notifies() is not None:
                heard = True
        except Exception:  # it was cut
            self._hang_up()
        return heard

    def _hang_up(self) -> None:
        line, self._line = self._line, None
        if line is not None:
            with contextlib.suppress(Exception):
                line.close()

    # --- the end -------------------------------------------------------------------------------------------------

    def leave(self) -> None:
        self.drop()

    @property
    def left(self) -> bool:
        return self._left.is_set()

    def drop(self) -> None:
        """End the lease at once, where the server can be reached: what is still owned need not wait for its end."""
        if self._dropped:
            return
        self._dropped = True
        self._left.set()
        self._safe_until = 0.0
        self._await_last_beat()  # which would prolong the lease after its end
        with contextlib.suppress(Exception):
            self._server.change_apart("end_lease", (self._id,))
        self._hang_up()
        for end in (self._hears, self._calls):
            end.close()

    def _await_last_beat(self) -> None:
        beating = self._beating
        if beating is not None and beating is not threading.current_thread():
            beating.join(_PARTING_SECONDS)


def _mark_started(task: ClaimedTask, session: Session) -> int:
    return session.change("mark_started", (task.id, task.version))
