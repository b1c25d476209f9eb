"""SQLite as a driver: one writing connection and one reading connection for each process.

Every write transaction is `BEGIN IMMEDIATE` under the write lock beside the database, every checkpoint too, and no
connection crosses a fork.
"""

from __future__ import annotations

import contextlib
import os
import sqlite3
import sys
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, TypeVar

from tq.errors import DatabaseReplaced, NotInitialised, StorageError
from tq.forking import quieten_for_fork
from tq.models import WorkerRecord
from tq.storage import bell, presence, sql, sqlite_file
from tq.storage.driver import Autopsy, Row
from tq.storage.group_commit import Entry, GroupCommit
from tq.storage.migrate import migrate, moved
from tq.storage.presence import LockFilePresence
from tq.storage.write_lock import WriteLock

T = TypeVar("T")

_CHECKPOINT_PAGES = 1000  # as many as SQLite itself would let gather, by the estimate below
_PAGES_PER_COMMIT = 2  # beside one for each changed row: a log that outgrows its first size costs every flush more
_CLOSE_SECONDS = 3.0  # how long `close` waits for whoever writes
_PATIENCE_SECONDS = 30.0  # how long a foreign program may hold the database before we say so


_NUMBERS_ARE_NAMES = (3, 12, 0) <= sys.version_info[:3] < (3, 12, 4)  # they warn of ?1, as of a name: gh-117995

_inherited: list[Any] = []  # what a forked child must neither use nor close


class SqliteSession:
    """Runs named statements on one connection. Every statement passes through `_execute`, but those that bracket them:
    the simulator puts its crashes and faults into these four methods."""

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

    def begin(self) -> None:
        self._connection.execute("BEGIN IMMEDIATE")

    def begin_reading(self) -> None:
        self._connection.execute("BEGIN")

    def commit(self) -> None:
        self._connection.execute("COMMIT")

    def checkpoint(self) -> None:
        self._connection.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchall()

    @property
    def in_transaction(self) -> bool:
        return self._connection.in_transaction

    @property
    def changes(self) -> int:
        return self._connection.total_changes

    def roll_back(self) -> None:
        self._connection.execute("ROLLBACK")

    def close(self) -> None:
        self._connection.close()

    def moved(self, path: Path) -> StorageError | None:
        return moved(self._connection, path)

    def rows(self, statement: str, parameters: Sequence[Any] = ()) -> list[Row]:
        return self._execute(statement, parameters).fetchall()

    def change(self, statement: str, parameters: Sequence[Any] = ()) -> int:
        return self._execute(statement, parameters).rowcount

    def change_each(self, statement: str, rows: Sequence[Sequence[Any]]) -> set[int]:
        return {at for at, row in enumerate(rows) if self._execute(statement, row).rowcount}


class SqliteDriver:
    def __init__(
        self,
        path: Path,
        durability: str = "full",
        *,
        statements: dict[str, str] | None = None,
        although_moved: bool = False,
        session: Callable[[sqlite3.Connection, dict[str, str]], SqliteSession] = SqliteSession,
        write_lock: Callable[[Path], WriteLock] = WriteLock,
    ) -> None:
        self.path = sqlite_file.located(path)
        self._name = str(self.path)
        self.folder = self.path.with_name(self.path.name + "-tq")
        self._durability = durability
        self._although_moved = although_moved  # for the mover alone
        self._statements = statements or known_statements()
        self._make_session = session
        self._make_lock = write_lock
        self._presences: list[LockFilePresence] = []
        self._closed = False
        self._reopening = threading.Lock()
        self._open()
        quieten_for_fork(self)

    def _open(self) -> None:
        sqlite_file.prepare(self.path)
        try:
            self.folder.mkdir(mode=0o700, exist_ok=True)
            self._lock = self._make_lock(self.folder / "write.lock")
        except OSError as error:
            raise sqlite_file.translate_os(error, self.folder) from error
        self._group: GroupCommit[SqliteSession] = GroupCommit(self._commit)
        self._reading = threading.RLock()  # reentrant for the sake of a signal handler that forks
        self._writer: SqliteSession | None = None
        self._reader: SqliteSession | None = None
        try:
            with self._lock.held():
                self._connect()
        except BaseException:
            self._close_connections()
            self._lock.close()
            raise
        self._file = self._identify()
        self._quiet = False
        self._forked = False
        self._pid = os.getpid()

    def _connect(self) -> None:
        try:
            connection = sqlite_file.connect(self.path, self._durability)
            self._writer = self._make_session(connection, self._statements)
            if not self._although_moved:
                self._refuse_if_moved(connection)
                migrate(connection, self.path)
            self._reader = self._session()
        except sqlite3.Error as error:
            raise sqlite_file.translate(error, self.path) from error

    def _refuse_if_moved(self, connection: sqlite3.Connection) -> None:
        gone = moved(connection, self.path)
        if gone is not None:
            raise gone

    def _session(self) -> SqliteSession:
        return self._make_session(sqlite_file.connect(self.path, self._durability), self._statements)

    def _close_connections(self) -> None:
        if self._reader is not None:
            self._reader.close()
            self._reader = None
        if self._writer is not None:
            self._writer.close()
            self._writer = None

    # --- writing -------------------------------------------------------------------------------------------------

    def write(self, operation: Callable[[Any], T], repeatable: bool = False, alone: bool = False) -> T:
        self._check_open()
        value: T = self._group.run(operation)
        return value

    def _commit(self, entries: list[Entry[SqliteSession]]) -> None:
        try:
            with self._lock.held():
                wake = self._commit_alone(entries)
        except OSError as error:  # of the lock file
            raise sqlite_file.translate_os(error, self.folder) from error
        except BaseException:
            self._lock.let_go()
            raise
        if wake:
            bell.ring_all(self.folder)

    def _commit_alone(self, entries: list[Entry[SqliteSession]]) -> bool:
        """Under the write lock. Answers whether workers should be woken."""
        self._check_open()  # another thread may have closed it while we waited
        self._check_file()
        try:
            session = self._writer = self._writer or self._session()
            session.rings = session.hungry = False
            pages = self._transact(session, entries) + _PAGES_PER_COMMIT
        except sqlite3.Error as error:
            self._drop_if_suspect(error)
            raise self._translated(error, self._writer) from error
        wake = session.rings and (self._lock.hungry or session.hungry)  # one commit may hold both, of two threads
        self._lock.hungry = session.hungry or (self._lock.hungry and not wake)
        self._checkpoint_if_due(session, pages)
        return wake

    def _transact(self, session: SqliteSession, entries: list[Entry[SqliteSession]]) -> int:
        """Run all operations and commit; answers with the number of changed rows."""
        before = session.changes
        committing = False
        try:
            self._begin(session)
            _run_operations(entries, session)  # a call, not a loop: an interrupt at its jump back is not caught on 3.13
            committing = True
            session.commit()
            _mark_as_done(entries)
        except BaseException as error:
            if committing and not session.in_transaction and not isinstance(error, Exception):
                _mark_as_done(entries)  # Ctrl-C, at the end of a commit that stands
            _roll_back(session)
            raise
        return session.changes - before

    def _begin(self, session: SqliteSession) -> None:
        """Start a write transaction. Only a foreign program can be in the way: the write lock holds ours apart."""
        _roll_back(session)  # what an interrupt may have left
        give_up_at = None
        while True:
            try:
                session.begin()
                return
            except sqlite3.OperationalError as error:
                give_up_at = give_up_at or time.monotonic() + _PATIENCE_SECONDS
                if not sqlite_file.is_busy(error) or time.monotonic() > give_up_at:
                    raise

    def _checkpoint_if_due(self, session: SqliteSession, pages: int) -> None:
        pages += self._lock.uncheckpointed
        self._lock.uncheckpointed = pages if pages < _CHECKPOINT_PAGES else 0
        if pages >= _CHECKPOINT_PAGES:
            with contextlib.suppress(sqlite3.Error):  # the commit stands; the next checkpoint will do
                session.checkpoint()

    def _drop_if_suspect(self, error: sqlite3.Error) -> None:
        """After an I/O error a connection may hold pages that never reached the disk: the next commit gets another."""
        if "I/O" in str(error) and self._writer is not None:
            session, self._writer = self._writer, None
            with contextlib.suppress(sqlite3.Error):
                session.close()

    # --- reading -------------------------------------------------------------------------------------------------

    def read(self, operation: Callable[[Any], T], patient: bool = True) -> T:
        self._check_open()
        with self._reading:
            self._check_open()  # another thread may have closed it while we waited
            self._check_file()
            try:
                session = self._reader = self._reader or self._session()
                return _snapshot(session, operation)
            except sqlite3.Error as error:
                raise self._translated(error, self._reader) from error

    def _translated(self, error: sqlite3.Error, session: SqliteSession | None) -> StorageError:
        """A move takes the tables away: no program can change them any more, however far it hangs behind."""
        gone = session.moved(self.path) if session is not None and "no such table" in str(error) else None
        return gone or sqlite_file.translate(error, self.path)

    # --- worker processes ----------------------------------------------------------------------------------------

    def enlist(self, worker: WorkerRecord) -> LockFilePresence:
        self._check_open()
        try:
            with self._lock.held():  # a new lock file must not be swept before it is locked
                # Nor may that of a worker who came and died since the list was read: it tells what had started.
                presence.sweep(self.folder, self._known_workers())
                seat = LockFilePresence(self.folder, worker.id)
                self._presences.append(seat)
        except OSError as error:
            raise sqlite_file.translate_os(error, self.folder) from error
        return seat

    def _known_workers(self) -> set[str]:
        return {row[0] for row in self.read(lambda session: session.rows("list_workers"))}

    def autopsy(self, session: SqliteSession, worker: WorkerRecord) -> Autopsy | None:
        return presence.autopsy(self.folder, worker)

    def seems_dead(self, session: SqliteSession, worker: WorkerRecord) -> bool:
        return presence.autopsy(self.folder, worker) is not None

    def bury(self, worker: WorkerRecord) -> None:
        presence.bury(self.folder, worker.id)

    # --- the file, and forks -------------------------------------------------------------------------------------

    def _identify(self) -> tuple[int, int] | None:
        try:
            status = os.stat(self._name)  # noqa: PTH116 (before every commit: a third of what Path.stat takes)
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
        if os.getpid() != self._pid:
            with self._reopening:  # the first of the child's threads opens, for all of them
                if os.getpid() != self._pid:
                    self.after_fork()
                    self._refuse_if_inherited()
                    self._open()

    def _refuse_if_inherited(self) -> None:
        """A connection that crossed a fork makes SQLite believe in locks that this process does not have: what it
        accepts can vanish."""
        if self._writer is not None or self._reader is not None:
            raise StorageError(
                f"this process was forked in the middle of a use of {self.path}, and cannot use it safely; "
                "fork outside of signal handlers and database operations, or start a new program"
            )

    def before_fork(self) -> None:
        """Close the connections. SQLite keeps the locks that a process has in its memory, which a child inherits, while
        the kernel gives the child none of them: what it then writes can vanish (reproduced)."""
        if self._closed or self._forked:
            return
        self._quiet = self._lock.keep_threads_out()
        if self._quiet:
            if not self._reading._is_owned():  # type: ignore[attr-defined]
                self._reading.acquire()
            with contextlib.suppress(sqlite3.Error):
                self._close_connections()

    def after_fork_in_parent(self) -> None:
        if self._quiet:
            if self._reading._is_owned():  # type: ignore[attr-defined]
                self._reading.release()
            self._lock.let_threads_in()
            self._quiet = False

    def after_fork(self) -> None:
        """In the child: let go of the parent's locks, and of connections that could not be closed before."""
        if self._closed or self._forked:
            return
        self._reopening = threading.Lock()
        _inherited.append((self._writer, self._reader))
        self._lock.drop()
        for seat in self._presences:
            seat.drop()
        self._presences.clear()
        self._forked, self._quiet = True, False

    def close(self) -> None:
        if self._closed:
            return
        self._closed = True
        if self._forked:  # all that could be closed is the parent's
            return
        if not self._lock.hold_within(_CLOSE_SECONDS):
            return  # a signal's handler inside our own transaction, or a stopped process: the end of ours closes it all
        try:
            with self._reading:
                self._close_connections()
        except sqlite3.Error as error:
            raise StorageError(f"{self.path}: {error}") from error
        finally:
            self._lock.let_go()
            self._lock.close()


def known_statements() -> dict[str, str]:
    """Those of the worker and whoever adds, and those of operators."""
    return sql.statements("sqlite") | sql.statements("sqlite", "operations")


def _snapshot(session: SqliteSession, operation: Callable[[Any], T]) -> T:
    """All statements of a reader see the same moment: no task is counted twice because it moved in between."""
    _roll_back(session)  # what an interrupt may have left
    try:
        session.begin_reading()
        return operation(session)
    finally:
        _roll_back(session)


def _roll_back(session: SqliteSession) -> None:
    # After a full disk SQLite has rolled back by itself; a second ROLLBACK would hide the first error.
    if session.in_transaction:
        session.roll_back()


def _run_operations(entries: list[Entry[SqliteSession]], session: SqliteSession) -> None:
    for entry in entries:
        entry.value = entry.operation(session)


def _mark_as_done(entries: list[Entry[SqliteSession]]) -> None:
    for entry in entries:
        entry.done = True


def _by_name(parameters: Sequence[Any]) -> dict[str, Any]:
    return {str(number): value for number, value in enumerate(parameters, 1)}
