"""SQLite as a driver: one writing connection and one reading connection for each process.

Every write transaction is `BEGIN IMMEDIATE` under the write lock beside the database, every checkpoint too, and no
connection crosses a fork.
"""

from __future__ import annotations

import contextlib
import ctypes
import sqlite3
import sys
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, TypeVar

from tq.errors import DatabaseReplaced, DatabaseUnusable, NotInitialised, StorageError
from tq.forking import renew_in_child, rest_during_forks
from tq.models import WorkerRecord
from tq.storage import bell, presence, sql, sqlite_file
from tq.storage.driver import Autopsy, Row
from tq.storage.group_commit import Entry, GroupCommit
from tq.storage.migrate import migrate
from tq.storage.presence import LockFilePresence
from tq.storage.write_lock import WriteLock

T = TypeVar("T")

_CHECKPOINT_ROWS = 1000  # as many rows as SQLite would let pages gather
_PATIENCE_SECONDS = 30.0  # how long a foreign program may hold the database before we say so
_FORK_SECONDS = 10.0  # how long a fork waits for the end of a transaction
_NUMBERS_ARE_NAMES = (3, 12, 0) <= sys.version_info[:3] < (3, 12, 4)  # they warn of ?1, as of a name: gh-117995


class SqliteSession:
    """Runs named statements on one connection. Every statement of tq passes through `_execute`."""

    __slots__ = ("_connection", "_sql", "hungry", "rings")

    def __init__(self, connection: sqlite3.Connection, statements: dict[str, str]) -> None:
        self._connection = connection
        self._sql = statements
        self.rings = False
        self.hungry = False

    def _execute(self, statement: str, parameters: Sequence[Any]) -> sqlite3.Cursor:
        return self._connection.execute(
            self._sql[statement], _by_name(parameters) if _NUMBERS_ARE_NAMES else parameters
        )

    def rows(self, statement: str, parameters: Sequence[Any] = ()) -> list[Row]:
        return self._execute(statement, parameters).fetchall()

    def change(self, statement: str, parameters: Sequence[Any] = ()) -> int:
        return self._execute(statement, parameters).rowcount


class SqliteDriver:
    def __init__(
        self,
        path: Path,
        durability: str = "full",
        *,
        statements: dict[str, str] | None = None,
        session: Callable[[sqlite3.Connection, dict[str, str]], SqliteSession] = SqliteSession,
        write_lock: Callable[[Path], WriteLock] = WriteLock,
    ) -> None:
        self.path = sqlite_file.located(path)
        self.folder = self.path.with_name(self.path.name + "-tq")
        self._durability = durability
        self._statements = statements or sql.statements("sqlite")
        self._make_session = session
        self._make_lock = write_lock
        self._presences: list[LockFilePresence] = []
        self._closed = False
        self._suspect = False
        self._go_on: list[Callable[[], None]] = []
        self._opening = threading.Lock()
        self._open()
        renew_in_child(self)
        rest_during_forks(self)

    def _open(self) -> None:
        sqlite_file.prepare(self.path)
        self._lock = self._make_folder()
        self._group: GroupCommit[SqliteSession] = GroupCommit(self._commit)
        self._reading = threading.Lock()
        try:
            with self._lock.held():
                self._connect()
        except BaseException:
            self._lock.close()
            raise
        self._session = self._make_session(self._writer, self._statements)
        self._read_session = self._make_session(self._reader, self._statements)
        self._file = self._identify()
        self._forked = False  # last of all: until then a forked child has nothing but what is its parent's

    def _make_folder(self) -> WriteLock:
        try:
            self.folder.mkdir(mode=0o700, exist_ok=True)
            return self._make_lock(self.folder / "write.lock")
        except OSError as error:
            raise DatabaseUnusable(
                f"cannot use the folder {self.folder}: {error.strerror}; tq keeps its locks there, "
                "and must be able to create and write it"
            ) from error

    def _connect(self) -> None:
        try:
            self._writer = sqlite_file.connect(self.path, self._durability)
            try:
                migrate(self._writer, self.path)
                self._reader = sqlite_file.connect(self.path, self._durability)
            except BaseException:
                self._writer.close()
                raise
        except sqlite3.Error as error:
            raise sqlite_file.translate(error, self.path) from error

    # --- writing -------------------------------------------------------------------------------------------------

    def write(self, operation: Callable[[Any], T]) -> T:
        self._check_open()
        value: T = self._group.run(operation)
        return value

    def _commit(self, entries: list[Entry[SqliteSession]]) -> None:
        with self._lock.held():
            self._check_open()  # another thread may have closed it while we waited
            self._check_file()
            try:
                session = self._trusted_session()
                session.rings = session.hungry = False
                self._transact(session, entries)
            except sqlite3.Error as error:
                # After an I/O error a connection may hold pages that never reached the disk.
                self._suspect = self._suspect or "I/O" in str(error)
                raise sqlite_file.translate(error, self.path) from error
            wake = session.rings and self._lock.hungry
            self._lock.hungry = session.hungry or (self._lock.hungry and not wake)
            self._checkpoint_if_due()
        if wake:
            bell.ring_all(self.folder)

    def _transact(self, session: SqliteSession, entries: list[Entry[SqliteSession]]) -> None:
        before = self._writer.total_changes
        committing = False
        try:
            self._begin()
            _run_operations(entries, session)  # a call, not a loop: an interrupt at its jump back is not caught on 3.13
            committing = True
            self._writer.execute("COMMIT")
            _mark_done(entries)
        except BaseException as error:
            # A Ctrl-C that comes while SQLite commits is heard when the commit stands.
            if committing and not isinstance(error, sqlite3.Error) and not self._writer.in_transaction:
                _mark_done(entries)
            _roll_back(self._writer)
            raise
        self._lock.uncheckpointed += self._writer.total_changes - before

    def _begin(self) -> None:
        """Start a write transaction. Only a foreign program can be in the way: the write lock holds ours apart."""
        _roll_back(self._writer)  # what an interrupt may have left
        give_up_at = time.monotonic() + _PATIENCE_SECONDS
        while True:
            try:
                self._writer.execute("BEGIN IMMEDIATE")
                return
            except sqlite3.OperationalError as error:
                if not sqlite_file.is_busy(error) or time.monotonic() > give_up_at:
                    raise

    def _checkpoint_if_due(self) -> None:
        if self._lock.uncheckpointed >= _CHECKPOINT_ROWS:
            self._lock.uncheckpointed = 0
            with contextlib.suppress(sqlite3.Error):  # the commit stands; the next checkpoint will do
                self._writer.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchall()

    def _trusted_session(self) -> SqliteSession:
        """The writer's session; with a new connection, as soon as one can be had, where the old one is suspect."""
        if self._suspect:
            self._writer.close()
            self._writer = sqlite_file.connect(self.path, self._durability)
            self._session = self._make_session(self._writer, self._statements)
            self._suspect = False
        return self._session

    # --- reading -------------------------------------------------------------------------------------------------

    def read(self, operation: Callable[[Any], T]) -> T:
        self._check_open()
        with self._reading:
            self._check_open()  # another thread may have closed it while we waited
            self._check_file()
            try:
                return self._snapshot(operation)
            except sqlite3.Error as error:
                raise sqlite_file.translate(error, self.path) from error

    def _snapshot(self, operation: Callable[[Any], T]) -> T:
        """All statements of a reader see the same moment: no task is counted twice because it moved in between."""
        _roll_back(self._reader)  # what an interrupt may have left
        try:
            self._reader.execute("BEGIN")
            return operation(self._read_session)
        finally:
            _roll_back(self._reader)

    # --- worker processes ----------------------------------------------------------------------------------------

    def enlist(self, worker: WorkerRecord) -> LockFilePresence:
        self._check_open()
        with self._lock.held():  # a new lock file must not be swept before it is locked, nor while its owner is unknown
            presence.sweep(self.folder, self._known_workers())
            seat = LockFilePresence(self.folder, worker.id)
        self._presences.append(seat)
        return seat

    def _known_workers(self) -> set[str]:
        return {row[0] for row in self.read(lambda session: session.rows("list_workers"))}

    def autopsy(self, worker: WorkerRecord) -> Autopsy | None:
        return presence.autopsy(self.folder, worker)

    def bury(self, worker: WorkerRecord) -> None:
        presence.bury(self.folder, worker.id)

    # --- the file, and forks -------------------------------------------------------------------------------------

    def _identify(self) -> tuple[int, int] | None:
        try:
            status = self.path.stat()
        except FileNotFoundError:
            return None
        return status.st_dev, status.st_ino

    def _check_file(self) -> None:
        """A commit into a deleted or replaced file would succeed, and go nowhere (reproduced)."""
        if self._identify() != self._file:
            raise DatabaseReplaced(
                f"{self.path} was deleted or replaced while in use; put the file back, or restart this program"
            )

    def _check_open(self) -> None:
        if self._closed:
            raise NotInitialised(f"the queue on {self.path} was closed; call init() again to go on")
        if self._forked:
            with self._opening:
                if self._forked:
                    self._open()

    def before_fork(self) -> None:
        """A fork in the middle of a transaction would copy SQLite's own note that this process holds the write lock:
        the child could never write (reproduced)."""
        if self._closed or self._forked:
            return
        locks = ((self._lock.rest, self._lock.go_on), (self._reading.acquire, self._reading.release))
        self._go_on = [release for acquire, release in locks if acquire(timeout=_FORK_SECONDS)]

    def after_fork_in_parent(self) -> None:
        releases, self._go_on = self._go_on, []
        for release in releases:
            release()

    def after_fork(self) -> None:
        """Forget the parent's connections without closing them, and let go of its locks."""
        if self._closed or self._forked:
            return
        self._forked = True
        self._opening = threading.Lock()
        for connection in (self._writer, self._reader):
            _keep_for_ever(connection)
        self._lock.drop()
        for seat in self._presences:
            seat.drop()
        self._presences.clear()

    def close(self) -> None:
        if self._closed:
            return
        self._closed = True
        if self._forked:  # all that could be closed is the parent's
            return
        try:
            with self._lock.held(), self._reading:
                self._reader.close()
                self._writer.close()
        except sqlite3.Error as error:
            raise StorageError(f"{self.path}: {error}") from error
        finally:
            self._lock.close()


def _run_operations(entries: list[Entry[SqliteSession]], session: SqliteSession) -> None:
    for entry in entries:
        entry.value = entry.operation(session)


def _mark_done(entries: list[Entry[SqliteSession]]) -> None:
    for entry in entries:
        entry.done = True


def _roll_back(connection: sqlite3.Connection) -> None:
    # After a full disk SQLite has rolled back by itself; a second ROLLBACK would hide the first error.
    if connection.in_transaction:
        connection.execute("ROLLBACK")


def _keep_for_ever(connection: sqlite3.Connection) -> None:
    """A forked child must neither use nor close its parent's connections: not even when Python ends and clears up."""
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(connection))


def _by_name(parameters: Sequence[Any]) -> dict[str, Any]:
    return {str(number): value for number, value in enumerate(parameters, 1)}
