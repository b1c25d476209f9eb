"""Moves a queue from a SQLite file to PostgreSQL while programs work on it: `tq move`.

    copy       all tasks, page by page, into a schema of its own beside the target; the old database logs what changes
    catch up   with the log, until little is left
    hold       all claims for a moment: workers give back what they have not started
    fence      the old file, by renaming its tables in one transaction: no program can change it any more
    verify     the last changes are copied, then counts and checksums of both sides must agree
    open       the target, by putting the copied tables in place in one transaction; programs follow to it

Killed between any two lines, it goes on where it was when it is run again. Until the fence nothing has happened to the
queue; after it, what fails takes the fence away again, and only a move that may have opened its target does not.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import json
import os
import sqlite3
import struct
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import NamedTuple

from tq.errors import InvalidOption, StorageBusy, StorageError
from tq.models import WorkerRecord
from tq.storage import presence, sql
from tq.storage.address import shown
from tq.storage.driver import Row, Session
from tq.storage.postgres import PostgresDriver, known_statements
from tq.storage.postgres_schema import checked_schema
from tq.storage.sqlite import SqliteDriver, SqliteSession

TABLES = ("tasks", "task_inputs", "attempts", "finished_counts", "workers", "settings", "rate_buckets")
_PREFIX = "moved_"
_STAGING = "_moving"
_LONGEST_SCHEMA = 41  # what that leaves
_PAGE, _PAGE_BYTES = 1000, 4_000_000
_FEW_CHANGES = 200  # so many may wait for the fence: they are copied in a moment
_CATCH_UP_SECONDS = 60.0  # a queue that changes faster than it is copied waits for the rest behind the fence
_HOLD_SECONDS = 10.0  # how long workers may take to give back what they have not started
_TIME_TO_FOLLOW_SECONDS = 300.0
_LOCK_SECONDS = 5.0
_PAUSE_SECONDS = 0.05

Tell = Callable[[str, int, int], None]


class Record(NamedTuple):
    """A move as the old file remembers it."""

    id: str
    target: str
    schema: str
    fenced: int
    done: int


class Group(NamedTuple):
    """What is compared: the tasks of one type and status, or the attempts of one outcome."""

    name: str
    status: str
    size: int
    checksum: str


class Move:
    """`tell(step, done, of)` hears how far it is: of `copy`, `catch up`, `hold`, `fence`, `verify`, `open`,
    `finish` and `done`."""

    def __init__(self, source: Path, target: str, schema: str, new_id: Callable[[], str], tell: Tell) -> None:
        self._path = source
        self._target = target
        self._schema = checked_schema(schema)
        if len(schema) > _LONGEST_SCHEMA:
            raise InvalidOption(f"schema={schema!r}: for a move give a name of up to {_LONGEST_SCHEMA} characters")
        self._new_id = new_id
        self._tell = tell
        self.begun = False  # whether there is something to go on with, or to cancel

    def run(self) -> list[Group]:
        """Move it, or go on with a move that was interrupted; answers with what was verified."""
        with self._source_alone():
            record = self._source_record()
            with self._target_alone() as staging:
                return self._go_on(staging, record)

    def _go_on(self, staging: PostgresDriver, record: Record | None) -> list[Group]:
        if record is None:
            self._refuse_used_target(staging)
            record = self._begin()
            self.begun = True
        elif self._opened_already(staging, record):
            staging.write(lambda session: session.change("drop_staging"))
            return self._finish([])
        copy = _Copy(staging, record.id)
        if not record.fenced:
            with _source(self._path) as source:
                copy.all_tasks(source, self._tell)
                copy.changes(source, self._tell, _FEW_CHANGES)
                self._hold_claims(source)
                self._tell("fence", 0, 1)
                source.write(_fence)
        try:
            groups = self._complete(staging, copy)
        except BaseException:
            self._unfence()
            raise
        self._open(staging, copy)
        return self._finish(groups)

    # --- the old file --------------------------------------------------------------------------------------------

    @contextlib.contextmanager
    def _source_alone(self) -> Iterator[None]:
        """One mover at a time for one file. The lock goes with its process, so nobody else can be half way."""
        if not self._path.exists():
            raise InvalidOption(f"there is no queue at {self._path}; give the path of a SQLite file that has one")
        with _source(self._path) as source:
            if not source.read(lambda session: session.rows("has_queue")):
                raise InvalidOption(f"there is no queue in {self._path}; give the path of a SQLite file that has one")
            lock = os.open(source.folder / "move.lock", os.O_RDWR | os.O_CREAT, 0o600)
        try:
            _take_turn(partial(_locked, lock), f"another move of {self._path} is under way; wait until it has ended")
            yield
        finally:
            os.close(lock)

    def _source_record(self) -> Record | None:
        """The move that was begun and is to go on, if any."""
        with _source(self._path) as source:
            begun = source.read(lambda session: session.rows("has_move"))
            rows = source.read(lambda session: session.rows("read_move")) if begun else []
        if not rows:
            return None
        record = Record._make(rows[0])
        where = f"{shown(record.target)}, schema {record.schema}"
        if record.done:
            raise InvalidOption(f"the queue in {self._path} has moved to {where} already, and works there")
        if (record.target, record.schema) != (self._target, self._schema):
            raise InvalidOption(
                f"the queue in {self._path} is being moved to {where}, and not to what you gave; give that address and "
                "schema, to go on or with --cancel to forget it"
            )
        self.begun = True
        return record

    def _begin(self) -> Record:
        SqliteDriver(self._path).close()  # it is a queue of tq, with the newest schema
        record = Record(self._new_id(), self._target, self._schema, 0, 0)

        def operation(session: Session) -> None:
            for statement in ("make_move_table", "make_change_log", "log_inserts", "log_updates", "log_deletes"):
                session.change(statement)
            session.change("begin_move", record[:3])

        with _source(self._path) as source:
            source.write(operation)
        return record

    def _hold_claims(self, source: SqliteDriver) -> None:
        """Until every claimed task has started, or its worker is dead, or does not answer."""
        self._tell("hold", 0, 1)
        source.write(_stop_claims)
        give_up_at = time.monotonic() + _HOLD_SECONDS
        while _unstarted(source, living=True) and time.monotonic() < give_up_at:
            time.sleep(_PAUSE_SECONDS)

    def _unfence(self) -> None:
        with _source(self._path) as source:
            source.write(_unfence)

    # --- the new database ----------------------------------------------------------------------------------------

    @contextlib.contextmanager
    def _target_alone(self) -> Iterator[PostgresDriver]:
        """The schema that is filled, and nobody else filling it."""
        statements = {
            name: text.replace("{target}", f'"{self._schema}"')
            for name, text in {**known_statements(), **sql.statements("postgres", "move")}.items()
        }
        staging = PostgresDriver(self._target, schema=self._schema + _STAGING, statements=statements)
        try:
            with contextlib.closing(staging.connect()) as connection:
                taken = f"another move into schema {self._schema} is under way; wait until it has ended"
                _take_turn(lambda: connection.execute(_TAKE, (f"{self._schema} move",)).fetchall()[0][0], taken)
                yield staging
        finally:
            staging.close()

    def _refuse_used_target(self, staging: PostgresDriver) -> None:
        if staging.write(self._target_in_use):
            staging.write(lambda session: session.change("drop_staging"))
            raise self._used(staging)

    def _target_in_use(self, session: Session) -> bool:
        """Whether the target has tasks; in a transaction that is to replace its tables, everybody is kept out."""
        if not session.rows("has_queue", (self._schema,)):
            return False
        session.change("hold_target")
        return bool(session.rows("target_in_use"))

    def _used(self, staging: PostgresDriver) -> InvalidOption:
        return InvalidOption(
            f"schema {self._schema} of {staging.name} has tasks already, and two queues cannot become one; give "
            "another schema with --schema"
        )

    def _opened_already(self, staging: PostgresDriver, record: Record) -> bool:
        """Whether an earlier run was interrupted between its last step in the target and its last in the old file."""

        def operation(session: Session) -> bool:
            if not session.rows("has_queue", (self._schema,)):
                return False
            return session.rows("read_moved_in") == [(record.id,)]

        return bool(record.fenced) and staging.read(operation)

    def _complete(self, staging: PostgresDriver, copy: _Copy) -> list[Group]:
        """Behind the fence: the last changes, the small tables, and the comparison."""
        with _source(self._path, fenced=True) as source:
            copy.all_tasks(source, self._tell_quietly)  # those that came last; all, if the new side was emptied
            copy.changes(source, self._tell, 0)
            copy.small_tables(source)
            self._tell("verify", 0, 1)
            here, there = _checksums(source), _checksums(staging)
        if here != there:
            different = sorted({f"{group.name} {group.status}" for group in set(here) ^ set(there)})
            raise StorageError(
                f"the copy in {staging.name} does not agree with {self._path} ({', '.join(different[:5])}), and the "
                "queue stays where it was: cancel this move with --cancel, begin anew, and please report this"
            )
        return here

    def _tell_quietly(self, _: str, done: int, of: int) -> None:
        self._tell("catch up", done, of)

    def _open(self, staging: PostgresDriver, copy: _Copy) -> None:
        def operation(session: Session) -> None:
            copy.check(session)
            if self._target_in_use(session):
                raise self._used(staging)
            session.change("make_key_index")
            session.change("write_moved_in", (copy.id,))
            session.change("make_target")
            session.change("open_target")

        self._tell("open", 0, 1)
        try:
            staging.write(operation)
        except InvalidOption:  # and nothing has changed
            self._unfence()
            raise

    def _finish(self, groups: list[Group]) -> list[Group]:
        self._tell("finish", 0, 1)
        with _source(self._path, fenced=True) as source:
            source.write(_set_done)
        self._tell("done", 1, 1)
        return groups

    # --- giving up -----------------------------------------------------------------------------------------------

    def cancel(self) -> None:
        """Forget a move that has not opened its target: the queue works on where it was."""
        with self._source_alone():
            record = self._source_record()
            if record is None:
                raise InvalidOption(f"the queue in {self._path} is not being moved")
            try:
                self._clear_target(record)
            except StorageError as error:
                if record.fenced or isinstance(error, StorageBusy):  # it may have opened there, or be filled by another
                    raise
            with _source(self._path) as source:
                source.write(partial(_forget, fenced=bool(record.fenced)))

    def _clear_target(self, record: Record) -> None:
        with self._target_alone() as staging:
            if self._opened_already(staging, record):
                raise InvalidOption(
                    f"the queue has opened in {staging.name} already; run the move once more, to let programs follow"
                )
            staging.write(lambda session: session.change("drop_staging"))


class _Copy:
    """Copies tasks, each with its input and its history, and can be interrupted after any page."""

    def __init__(self, staging: PostgresDriver, move_id: str) -> None:
        self._staging = staging
        self.id = move_id
        staging.write(self._claim_staging)

    def _claim_staging(self, session: Session) -> None:
        session.change("make_move_table")
        if [row[0] for row in session.rows("read_move")] != [self.id]:
            session.change("begin_move")
            session.change("write_move", (self.id,))

    def check(self, session: Session) -> None:
        """Another file's move may have taken the schema, if we lost our turn with a connection."""
        if [row[0] for row in session.rows("read_move")] != [self.id]:
            raise StorageBusy("another move has taken over the schema; let that one finish")

    def all_tasks(self, source: SqliteDriver, tell: Tell) -> None:
        total = source.read(lambda session: session.rows("count_tasks"))[0][0]
        cursor = self._staging.read(lambda session: session.rows("read_move"))[0][1]
        copied = 0
        tell("copy", copied, total)
        while ids := self._page(source, "page_of_ids", cursor):
            cursor = ids[-1][0]
            self._copy(source, [row[0] for row in ids], cursor)
            copied += len(ids)
            tell("copy", min(copied, total), total)

    def changes(self, source: SqliteDriver, tell: Tell, few: int) -> None:
        """Copy what has changed, until no more than a few changes are left."""
        followed = 0
        give_up_at = time.monotonic() + _CATCH_UP_SECONDS
        while source.read(lambda session: session.rows("count_changes"))[0][0] > few:
            page = self._page(source, "page_of_changes")
            self._copy(source, sorted({row[0] for row in page}))
            source.write(partial(_forget_changes, last=page[-1][2]))
            followed += len(page)
            tell("catch up", followed, followed)
            if few and time.monotonic() > give_up_at:
                return

    @staticmethod
    def _page(source: SqliteDriver, statement: str, *after: str) -> list[Row]:
        """The next rows, but not more than fit into memory."""
        page, size = [], 0
        for row in source.read(lambda session: session.rows(statement, (_PAGE, *after))):
            page.append(row)
            size += row[1] or 0
            if size > _PAGE_BYTES:
                break
        return page

    def _copy(self, source: SqliteDriver, ids: list[str], cursor: str | None = None) -> None:
        wanted = (json.dumps(ids),)
        tasks, inputs, attempts = source.read(
            lambda session: [session.rows(each, wanted) for each in ("tasks_by_id", "inputs_by_id", "attempts_by_id")]
        )
        gone = sorted(set(ids) - {task[0] for task in tasks})

        def operation(session: Session) -> None:
            self.check(session)
            for table in ("tasks", "inputs", "attempts") if gone else ():
                session.change(f"drop_{table}", (gone,))
            for table, rows in (("tasks", tasks), ("inputs", inputs), ("attempts", attempts)):
                session.change_each(f"copy_{table}", rows)
            if cursor is not None:
                session.change("write_cursor", (self.id, cursor))

        self._staging.write(operation, repeatable=True)

    def small_tables(self, source: SqliteDriver) -> None:
        names = ("settings", "counts", "buckets")
        tables = source.read(lambda session: [session.rows(f"all_{name}") for name in names])
        dead = _unstarted(source, living=False)
        workers = [(*worker, _TIME_TO_FOLLOW_SECONDS if lives else -1.0) for worker, lives in _workers(source)]

        def operation(session: Session) -> None:
            self.check(session)
            session.change("drop_small_tables")
            for name, rows in zip(names, tables, strict=True):
                session.change_each(f"copy_{name}", rows)
            session.change_each("copy_workers", workers)
            session.change("mark_claims", ([task for task, _ in dead],))

        self._staging.write(operation, repeatable=True)


# --- the old file, with its tables under one name or the other ---------------------------------------------------


class _MovingSession(SqliteSession):
    __slots__ = ()

    def __init__(self, connection: sqlite3.Connection, statements: dict[str, str]) -> None:
        super().__init__(connection, statements)
        connection.create_aggregate("tq_checksum", -1, _Checksum)  # type: ignore[arg-type]


@contextlib.contextmanager
def _source(path: Path, fenced: bool = False) -> Iterator[SqliteDriver]:
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


def _stop_claims(session: Session) -> None:
    session.rings = session.hungry = True  # so that those who sleep hear of it
    session.change("stop_claims", (3 * _HOLD_SECONDS,))


def _fence(session: Session) -> None:
    session.rings = session.hungry = True
    session.change("allow_claims")
    for table in TABLES:
        session.change(f"fence_{table}")
    session.change("set_fenced", (1,))


def _unfence(session: Session) -> None:
    session.rings = session.hungry = True
    for table in TABLES:
        session.change(f"unfence_{table}")
    session.change("set_fenced", (0,))


def _set_done(session: Session) -> None:
    session.rings = session.hungry = True
    _end_log(session)
    session.change("set_done")


def _forget(session: Session, fenced: bool) -> None:
    if fenced:
        _unfence(session)
    _end_log(session)
    session.change("drop_move_table")
    session.change("allow_claims")


def _end_log(session: Session) -> None:
    for statement in ("drop_insert_log", "drop_update_log", "drop_delete_log", "drop_change_log"):
        session.change(statement)


def _workers(source: SqliteDriver) -> list[tuple[WorkerRecord, bool]]:
    """All workers, and whether they live."""
    rows = source.read(lambda session: session.rows("all_workers"))
    workers = map(WorkerRecord._make, rows)
    return [(worker, presence.autopsy(source.folder, worker) is None) for worker in workers]


def _unstarted(source: SqliteDriver, living: bool) -> set[tuple[str, int]]:
    """The claims of living workers, or of dead ones, that have not started as far as one can tell."""
    claims: set[tuple[str, int]] = set()
    for worker, lives in _workers(source):
        if lives is living:
            owned = source.read(partial(_claims_of, worker=worker))
            started = presence.started_by(source.folder, worker)
            claims |= owned - started if started is not None else set()
    return claims


def _claims_of(session: Session, worker: WorkerRecord) -> set[tuple[str, int]]:
    return {(id_, version) for id_, version in session.rows("claims_of", (worker.id,))}


def _forget_changes(session: Session, last: int) -> None:
    session.change("forget_changes", (last,))


# --- the comparison ----------------------------------------------------------------------------------------------


class _Checksum:
    """The sum of a part of each row's MD5, which does not depend on the order of rows. Times go in bit by bit."""

    def __init__(self) -> None:
        self._sum = 0

    def step(self, text: str, *times: float | None) -> None:
        bits = "".join(f"|{'-' if each is None else struct.pack('>d', each).hex()}" for each in times)
        self._sum += int(hashlib.md5((text + bits).encode(), usedforsecurity=False).hexdigest()[:15], 16)

    def finalize(self) -> str:
        return str(self._sum)


def _checksums(driver: SqliteDriver | PostgresDriver) -> list[Group]:
    rows = driver.read(lambda session: session.rows("checksum_tasks") + session.rows("checksum_attempts"))
    return sorted(Group._make(row) for row in rows)


_TAKE = "SELECT pg_try_advisory_lock(hashtextextended($1, 0))"  # held until the connection ends


def _take_turn(taken: Callable[[], bool], otherwise: str) -> None:
    """A move that was just killed may need a moment to let go."""
    give_up_at = time.monotonic() + _LOCK_SECONDS
    while not taken():
        if time.monotonic() > give_up_at:
            raise StorageBusy(otherwise)
        time.sleep(_PAUSE_SECONDS)


def _locked(descriptor: int) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
