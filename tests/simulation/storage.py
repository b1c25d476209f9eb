"""The real SQLite storage, with a yield point and a possible fault before and after everything that can go wrong."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tq.models import WorkerRecord
from tq.storage import sql
from tq.storage.driver import Autopsy
from tq.storage.presence import SUFFIX, LockFilePresence
from tq.storage.sqlite import SqliteDriver, SqliteSession
from tq.storage.write_lock import WriteLock

if TYPE_CHECKING:
    from tests.simulation.processes import Process

STATEMENTS = sql.statements("sqlite")


class SimulatedSession(SqliteSession):
    def __init__(self, connection: sqlite3.Connection, statements: dict[str, str], process: Process) -> None:
        super().__init__(connection, statements)
        self._process = process
        process.connections.append(connection)

    def _execute(self, statement: str, parameters: Sequence[Any]) -> sqlite3.Cursor:
        self._process.at(statement)
        self._process.faults.before_statement(self._process, self._connection)
        return super()._execute(statement, parameters)

    def begin(self) -> None:
        self._process.at("BEGIN")
        self._process.faults.before_begin(self._process)
        super().begin()

    def commit(self) -> None:
        self._process.at("COMMIT")
        self._process.faults.before_statement(self._process, self._connection)
        super().commit()
        self._process.world.history.read_changes(self._connection, self._process.name, worker=self._process.worker_id)
        self._process.at("after COMMIT")  # to die here is to die without knowing that it was committed
        self._process.faults.after_commit(self._process)

    def checkpoint(self) -> None:
        self._process.at("checkpoint")
        super().checkpoint()


class SimulatedWriteLock(WriteLock):
    """The real lock file, which nobody ever has to wait for: waiting is done in virtual time."""

    def __init__(self, path: Path, process: Process) -> None:
        super().__init__(path)
        self._process = process
        self._closed = False

    def close(self) -> None:
        if not self._closed:
            self._closed = True
            super().close()

    @contextmanager
    def held(self) -> Iterator[None]:
        lock = self._process.world.write_lock
        self._process.take(lock)
        try:
            with super().held():
                yield
        finally:
            self._process.release(lock)


class SimulatedDriver(SqliteDriver):
    def __init__(
        self,
        process: Process,
        path: Path,
        statements: dict[str, str],
    ) -> None:
        self._process = process
        super().__init__(
            path,
            "normal",
            statements=statements,
            session=lambda connection, known: SimulatedSession(connection, known, process),
            write_lock=lambda lock_path: process.keep(SimulatedWriteLock(lock_path, process)),
        )

    def enlist(self, worker: WorkerRecord) -> LockFilePresence:
        self._process.at("enlist")
        return self._process.sit_down(super().enlist(worker))

    def autopsy(self, session: SqliteSession, worker: WorkerRecord) -> Autopsy | None:
        self._process.at("autopsy")
        if not (self.folder / (worker.id + SUFFIX)).exists():
            # Where the lock file is missing the process decides, and all virtual ones share a real one.
            return None if self._process.world.lives(worker.id) else Autopsy(None)
        return super().autopsy(session, worker)

    def bury(self, worker: WorkerRecord) -> None:
        self._process.at("bury")
        super().bury(worker)
