"""SQLite as a driver: one writing connection and one reading connection for each process.

Every write transaction is `BEGIN IMMEDIATE` under the write lock beside the database, every checkpoint too, and no
connection crosses a fork.
"""

from __future__ import annotations

import contextlib
import sqlite3
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, TypeVar

from tq.errors import DatabaseReplaced, NotInitialised, StorageError
from tq.forking import renew_in_child
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

_inherited: list[Any] = []  # what a forked child must neither use nor close


class SqliteSession:
    """Runs named statements on one connection. Every statement of tq passes through `_execute`."""

    __slots__ = ("_connection", "_sql", "hungry", "rings")

    def __init__(self, connection: sqlite3.Connection, statements: dict[str, str]) -> None:
        self._connection = connection
        self._sql = statements
        self.rings = False
        self.hungry = False

    def _execute(self, statement: str, parameters: Sequence[Any]) -> sqlite3.Cursor:
        return self._connection.execute(self._sql[statement], parameters)

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
        self.path = path.absolute()
        self.folder = self.path.with_name(self.path.name + "-tq")
        self._durability = durability
        self._statements = statements or sql.statements("sqlite")
        self._make_session = session
        self._make_lock = write_lock
        self._presences: list[LockFilePresence] = []
        self._closed = False
        self._open()
        renew_in_child(self)

    def _open(self) -> None:
        sqlite_file.prepare(self.path)
        self.folder.mkdir(mode=0o700, exist_ok=True)
        self._lock = self._make_lock(self.folder / "write.lock")
        self._group: GroupCommit[SqliteSession] = GroupCommit(self._commit)
        self._reading = threading.Lock()
        self._forked = False
        with self._lock.held():
            try:
                self._writer = sqlite_file.connect(self.path, self._durability)
                migrate(self._writer, self.path)
                self._reader = sqlite_file.connect(self.path, self._durability)
            except sqlite3.Error as error:
                raise sqlite_file.translate(error, self.path) from error
        self._session = self._make_session(self._writer, self._statements)
        self._read_session = self._make_session(self._reader, self._statements)
        self._file = self._identify()

    # --- writing -------------------------------------------------------------------------------------------------

    def write(self, operation: Callable[[Any], T]) -> T:
        self._check_open()
        value: T = self._group.run(operation)
        return value

    def _commit(self, entries: list[Entry[SqliteSession]]) -> None:
        with self._lock.held():
            session = self._session
            session.rings = session.hungry = False
            self._check_file()
            try:
                self._transact(session, entries)
            except sqlite3.Error as error:
                self._replace_if_suspect(error)
                raise sqlite_file.translate(error, self.path) from error
            wake = session.rings and self._lock.hungry
            self._lock.hungry = session.hungry or (self._lock.hungry and not wake)
            self._checkpoint_if_due()
        if wake:
            bell.ring_all(self.folder)

    def _transact(self, session: SqliteSession, entries: list[Entry[SqliteSession]]) -> None:
        before = self._writer.total_changes
        self._begin()
        try:
            for entry in entries:
                entry.value = entry.operation(session)
            self._writer.execute("COMMIT")
        except BaseException:
            _roll_back(self._writer)
            raise
        self._lock.uncheckpointed += self._writer.total_changes - before

    def _begin(self) -> None:
        """Start a write transaction. Only a foreign program can be in the way: the write lock holds ours apart."""
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

    def _replace_if_suspect(self, error: sqlite3.Error) -> None:
        """After an I/O error a connection may hold pages that never reached the disk: do not trust it again."""
        if "I/O" in str(error):
            with contextlib.suppress(sqlite3.Error):
                self._writer.close()
                self._writer = sqlite_file.connect(self.path, self._durability)
                self._session = self._make_session(self._writer, self._statements)

    # --- reading -------------------------------------------------------------------------------------------------

    def read(self, operation: Callable[[Any], T]) -> T:
        self._check_open()
        with self._reading:
            self._check_file()
            try:
                return self._snapshot(operation)
            except sqlite3.Error as error:
                raise sqlite_file.translate(error, self.path) from error

    def _snapshot(self, operation: Callable[[Any], T]) -> T:
        """All statements of a reader see the same moment: no task is counted twice because it moved in between."""
        try:
            self._reader.execute("BEGIN")
            return operation(self._read_session)
        finally:
            _roll_back(self._reader)

    # --- worker processes ----------------------------------------------------------------------------------------

    def enlist(self, worker: WorkerRecord) -> LockFilePresence:
        known = {row[0] for row in self.read(lambda session: session.rows("list_workers"))}
        with self._lock.held():  # a new lock file must not be swept before it is locked
            presence.sweep(self.folder, known)
            seat = LockFilePresence(self.folder, worker.id)
        self._presences.append(seat)
        return seat

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
            self._open()

    def after_fork(self) -> None:
        """Forget the parent's connections without closing them, and let go of its locks."""
        if self._closed or self._forked:
            return
        self._forked = True
        _inherited.append((self._writer, self._reader, self._session, self._read_session, self._lock))
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


def _roll_back(connection: sqlite3.Connection) -> None:
    # After a full disk SQLite has rolled back by itself; a second ROLLBACK would hide the first error.
    if connection.in_transaction:
        connection.execute("ROLLBACK")
