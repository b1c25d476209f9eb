"""The old side of a move: the SQLite file, its tables under one name or the other, and the workers that use it."""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import os
import sqlite3
import struct
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import NamedTuple

from tq.errors import InvalidOption, StorageBusy
from tq.models import WorkerRecord
from tq.storage import presence, sql
from tq.storage.driver import Session
from tq.storage.sqlite import SqliteDriver, SqliteSession

TABLES = (
    "tasks",
    "task_inputs",
    "attempts",
    "finished_counts",
    "workers",
    "settings",
    "rate_buckets",
    "tq_minutes",
    "tq_actions",
)
_PREFIX = "moved_"
_HOLD_SECONDS = 10.0  # how long workers may take to give back what they have not started
_LOCK_SECONDS = 5.0
_PAUSE_SECONDS = 0.05


class Record(NamedTuple):
    """A move as the old file remembers it."""

    id: str
    target: str
    schema: str
    fenced: int
    done: int


# --- opening it --------------------------------------------------------------------------------------------------


@contextlib.contextmanager
def opened(path: Path, fenced: bool = False) -> Iterator[SqliteDriver]:
    prefix = _PREFIX if fenced else ""
    statements = {
        **{name: text.replace("{prefix}", prefix) for name, text in sql.statements("sqlite", "move").items()},
        **{f"fence_{table}": f"ALTER TABLE {table} RENAME TO {_PREFIX}{table}" for table in TABLES},
        **{f"unfence_{table}": f"ALTER TABLE {_PREFIX}{table} RENAME TO {table}" for table in TABLES},
    }
    source = SqliteDriver(path, statements=statements, although_moved=True, session=_MovingSession)
    try:
        yield source
    finally:
        source.close()


@contextlib.contextmanager
def alone(path: Path) -> Iterator[None]:
    """One mover at a time for one file. The lock goes with its process, so nobody else can be half way."""
    if not path.exists():
        raise InvalidOption(f"there is no queue at {path}; give the path of a SQLite file that has one")
    with opened(path) as source:
        if not source.read(lambda session: session.rows("has_queue")):
            raise InvalidOption(f"there is no queue in {path}; give the path of a SQLite file that has one")
        lock = os.open(source.folder / "move.lock", os.O_RDWR | os.O_CREAT, 0o600)
    try:
        take_turn(partial(_locked, lock), f"another move of {path} is under way; wait until it has ended")
        yield
    finally:
        os.close(lock)


def _locked(descriptor: int) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def take_turn(taken: Callable[[], bool], otherwise: str) -> None:
    """A move that was just killed may need a moment to let go."""
    give_up_at = time.monotonic() + _LOCK_SECONDS
    while not taken():
        if time.monotonic() > give_up_at:
            raise StorageBusy(otherwise)
        time.sleep(_PAUSE_SECONDS)


# --- how far the move has come -----------------------------------------------------------------------------------


def record_in(path: Path) -> Record | None:
    with opened(path) as source:
        begun = source.read(lambda session: session.rows("has_move"))
        rows = source.read(lambda session: session.rows("read_move")) if begun else []
    return Record._make(rows[0]) if rows else None


def begin(path: Path, record: Record) -> Record:
    SqliteDriver(path).close()  # it is a queue of tq, with the newest schema

    def operation(session: Session) -> None:
        for statement in ("make_move_table", "make_change_log", "log_inserts", "log_updates", "log_deletes"):
            session.change(statement)
        session.change("begin_move", record[:3])

    with opened(path) as source:
        source.write(operation)
    return record


def fence(session: Session) -> None:
    session.rings = session.hungry = True
    session.change("allow_claims")
    for table in TABLES:
        session.change(f"fence_{table}")
    session.change("set_fenced", (1,))


def unfence(session: Session) -> None:
    if session.change("set_fenced", (0,)):  # else there is no fence
        session.rings = session.hungry = True
        for table in TABLES:
            session.change(f"unfence_{table}")


def set_done(session: Session) -> None:
    session.rings = session.hungry = True
    _end_log(session)
    session.change("set_done")


def forget(session: Session) -> None:
    unfence(session)
    _end_log(session)
    session.change("drop_move_table")
    session.change("allow_claims")


def _end_log(session: Session) -> None:
    for statement in ("drop_insert_log", "drop_update_log", "drop_delete_log", "drop_change_log"):
        session.change(statement)


# --- its workers -------------------------------------------------------------------------------------------------


def hold_claims(source: SqliteDriver) -> None:
    """Until every claimed task has started, or its worker is dead, or does not answer."""
    source.write(_stop_claims)
    give_up_at = time.monotonic() + _HOLD_SECONDS
    while unstarted(source, living=True) and time.monotonic() < give_up_at:
        time.sleep(_PAUSE_SECONDS)


def _stop_claims(session: Session) -> None:
    session.rings = session.hungry = True  # so that those who sleep hear of it
    session.change("stop_claims", (3 * _HOLD_SECONDS,))


def workers(source: SqliteDriver) -> list[tuple[WorkerRecord, bool]]:
    """All workers, and whether they live."""
    rows = source.read(lambda session: session.rows("all_workers"))
    found = map(WorkerRecord._make, rows)
    return [(worker, presence.autopsy(source.folder, worker) is None) for worker in found]


def unstarted(source: SqliteDriver, living: bool) -> set[tuple[str, int]]:
    """The claims of living workers, or of dead ones, that have not started as far as one can tell."""
    claims: set[tuple[str, int]] = set()
    for worker, lives in workers(source):
        if lives is living:
            owned = source.read(partial(_claims_of, worker=worker))
            started = presence.started_by(source.folder, worker)
            claims |= owned - started if started is not None else set()
    return claims


def _claims_of(session: Session, worker: WorkerRecord) -> set[tuple[str, int]]:
    return {(id_, version) for id_, version in session.rows("claims_of", (worker.id,))}


# --- its part of the comparison ----------------------------------------------------------------------------------


class _MovingSession(SqliteSession):
    __slots__ = ()

    def __init__(self, connection: sqlite3.Connection, statements: dict[str, str]) -> None:
        super().__init__(connection, statements)
        connection.create_aggregate("tq_checksum", -1, _Checksum)  # type: ignore[arg-type]


class _Checksum:
    """The sum of a part of each row's MD5, which does not depend on the order of rows. Times go in bit by bit."""

    def __init__(self) -> None:
        self._sum = 0

    def step(self, text: str, *times: float | None) -> None:
        bits = "".join(f"|{'-' if each is None else struct.pack('>d', each).hex()}" for each in times)
        self._sum += int(hashlib.md5((text + bits).encode(), usedforsecurity=False).hexdigest()[:15], 16)

    def finalize(self) -> str:
        return str(self._sum)
