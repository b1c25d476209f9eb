"""PostgreSQL as a driver: one schema of one database holds the queue, for workers on any number of machines.

Every transaction is READ COMMITTED and its changes are guarded; whoever claims skips what others hold. A connection may
be lost at any moment: what had not been committed is tried again, and what may have been is tried again only where that
does no harm.
"""

from __future__ import annotations

import contextlib
import logging
import os
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, TypeVar

import psycopg
from psycopg import errors
from psycopg.conninfo import conninfo_to_dict
from psycopg_pool import ConnectionPool, PoolTimeout

from tq.errors import InvalidOption, NotInitialised, StorageBusy, StorageError
from tq.forking import renew_in_child
from tq.models import MAX_CRASHES, WorkerRecord
from tq.storage import sql
from tq.storage.address import shown
from tq.storage.driver import Autopsy, Row
from tq.storage.postgres_errors import GIVE_WAY, PASSING, translate
from tq.storage.postgres_presence import SYSTEM_TIMING, LeasePresence, Timing
from tq.storage.postgres_schema import DEFAULT_SCHEMA, checked_schema, migrate

log = logging.getLogger("tq")
T = TypeVar("T")
Connection = psycopg.Connection[Row]

SERVER_TIME = "extract(epoch FROM clock_timestamp())::float8"
_CONNECTIONS = 10
_CONNECT_SECONDS = 5
_SILENCE_MILLISECONDS = 20_000  # less than a lease, and than the patience of a call
_FREE_CONNECTION_SECONDS = 2.0
# How long an operation waits for a server that is away: one that may come again, and one whose caller tries again.
_PATIENCE_SECONDS, _SHORT_PATIENCE_SECONDS = 30.0, 1.0
_PAUSE_SECONDS = (0.02, 0.5)
_GIVES_WAY = 3  # how often an operation gives way to others, at least
_TELL_SECONDS = 10.0  # one line in this time while an operation waits


class PostgresSession:
    """Runs named statements on one connection, all of them through `_execute`."""

    __slots__ = ("_connection", "_sql", "hungry", "rings")

    def __init__(self, connection: Connection, statements: dict[str, str]) -> None:
        self._connection = connection
        self._sql = statements
        self.rings = False
        self.hungry = False

    def _execute(self, statement: str, parameters: Sequence[Any]) -> psycopg.Cursor[Row]:
        return self._connection.execute(self._sql[statement].encode(), parameters or None)

    def rows(self, statement: str, parameters: Sequence[Any] = ()) -> list[Row]:
        return self._execute(statement, parameters).fetchall()

    def change(self, statement: str, parameters: Sequence[Any] = ()) -> int:
        return self._execute(statement, parameters).rowcount

    def change_each(self, statement: str, rows: Sequence[Sequence[Any]]) -> set[int]:
        """One statement for all of the rows, which it gets as columns; a single new task has one of its own."""
        if not rows:
            return set()
        if statement == "insert_task" and len(rows) == 1:
            return {0} if self._execute("insert_task_alone", rows[0]).rowcount else set()
        cursor = self._execute(statement, [array_literal(column) for column in zip(*rows, strict=True)])
        tells = cursor.pgresult is not None and cursor.pgresult.nfields  # .description would make an object for each
        return {row[0] - 1 for row in cursor.fetchall()} if tells else set()


def array_literal(values: Sequence[Any]) -> str:
    """An array as PostgreSQL writes it. psycopg would make the same of a list, but one value at a time, with a regular
    expression for each text: that took half of the time of an add_many, and 40 % of a settle (measured)."""
    kinds = set(map(type, values))
    if kinds == {str}:
        texts = [value.replace("\\", "\\\\").replace('"', '\\"') for value in values]
        return '{"' + '","'.join(texts) + '"}'
    if kinds == {type(None)}:
        return "{" + ",".join(["NULL"] * len(values)) + "}"
    if kinds <= {int, float}:
        return "{" + ",".join(map(repr, values)) + "}"
    return "{" + ",".join("NULL" if value is None else array_literal([value])[1:-1] for value in values) + "}"


class _InDoubt(Exception):
    """The connection was lost in the commit: nobody knows whether it stands."""


class PostgresDriver:
    def __init__(
        self,
        url: str,
        durability: str = "full",
        *,
        schema: str = DEFAULT_SCHEMA,
        lease_seconds: float = 30.0,
        pooler: bool = False,
        settling_seconds: float | None = None,
        server_clock: bool = True,
        server_time: str = SERVER_TIME,
        statements: Mapping[str, str] | None = None,
        session: Callable[[Connection, dict[str, str]], PostgresSession] = PostgresSession,
        pool: Callable[..., Any] = ConnectionPool,
        timing: Timing = SYSTEM_TIMING,
    ) -> None:
        _check_address(url)
        self.name = shown(url)
        self.schema = checked_schema(schema)
        self.channel = f"tq_{self.schema}"
        self.lease_seconds = lease_seconds
        self.listens = not pooler
        self._url = url
        self._options = _connection_options(pooler)
        self._settings = _session_settings(durability, pooler, lease_seconds)
        # After an outage all leases have run out at once: nobody is taken for dead until everybody had time to renew.
        self._settling_seconds = lease_seconds if settling_seconds is None else settling_seconds
        self._server_time = server_time
        self._time = server_time if server_clock else "NULL::float8"
        self._statements = {name: self._filled_in(text) for name, text in (statements or known_statements()).items()}
        self._make_session = session
        self._make_pool = pool
        self.timing = timing
        self._presences: list[LeasePresence] = []
        self._closed = False
        self._apart: Connection | None = None
        self._apart_guard, self._reopening = threading.Lock(), threading.Lock()
        self._open()
        renew_in_child(self)

    def _filled_in(self, text: str) -> str:
        values = {
            "schema": f'"{self.schema}"',
            "channel": self.channel,
            "time": self._time,
            "server_time": self._server_time,
            "lease": f"{self.lease_seconds!r}",
            "max_crashes": str(MAX_CRASHES),
        }
        for name, value in values.items():
            text = text.replace(f"{{{name}}}", value)
        return text

    def _open(self) -> None:
        logger = logging.getLogger("psycopg.pool")
        if logger.level == logging.NOTSET:
            logger.setLevel(logging.CRITICAL)  # it complains for each try, and each time we say what is wrong
        self._migrate()
        self._in_touch_since = self._last_contact = self.timing.awake()
        self._tell_at = 0.0
        # Without a minimum a broken connection is replaced when one is needed, at once, and not after a growing delay.
        self._pool = self._make_pool(
            self._url,
            kwargs=self._options,
            configure=self._set_up,
            min_size=0,
            max_size=_CONNECTIONS,
            timeout=_FREE_CONNECTION_SECONDS,
            reconnect_timeout=1.0,
            open=True,
            name=f"tq on {self.name}",
        )
        self._pid = os.getpid()  # last: until now other threads of a forked child would find its parent's pool

    def connect(self) -> Connection:
        """A connection of its own, past the pool."""
        try:
            connection: Connection = psycopg.connect(self._url, **self._options)
            self._set_up(connection)
            return connection
        except psycopg.Error as error:
            raise self._translate(error) from error

    def _set_up(self, connection: Connection) -> None:
        if self._settings:
            connection.execute(self._settings.encode())

    def _migrate(self) -> None:
        for again in (*[True] * _GIVES_WAY, False):
            try:
                return self._migrate_at_once()
            except psycopg.Error as error:
                if not (again and isinstance(error, GIVE_WAY)):  # to workers that go on meanwhile
                    raise self._translate(error) from error

    def _migrate_at_once(self) -> None:
        with self.connect() as connection, connection.transaction():
            self._bring_up_to_date(connection)

    def _bring_up_to_date(self, connection: Connection) -> None:
        migrate(connection, self.schema, self._filled_in, self.name)

    # --- transactions --------------------------------------------------------------------------------------------

    def write(self, operation: Callable[[Any], T], repeatable: bool = False, alone: bool = False) -> T:
        patience = _PATIENCE_SECONDS if repeatable else _SHORT_PATIENCE_SECONDS
        attempt = self._run_alone if alone else self._transact
        value = self._insist(lambda: attempt(operation), patience, repeatable)
        self._in_touch()
        return value

    def read(self, operation: Callable[[Any], T], patient: bool = True) -> T:
        patience = _PATIENCE_SECONDS if patient else _SHORT_PATIENCE_SECONDS
        return self._insist(lambda: self._snapshot(operation), patience, True)

    def _insist(self, attempt: Callable[[], T], patience: float, repeatable: bool) -> T:
        """Try again what has changed nothing, and what may come again, until it works or the patience is at its end."""
        give_up_at = self.timing.monotonic() + patience
        pause, longest = _PAUSE_SECONDS
        gives_way = _GIVES_WAY  # however long it took to find out: a deadlock shows after a second
        while True:
            self._check_open()
            try:
                return attempt()
            except (_InDoubt, *PASSING) as error:
                cause = error.__cause__ if isinstance(error, _InDoubt) else error
                assert isinstance(cause, psycopg.Error)
                gives_way -= isinstance(error, GIVE_WAY)
                impatient = self.timing.monotonic() >= give_up_at and (gives_way < 0 or not isinstance(error, GIVE_WAY))
                if impatient or (isinstance(error, _InDoubt) and not repeatable):
                    raise self._translate(cause) from cause
                self._wait_for_server(cause)
            except psycopg.Error as error:
                raise self._translate(error) from error
            self.timing.sleep(pause)
            pause = min(2 * pause, longest)

    def _in_touch(self) -> None:
        """Whoever could not write for long cannot tell who else could not: everybody gets time to renew its lease.

        A worker writes at least three times in the time of a lease. Half of one must have passed: a third is what lies
        between two renewals when all is well (an idle worker never took anybody for dead). A lease that was renewed in
        time outlives a shorter outage.
        """
        now = self.timing.awake()
        if now - self._last_contact > self.lease_seconds / 2:
            self._in_touch_since = now
        self._last_contact = now

    def _wait_for_server(self, error: psycopg.Error) -> None:
        if not isinstance(error, (PoolTimeout, *GIVE_WAY)):
            with contextlib.suppress(psycopg.Error):
                self._pool.check()  # others that were cut at the same moment
        away = self.timing.awake() - self._last_contact
        has_worker = any(not seat.left for seat in self._presences)  # then that is the one to tell
        if away > _SHORT_PATIENCE_SECONDS and not has_worker and self.timing.monotonic() >= self._tell_at:
            self._tell_at = self.timing.monotonic() + _TELL_SECONDS
            log.warning("waiting for the database: %s", self._translate(error))

    def _transact(self, operation: Callable[[Any], T]) -> T:
        committing = False
        with self._writing() as connection:
            session = self._make_session(connection, self._statements)
            try:
                with connection.transaction():
                    value = operation(session)
                    if session.rings:
                        session.rows("ring", (self.channel,))
                    committing = True
            except psycopg.Error as error:
                if committing and not isinstance(error, GIVE_WAY):
                    raise _InDoubt from error
                raise
        return value

    @contextlib.contextmanager
    def _writing(self) -> Iterator[Connection]:
        with self._pool.connection() as connection:
            try:
                yield connection
            except errors.ReadOnlySqlTransaction:
                connection.close()  # its session may stay read-only when the server no longer is
                raise

    def _run_alone(self, operation: Callable[[Any], T]) -> T:
        """Without BEGIN and COMMIT, whose round trips take longer than the statement."""
        with self._writing() as connection:
            return operation(self._make_session(connection, self._statements))

    def change_apart(self, statement: str, parameters: Sequence[Any]) -> int:
        """One statement, tried once, on a connection that no caller can take: leases are renewed while all wait."""
        self._check_open()
        with self._apart_guard:
            changed = self._change_apart(statement, parameters)
        self._in_touch()
        return changed

    def _change_apart(self, statement: str, parameters: Sequence[Any]) -> int:
        try:
            self._apart = self._apart or self.connect()
            return self._make_session(self._apart, self._statements).change(statement, parameters)
        except BaseException:
            self._hang_up_apart()  # the next one gets a new connection
            raise

    def _hang_up_apart(self) -> None:
        apart, self._apart = self._apart, None
        if apart is not None:
            apart.close()

    def _snapshot(self, operation: Callable[[Any], T]) -> T:
        """All statements see the same moment: no task is counted twice because it moved in between."""
        with self._pool.connection() as connection:
            session = self._make_session(connection, self._statements)
            connection.execute(b"BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY")
            try:
                return operation(session)
            finally:
                _end_reading(connection)

    def _translate(self, error: psycopg.Error) -> StorageError:
        return self._why_none_is_free() if isinstance(error, PoolTimeout) else translate(error, self.name, self.schema)

    def _why_none_is_free(self) -> StorageError:
        try:
            self.connect().close()
        except StorageError as error:
            return error
        return StorageBusy(f"all {_CONNECTIONS} connections to {self.name} are in use; use fewer threads, or try again")

    # --- worker processes ----------------------------------------------------------------------------------------

    def enlist(self, worker: WorkerRecord) -> LeasePresence:
        self._check_open()
        seat = LeasePresence(self, worker.id)
        self._presences.append(seat)
        return seat

    def autopsy(self, session: PostgresSession, worker: WorkerRecord) -> Autopsy | None:
        settling = self.timing.awake() - self._in_touch_since < self._settling_seconds
        if settling or not session.rows("lease_expired", (worker.id,)):
            return None
        return Autopsy(frozenset((id_, version) for id_, version in session.rows("started_by", (worker.id,))))

    def seems_dead(self, session: PostgresSession, worker: WorkerRecord) -> bool:
        return bool(session.rows("lease_expired", (worker.id,)))

    def bury(self, worker: WorkerRecord) -> None:
        """It leaves nothing outside the database."""

    # --- forks, and the end --------------------------------------------------------------------------------------

    def _check_open(self) -> None:
        if self._closed:
            raise NotInitialised(f"the queue on {self.name} was closed; call init() again to go on")
        if os.getpid() != self._pid:
            with self._reopening:  # the first of the child's threads opens, for all of them
                if os.getpid() != self._pid:
                    self._open()

    def after_fork(self) -> None:
        """In the child: leave the parent's connections alone. psycopg does not close them in another process."""
        self._reopening = threading.Lock()
        _inherited.append((self._pool, self._apart, self._presences))
        self._apart, self._apart_guard = None, threading.Lock()
        self._presences = []

    def close(self) -> None:
        if self._closed:
            return
        self._closed = True
        if os.getpid() == self._pid:
            self._hang_up_apart()
            self._pool.close(timeout=1.0)


def known_statements() -> dict[str, str]:
    """Those of the worker and whoever adds, those of operators, and those of the leases."""
    files = ("statements", "operations", "leases")
    return {name: text for file in files for name, text in sql.statements("postgres", file).items()}


def _end_reading(connection: Connection) -> None:
    """Its own failure must not replace what ended the reading: a handler whose time is up would try again."""
    try:
        if not connection.broken:
            connection.execute(b"ROLLBACK")
    except psycopg.Error:
        connection.close()


_inherited: list[Any] = []  # what a forked child must neither use nor close


def _connection_options(pooler: bool) -> dict[str, Any]:
    options: dict[str, Any] = {
        "autocommit": True,  # transactions are begun by name
        "cursor_factory": psycopg.RawCursor,
        "connect_timeout": _CONNECT_SECONDS,
        "application_name": "tq",
        "keepalives_idle": 10,
        "keepalives_interval": 5,
        "keepalives_count": 3,
        # Keepalives watch an idle line only: what is sent into a silent network would wait for 15 minutes.
        "tcp_user_timeout": _SILENCE_MILLISECONDS,
    }
    return {**options, "prepare_threshold": None} if pooler else options


def _session_settings(durability: str, pooler: bool, lease_seconds: float) -> str:
    """What every new connection is told; nothing behind a pooler, where the next transaction may be another's."""
    if pooler:
        return ""
    settings = {
        # Whoever is stopped in the middle of a transaction holds rows that all others need, also to declare it dead.
        "idle_in_transaction_session_timeout": str(max(1, round(lease_seconds * 1000))),
        # Plans are kept: one that is made while the queue is empty would read the whole table until the server analyses
        # it, a minute later. An exchange took five times as long with 8,000 tasks (measured).
        "enable_seqscan": "off",
        "jit": "off",  # and small tables that have to be read whole look dear then
    }
    if durability == "normal":
        settings["synchronous_commit"] = "off"
    return "; ".join(f"SET {name} = {value}" for name, value in settings.items())


def _check_address(url: str) -> None:
    """Refuse what cannot be read, without a word of its password: a # or a / in one makes other parts of it."""
    host, _, rest = url.partition("://")[2].replace("?", "/").replace("#", "/").partition("/")
    why = "" if "@" not in rest and host.count("@") <= 1 else _ESCAPE
    try:
        conninfo_to_dict(url)
    except psycopg.ProgrammingError as error:
        why = str(error).strip() if "query parameter" in str(error) and not why else _ESCAPE
    if why:
        raise InvalidOption(f"cannot read the address of {shown(url)}: {why}")


_ESCAPE = (
    "write it as postgresql://user:password@host/database, with a special character in the user or password as its "
    "code, such as %40 for @"
)
