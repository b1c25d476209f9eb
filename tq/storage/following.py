"""A program whose queue moves to another database follows it there, with its worker and what that has in its hands.

Every operation of the store is a function of a session, and its statements have the same names in every dialect: what
the old database refuses, because the queue has gone, runs in the new one as it is.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterable
from functools import partial
from typing import Any, Protocol, TypeVar

from tq.errors import MissingExtra, QueueMoved, StorageError
from tq.forking import renew_in_child
from tq.models import ClaimedTask, WorkerRecord
from tq.storage.address import shown
from tq.storage.driver import Autopsy, Driver, Presence, Row, Session

T = TypeVar("T")
log = logging.getLogger("tq")

# How long an operation waits for the last moments of a move: one that may come again, and one whose caller tries again.
_PATIENCE_SECONDS, _SHORT_PATIENCE_SECONDS = 30.0, 1.0
_PAUSE_SECONDS = 0.05


class OpensNew(Protocol):
    def __call__(self, url: str, *, schema: str) -> Driver: ...


class FollowingDriver:
    def __init__(self, open_old: Callable[[], Driver], open_new: OpensNew) -> None:
        self._open_new = open_new
        self._left_behind: Driver | None = None
        self.after_fork()
        renew_in_child(self)
        self._driver = self._opened(open_old)

    def after_fork(self) -> None:
        """A forked child has no worker: its parent's stay with the parent."""
        self._moving = threading.RLock()
        self._seats: set[FollowingPresence] = set()

    def _opened(self, open_old: Callable[[], Driver]) -> Driver:
        try:
            return self._patiently(open_old, _PATIENCE_SECONDS)
        except QueueMoved as moved:
            return self._new(moved)

    # --- operations ----------------------------------------------------------------------------------------------

    def write(self, operation: Callable[[Any], T], repeatable: bool = False, alone: bool = False) -> T:
        try:
            return self._driver.write(operation, repeatable, alone)
        except QueueMoved:
            patience = _PATIENCE_SECONDS if repeatable else _SHORT_PATIENCE_SECONDS
            return self._elsewhere(lambda driver: driver.write(operation, repeatable, alone), patience)

    def read(self, operation: Callable[[Any], T], patient: bool = True) -> T:
        try:
            return self._driver.read(operation, patient)
        except QueueMoved:
            patience = _PATIENCE_SECONDS if patient else _SHORT_PATIENCE_SECONDS
            return self._elsewhere(lambda driver: driver.read(operation, patient), patience)

    def enlist(self, worker: WorkerRecord) -> FollowingPresence:
        with self._moving:  # nobody may follow between the two lines
            seat = FollowingPresence(worker, self._enlisted(worker), self._seats.discard)
            self._seats.add(seat)
        return seat

    def _enlisted(self, worker: WorkerRecord) -> Presence:
        try:
            return self._driver.enlist(worker)
        except QueueMoved:
            return self._elsewhere(lambda driver: driver.enlist(worker), _PATIENCE_SECONDS)

    def autopsy(self, session: Session, worker: WorkerRecord) -> Autopsy | None:
        # Where another thread has followed meanwhile, a session of the old database meets the new driver; that declares
        # nobody dead before it has been open for as long as a lease.
        return self._driver.autopsy(session, worker)

    def seems_dead(self, session: Session, worker: WorkerRecord) -> bool:
        return self._driver.seems_dead(session, worker)

    def bury(self, worker: WorkerRecord) -> None:
        self._driver.bury(worker)

    def close(self) -> None:
        for driver in (self._left_behind, self._driver):
            if driver is not None:
                driver.close()

    # --- following -----------------------------------------------------------------------------------------------

    def _elsewhere(self, operation: Callable[[Driver], T], patience: float) -> T:
        """Once more, until the queue is back here or open there; then it is done there."""
        try:
            return self._patiently(lambda: operation(self._driver), patience)
        except QueueMoved as moved:
            with self._moving:
                self._follow(moved)
        return operation(self._driver)

    @staticmethod
    def _patiently(operation: Callable[[], T], patience: float) -> T:
        give_up_at = time.monotonic() + patience
        while True:
            try:
                return operation()
            except QueueMoved as moved:
                if moved.done:
                    raise
                if time.monotonic() >= give_up_at:
                    raise StorageError(str(moved)) from moved
            time.sleep(_PAUSE_SECONDS)

    def _follow(self, moved: QueueMoved) -> None:
        if self._left_behind is not None:  # another thread has
            return
        new = self._new(moved)
        try:
            _bring_along(self._seats, new)
        except BaseException:
            new.close()
            raise
        self._left_behind, self._driver = self._driver, new
        where = (shown(moved.target), moved.schema)
        log.warning("followed the queue to %s, schema %s; give this program that address when you restart it", *where)

    def _new(self, moved: QueueMoved) -> Driver:
        try:
            return self._checked(self._open_new(moved.target, schema=moved.schema), moved)
        except MissingExtra as error:
            text = f"the queue has moved to {shown(moved.target)}, and this program cannot follow: {error}"
            raise QueueMoved(text, moved.target, moved.schema, True, moved.move_id) from error
        except StorageError as error:  # which may pass
            raise StorageError(f"the queue has moved to {shown(moved.target)}, but: {error}") from error

    @staticmethod
    def _checked(driver: Driver, moved: QueueMoved) -> Driver:
        """The same address may lead elsewhere from here, or to a server that has lost its last moments."""
        try:
            if driver.read(_moved_in) == [(moved.move_id,)]:
                return driver
            raise StorageError(
                f"what this program finds there, in schema {moved.schema}, is not that queue; make the address lead to "
                "the same database everywhere, and look whether that has lost its last moments in a failover"
            )
        except BaseException:
            driver.close()
            raise


class FollowingPresence:
    """A worker's presence, wherever its queue lives."""

    def __init__(self, worker: WorkerRecord, presence: Presence, gone: Callable[[FollowingPresence], None]) -> None:
        self._worker = worker
        self._presence = presence
        self._gone = gone  # told when the worker leaves: whoever has left does not follow
        self._left_behind: list[Presence] = []

    def move(self, driver: Driver) -> None:
        """Show up in the new database. The old bell stays until the end: the worker may be sleeping on it."""
        presence = driver.enlist(self._worker)
        try:
            driver.write(partial(_insert, self._worker), repeatable=True)
        except BaseException:
            presence.drop()
            raise
        self._left_behind.append(self._presence)
        self._presence = presence
        self._left_behind[-1].ring()

    @property
    def counts_as_living(self) -> bool:
        return self._presence.counts_as_living

    def started(self, *tasks: ClaimedTask) -> None:
        self._presence.started(*tasks)

    def settled(self, task_id: str) -> None:
        self._presence.settled(task_id)

    def ring(self) -> None:
        self._presence.ring()

    def wait(self, seconds: float) -> bool:
        return self._presence.wait(seconds)

    def leave(self) -> None:
        self._gone(self)
        for presence in [*self._left_behind, self._presence]:
            presence.leave()

    def drop(self) -> None:
        self._gone(self)
        for presence in [*self._left_behind, self._presence]:
            presence.drop()


def _bring_along(seats: Iterable[FollowingPresence], driver: Driver) -> None:
    for seat in list(seats):
        seat.move(driver)


def _moved_in(session: Session) -> list[Row]:
    return session.rows("moved_in")


def _insert(worker: WorkerRecord, session: Session) -> int:
    return session.change("insert_worker", worker)
