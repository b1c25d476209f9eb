"""The real PostgreSQL storage, with a yield point and a possible fault before and after everything that can go wrong.

The server tells the stage's time. A lost connection is rolled back at once, but for a commit that was on its way: that
one may arrive later. Two transactions interleave statement by statement.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from typing import TYPE_CHECKING, Any

import psycopg
from psycopg import errors

from tests.postgres import run_sql, server_url
from tests.simulation.database import Change
from tests.simulation.history import Row
from tests.simulation.postgres_locks import Line, Switchboard
from tq.models import WorkerRecord
from tq.storage.postgres import PostgresDriver, PostgresSession, known_statements
from tq.storage.postgres_presence import LeasePresence, Timing

if TYPE_CHECKING:
    from tests.simulation.processes import Process

STATEMENTS = known_statements()
SCHEMA = "simulated"
_LATE_SECONDS = 2.0  # how long a commit may be on its way after its connection was lost
_TELLS_TIME = {name for name, text in STATEMENTS.items() if "{time}" in text or "{server_time}" in text}

_AUDIT = """
CREATE SEQUENCE clock;
CREATE FUNCTION now_on_stage() RETURNS float8 LANGUAGE sql VOLATILE
    AS 'SELECT last_value / 1e6::float8 FROM simulated.clock';
CREATE UNLOGGED TABLE audit (n BIGSERIAL, what TEXT, subject TEXT, old JSONB, new JSONB);
CREATE FUNCTION note_task() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
    INSERT INTO simulated.audit (what, subject, old, new) VALUES (
        CASE WHEN new IS NULL THEN 'deleted'
        WHEN old.version = new.version AND new.started AND old.cancelled_by IS NOT DISTINCT FROM new.cancelled_by
        THEN 'marked' ELSE 'changed' END, coalesce(new.id, old.id), to_jsonb(old) - 'input', to_jsonb(new) - 'input');
    RETURN NULL; END $$;
CREATE FUNCTION note_setting() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
    IF coalesce(new.name, old.name) = 'paused' THEN
        INSERT INTO simulated.audit (what, subject)
        VALUES (CASE WHEN new IS NULL THEN 'resumed' ELSE 'paused' END, coalesce(new.type, old.type));
    ELSE
        INSERT INTO simulated.audit (what, subject, old, new)
        VALUES ('set', coalesce(new.type, old.type), to_jsonb(coalesce(new.name, old.name)), to_jsonb(new.value));
    END IF;
    RETURN NULL; END $$;
CREATE FUNCTION note_worker() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
    INSERT INTO simulated.audit (what, subject, new) VALUES (
        CASE WHEN new IS NULL THEN 'dismissed' ELSE 'leased' END, coalesce(new.id, old.id), to_jsonb(new.lease_until));
    RETURN NULL; END $$;
CREATE TRIGGER audit AFTER INSERT OR UPDATE OR DELETE ON tasks FOR EACH ROW EXECUTE FUNCTION note_task();
CREATE TRIGGER audit AFTER INSERT OR UPDATE OR DELETE ON settings FOR EACH ROW EXECUTE FUNCTION note_setting();
CREATE TRIGGER audit AFTER INSERT OR UPDATE OR DELETE ON workers FOR EACH ROW EXECUTE FUNCTION note_worker();
"""
_TABLES = (
    "tasks, task_inputs, attempts, finished_counts, workers, settings, rate_buckets, audit, tq_minutes, tq_actions"
)
_TAKE_CHANGES = b"WITH taken AS (DELETE FROM audit RETURNING *) SELECT what, subject, old, new FROM taken ORDER BY n"


@cache
def _switchboard() -> Switchboard:
    """The schema with the audit in it, made once for a test process."""
    run_sql(f"DROP SCHEMA IF EXISTS {SCHEMA} CASCADE")
    PostgresDriver(server_url(), schema=SCHEMA).close()
    run_sql(f"SET search_path = {SCHEMA}; {_AUDIT}")
    return Switchboard(server_url(), SCHEMA)


class PostgresDatabase:
    """The same tables for all schedules, emptied for each of them."""

    exact = False  # a task that can afford the attempt counts as started when it is claimed
    one_writer = False
    lease_seconds = 9.0
    messages = ("server closed the connection unexpectedly", "could not connect to server")
    hurry = 24  # each operation begins with short pauses
    stops = (0.1, 2.0, 7.0, 8.0, 9.0, 10.0, 30.0)  # many end about when somebody declares the worker dead
    outages = (0.5, 3.0, 15.0)

    def __init__(self) -> None:
        self.switchboard = _switchboard()
        self.url = server_url()
        self.switchboard.monitor.execute(f"TRUNCATE {_TABLES} RESTART IDENTITY".encode())
        self.seats: list[SimulatedPresence] = []
        self.transactions: set[VirtualConnection] = set()
        self._on_their_way: set[VirtualConnection] = set()
        self._told = -1

    def open(self, process: Process) -> PostgresDriver:
        engine = process.world.engine
        return (engine.driver or SimulatedDriver)(process, self, {**STATEMENTS, **engine.statements})

    def open_plainly(self) -> PostgresDriver:
        return PostgresDriver(self.url, schema=SCHEMA, pool=lambda *_, **__: _OneLine(self.switchboard))

    def ask(self, query: str) -> list[tuple[Any, ...]]:
        return self.switchboard.monitor.execute(query.encode()).fetchall()

    @property
    def expecting(self) -> bool:
        return bool(self._on_their_way & self.transactions)

    def expect(self, late: VirtualConnection) -> None:
        self._on_their_way.add(late)
        self.transactions.add(late)

    def defects(self) -> list[str]:
        return [f"{len(self.transactions)} transactions were left open"] if self.transactions else []

    def changes(self) -> list[Change]:
        """What has been committed since the last time."""
        found = self.switchboard.monitor.execute(_TAKE_CHANGES).fetchall()
        return [(what, subject, _noted(old), _noted(new)) for what, subject, old, new in found]

    def tell_time(self, now: float) -> None:
        microseconds = int(now * 1e6)
        if microseconds != self._told:
            self._told = microseconds
            self.switchboard.monitor.execute(b"SELECT setval('clock', $1)", (microseconds,))

    def ring(self) -> None:
        for seat in self.seats:
            seat.ring()

    def close(self) -> None:
        for connection in list(self.transactions):
            connection.hang_up()


def _noted(value: Any) -> Any:
    """A task's row; a lease's end, or a setting, as it is."""
    return Row(*(value[name] for name in Row._fields)) if isinstance(value, dict) else value


class _OneLine:
    """A pool for who looks at the end, when nobody else is there."""

    def __init__(self, switchboard: Switchboard) -> None:
        self._switchboard = switchboard

    @contextmanager
    def connection(self) -> Iterator[Line]:
        yield self._switchboard.monitor

    def close(self, timeout: float) -> None: ...


class VirtualConnection:
    """What the driver takes for a connection: a line to the server, which can be lost."""

    def __init__(self, process: Process, database: PostgresDatabase) -> None:
        self.process = process
        self.rings = False
        self._database = database
        self._line: Line | None = database.switchboard.line(lambda there: process.thread.wait_until(there))

    @property
    def broken(self) -> bool:
        return self._line is None or self.process.life.dead

    @property
    def line(self) -> Line:
        if self._line is None:
            raise psycopg.OperationalError("the connection is lost")
        return self._line

    def execute(self, query: bytes, parameters: Sequence[Any] = ()) -> Any:
        if query.startswith(b"BEGIN"):
            self._begin()
        elif query == b"ROLLBACK":
            self._end(query)
            return None
        return self.line.execute(query, parameters)

    @contextmanager
    def transaction(self) -> Iterator[None]:
        self.execute(b"BEGIN")
        try:
            yield
        except BaseException:
            if not self.broken:
                self._end(b"ROLLBACK")
            raise
        self._commit()

    def _begin(self) -> None:
        self.process.at("BEGIN")
        self.maybe_lose("BEGIN")
        self._database.transactions.add(self)

    def _commit(self) -> None:
        self.process.at("COMMIT by wire")
        if self.process.faults.strike(self.process.thread, "a COMMIT on its way", share=0.4):
            self._commit_late()
            raise psycopg.OperationalError("server closed the connection unexpectedly")
        self.maybe_lose("a statement")
        self._end(b"COMMIT")
        self.process.at("after COMMIT")  # to die here is to die without knowing that it was committed
        self.maybe_lose("after a COMMIT that stands", share=0.6)

    def _end(self, how: bytes, late: str = "") -> None:
        """End the transaction; the history learns what a commit has changed before anybody goes on."""
        database, process = self._database, self.process
        database.tell_time(process.stage.now())
        database.transactions.discard(self)
        line = self.line
        if line.in_transaction:
            line.execute(how)
        if how == b"COMMIT":
            process.world.history.read_changes(database.changes(), process.name + late, worker=process.worker_id)
            if self.rings:
                database.ring()
        database.switchboard.look_again()

    def _commit_late(self) -> None:
        """The answer will never come, and the commit is on its way: it arrives later, or is lost as well."""
        late = VirtualConnection.__new__(VirtualConnection)
        late.__dict__.update(self.__dict__)
        self._database.transactions.discard(self)
        self._database.expect(late)
        self._line = None
        random = self.process.random
        how = random.choice([b"COMMIT", b"COMMIT", b"ROLLBACK"])
        self.process.stage.later(random.random() * _LATE_SECONDS, lambda: late.arrive(how))

    def arrive(self, how: bytes) -> None:
        if self in self._database.transactions:
            self._end(how, late=", late")
            self.hang_up()

    def maybe_lose(self, where: str, share: float = 0.3) -> None:
        faults, process = self.process.faults, self.process
        if where == "a statement" and faults.busy():
            self._end(b"ROLLBACK")
            raise process.random.choice([errors.DeadlockDetected, errors.SerializationFailure])("give way")
        message = faults.strike(process.thread, where, share)
        if message is not None:
            self.hang_up()
            raise psycopg.OperationalError(message)

    def close(self) -> None:
        self.hang_up()

    def hang_up(self) -> None:
        self._database.transactions.discard(self)
        if self._line is not None:
            line, self._line = self._line, None
            self._database.tell_time(self.process.stage.now())
            self._database.switchboard.hang_up(line)

    @property
    def alone(self) -> bool:
        """Whether no other transaction is under way."""
        return self._database.transactions <= {self}

    def tell_time(self) -> None:
        self._database.tell_time(self.process.stage.now())


class VirtualPool:
    def __init__(self, process: Process, database: PostgresDatabase) -> None:
        self._parts = (process, database)

    @contextmanager
    def connection(self) -> Iterator[VirtualConnection]:
        connection = VirtualConnection(*self._parts)
        try:
            yield connection
        finally:
            connection.hang_up()

    def check(self) -> None: ...

    def close(self, timeout: float) -> None: ...


class SimulatedSession(PostgresSession):
    __slots__ = ()
    _connection: VirtualConnection  # type: ignore[assignment]

    def _execute(self, statement: str, parameters: Sequence[Any]) -> psycopg.Cursor[tuple[Any, ...]]:
        connection = self._connection
        connection.process.at(statement)
        connection.maybe_lose("a statement", share=0.1)  # most of them reach the commit
        if statement in ("look_around", "claim"):
            connection.process.record("asked", statement=statement, asked=parameters, alone=connection.alone)
        if statement in _TELLS_TIME:
            connection.tell_time()
        connection.rings |= statement == "ring"
        return super()._execute(statement, parameters)


class SimulatedPresence(LeasePresence):
    """Beats in a virtual thread, sleeps in virtual time, and does not say goodbye when it was killed."""

    def __init__(self, driver: PostgresDriver, worker_id: str, process: Process) -> None:
        self._process = process
        self._rung = False
        super().__init__(driver, worker_id)
        process.at_end(self._hears.close)
        process.at_end(self._calls.close)

    def _start_beating(self) -> None:
        self._process.spawn("lease", lambda: self._beat(self._left_within))

    def _left_within(self, seconds: float) -> bool:
        self._process.sleep(seconds)
        return self._left.is_set()

    def ring(self) -> None:
        self._rung = True

    def wait(self, seconds: float) -> bool:
        self._process.at("sleep")
        self._process.sleep(seconds, lambda: self._rung)
        rung, self._rung = self._rung, False
        return rung

    def drop(self) -> None:
        if not self._process.life.dead:
            super().drop()


class SimulatedDriver(PostgresDriver):
    def __init__(self, process: Process, database: PostgresDatabase, statements: dict[str, str]) -> None:
        self._process = process
        self._database = database
        stage = process.stage
        super().__init__(
            database.url,
            "normal",
            schema=SCHEMA,
            lease_seconds=database.lease_seconds,
            server_time=f"{SCHEMA}.now_on_stage()",
            statements=statements,
            session=lambda connection, known: SimulatedSession(connection, known),
            pool=lambda *_, **__: VirtualPool(process, database),
            timing=Timing(stage.monotonic, stage.monotonic, process.sleep),
        )

    def _migrate(self) -> None:
        """It was done before the curtain rose; what is left of it is that the server may be away."""
        self._process.at("connect")
        message = self._process.faults.strike(self._process.thread, "BEGIN")
        if message is not None:
            raise self._translate(psycopg.OperationalError(message))

    def _run_alone(self, operation: Any) -> Any:
        """A statement that is a transaction by itself can be lost and interleaved like any other."""
        return self._transact(operation)

    def change_apart(self, statement: str, parameters: Sequence[Any]) -> int:
        """A virtual process has threads, but one line to the server for all of them."""
        return self.write(lambda session: session.change(statement, parameters))

    def enlist(self, worker: WorkerRecord) -> SimulatedPresence:
        self._process.at("enlist")
        seat = SimulatedPresence(self, worker.id, self._process)
        self._presences.append(seat)
        self._database.seats.append(seat)
        return seat
