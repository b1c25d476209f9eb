"""The real SQLite storage, with a yield point and a possible fault before and after everything that can go wrong."""

from __future__ import annotations

import sqlite3
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tests.simulation.database import Change
from tests.simulation.history import Row
from tq.models import WorkerRecord
from tq.storage import sqlite_file
from tq.storage.driver import Autopsy
from tq.storage.presence import SUFFIX, LockFilePresence
from tq.storage.sqlite import SqliteDriver, SqliteSession, known_statements
from tq.storage.write_lock import WriteLock

if TYPE_CHECKING:
    from tests.simulation.processes import Process

STATEMENTS = known_statements()
MEMORY = Path("/dev/shm")


def _columns(row: str) -> str:
    return ", ".join(f"{row}.{name}" for name in Row._fields)


_NONE = ", ".join("NULL" for _ in Row._fields)

AUDIT = f"""
CREATE TABLE audit (n INTEGER PRIMARY KEY, what, subject, name, value,
    {", ".join("old_" + name for name in Row._fields)}, {", ".join("new_" + name for name in Row._fields)});
CREATE TRIGGER audit_insert AFTER INSERT ON tasks BEGIN
    INSERT INTO audit SELECT NULL, 'changed', new.id, NULL, NULL, {_NONE}, {_columns("new")}; END;
CREATE TRIGGER audit_update AFTER UPDATE ON tasks BEGIN
    INSERT INTO audit SELECT NULL, 'changed', new.id, NULL, NULL, {_columns("old")}, {_columns("new")}; END;
CREATE TRIGGER audit_delete AFTER DELETE ON tasks BEGIN
    INSERT INTO audit SELECT NULL, 'deleted', old.id, NULL, NULL, {_columns("old")}, {_NONE}; END;
CREATE TRIGGER audit_pause AFTER INSERT ON settings WHEN new.name = 'paused' BEGIN
    INSERT INTO audit SELECT NULL, 'paused', new.type, NULL, NULL, {_NONE}, {_NONE}; END;
CREATE TRIGGER audit_resume AFTER DELETE ON settings WHEN old.name = 'paused' BEGIN
    INSERT INTO audit SELECT NULL, 'resumed', old.type, NULL, NULL, {_NONE}, {_NONE}; END;
CREATE TRIGGER audit_set AFTER INSERT ON settings WHEN new.name != 'paused' BEGIN
    INSERT INTO audit SELECT NULL, 'set', new.type, new.name, new.value, {_NONE}, {_NONE}; END;
CREATE TRIGGER audit_set_anew AFTER UPDATE ON settings BEGIN
    INSERT INTO audit SELECT NULL, 'set', new.type, new.name, new.value, {_NONE}, {_NONE}; END;
CREATE TRIGGER audit_reset AFTER DELETE ON settings WHEN old.name != 'paused' BEGIN
    INSERT INTO audit SELECT NULL, 'set', old.type, old.name, NULL, {_NONE}, {_NONE}; END;
"""


class SqliteDatabase:
    """A file of its own for each schedule."""

    exact = True
    one_writer = True
    lease_seconds = None
    messages = ("database or disk is full", "disk I/O error")
    hurry = 12
    stops = (0.1, 2.0, 30.0)
    outages = (0.5, 3.0)
    expecting = False

    def __init__(self) -> None:
        self._folder = tempfile.TemporaryDirectory(dir=MEMORY if MEMORY.is_dir() else None)
        self.path = Path(self._folder.name) / "tasks.db"
        self.path.write_bytes(_empty_database())
        self._seen = 0

    def open(self, process: Process) -> SqliteDriver:
        engine = process.world.engine
        return (engine.driver or SimulatedDriver)(process, self, {**STATEMENTS, **engine.statements})

    def open_plainly(self) -> SqliteDriver:
        return SqliteDriver(self.path, "normal")

    def ask(self, query: str) -> list[tuple[Any, ...]]:
        with closing(sqlite_file.connect(self.path, "normal")) as connection:
            return connection.execute(query).fetchall()

    def defects(self) -> list[str]:
        return [text for (text,) in self.ask("PRAGMA integrity_check") if text != "ok"]

    def changes(self, connection: sqlite3.Connection) -> list[Change]:
        """What has been committed since the last time."""
        found = connection.execute("SELECT * FROM audit WHERE n > ? ORDER BY n", (self._seen,)).fetchall()
        self._seen = found[-1][0] if found else self._seen
        width = len(Row._fields)
        return [
            (what, subject, name, value) if what == "set" else (what, subject, _row(both[:width]), _row(both[width:]))
            for _, what, subject, name, value, *both in found
        ]

    def close(self) -> None:
        self._folder.cleanup()


def _row(columns: list[Any]) -> Row | None:
    return None if columns[2] is None else Row(*columns)


@cache
def _empty_database() -> bytes:
    """A migrated database with the audit in it, made once: copying it saves half of a schedule's time."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "tasks.db"
        SqliteDriver(path).close()
        connection = sqlite_file.connect(path, "normal")
        connection.executescript(AUDIT)
        connection.close()
        return path.read_bytes()


class SimulatedSession(SqliteSession):
    def __init__(self, connection: sqlite3.Connection, statements: dict[str, str], process: Process) -> None:
        super().__init__(connection, statements)
        self._process = process
        process.at_end(connection.close)

    def _execute(self, statement: str, parameters: Sequence[Any]) -> sqlite3.Cursor:
        self._process.at(statement)
        self._maybe_fail("a statement")
        return super()._execute(statement, parameters)

    def begin(self) -> None:
        self._process.at("BEGIN")
        if self._process.faults.busy():
            raise sqlite3.OperationalError("database is locked")
        self._maybe_fail("BEGIN")
        super().begin()

    def commit(self) -> None:
        self._process.at("COMMIT")
        self._maybe_fail("a statement")
        super().commit()
        process = self._process
        changes = process.world.database.changes(self._connection)
        process.world.history.read_changes(changes, process.name, worker=process.worker_id)
        process.at("after COMMIT")  # to die here is to die without knowing that it was committed
        self._maybe_fail("after a COMMIT that stands", share=0.6)

    def _maybe_fail(self, where: str, share: float = 0.3) -> None:
        message = self._process.faults.strike(self._process, where, share)
        if message is not None:
            # After some errors SQLite has rolled back by itself, after others it leaves that to us.
            if where == "a statement" and self._connection.in_transaction and self._process.random.random() < 0.5:
                self._connection.execute("ROLLBACK")
            raise sqlite3.OperationalError(message)

    def checkpoint(self) -> None:
        self._process.at("checkpoint")
        super().checkpoint()


class SimulatedWriteLock(WriteLock):
    """The real lock file, which nobody ever has to wait for: waiting is done in virtual time."""

    def __init__(self, path: Path, process: Process) -> None:
        super().__init__(path)
        self._process = process
        self._closed = False
        process.at_end(self.close)

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


def _seated(seat: LockFilePresence, process: Process) -> LockFilePresence:
    """Let the worker sleep in virtual time, and let a killed one not say goodbye."""
    process.at_end(seat.drop)
    rung, leave = seat.wait, seat.leave

    def wait(seconds: float) -> bool:
        process.at("sleep")
        process.sleep(seconds, lambda: rung(0))
        return rung(0)

    seat.wait = wait
    seat.leave = lambda: None if process.life.dead else leave()
    return seat


class SimulatedDriver(SqliteDriver):
    def __init__(
        self,
        process: Process,
        database: SqliteDatabase,
        statements: dict[str, str],
    ) -> None:
        self._process = process
        super().__init__(
            database.path,
            "normal",
            statements=statements,
            session=lambda connection, known: SimulatedSession(connection, known, process),
            write_lock=lambda lock_path: SimulatedWriteLock(lock_path, process),
        )

    def enlist(self, worker: WorkerRecord) -> LockFilePresence:
        self._process.at("enlist")
        return _seated(super().enlist(worker), self._process)

    def autopsy(self, session: SqliteSession, worker: WorkerRecord) -> Autopsy | None:
        self._process.at("autopsy")
        if not (self.folder / (worker.id + SUFFIX)).exists():
            # Where the lock file is missing the process decides, and all virtual ones share a real one.
            return None if self._process.world.lives(worker.id) else Autopsy(None)
        return super().autopsy(session, worker)

    def bury(self, worker: WorkerRecord) -> None:
        self._process.at("bury")
        super().bury(worker)
