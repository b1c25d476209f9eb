"""The new side of a move: the schema where the queue will live, and beside it the staging schema that is filled first.

What others have made is never touched: the target may only be empty or hold a queue without tasks, and the staging
schema only what a move has put there.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator

from tq.errors import InvalidOption, StorageBusy
from tq.storage import sql
from tq.storage.address import shown
from tq.storage.driver import Session
from tq.storage.move_source import TABLES, take_turn
from tq.storage.postgres import Connection, PostgresDriver, PostgresSession, known_statements
from tq.storage.postgres_schema import checked_schema, migrations_lock

_STAGING = "_moving"
_LONGEST_SCHEMA = 41  # what that leaves
_QUEUE = {*TABLES, "tq_schema"}
_RECORD = "tq_move"
_OPEN_SECONDS = 10.0  # how long programs that use the target may be in the way; the queue stands still meanwhile


def checked_target(schema: str) -> str:
    if len(checked_schema(schema)) > _LONGEST_SCHEMA:
        raise InvalidOption(f"schema={schema!r}: for a move give a name of up to {_LONGEST_SCHEMA} characters")
    return schema


class Target:
    """`how_to_give_another` ends the refusal of a schema: it says what to do instead."""

    def __init__(self, url: str, schema: str, how_to_give_another: Callable[[], str]) -> None:
        self._schema = schema
        self._how_to_give_another = how_to_give_another
        self.name = shown(url)
        statements = {
            name: text.replace("{target}", f'"{schema}"')
            for name, text in {**known_statements(), **sql.statements("postgres", "move")}.items()
        }
        self.staging = _Staging(url, schema + _STAGING, statements, self.refuse_foreign_staging)

    @contextlib.contextmanager
    def alone(self) -> Iterator[None]:
        """One mover at a time for one schema; closes it in the end."""
        try:
            with contextlib.closing(self.staging.connect()) as connection:
                taken = f"another move into schema {self._schema} is under way; wait until it has ended"
                take_turn(lambda: connection.execute(_TAKE, (f"{self._schema} move",)).fetchall()[0][0], taken)
                yield
        finally:
            self.staging.close()

    # --- the schema that is filled -------------------------------------------------------------------------------

    def refuse_foreign_staging(self, session: Session) -> None:
        """A schema of this name that no move has filled is somebody's, and is not to be emptied or dropped."""
        schema = self._schema + _STAGING
        tables = _tables(session, schema)
        foreign = tables - _QUEUE - {_RECORD}
        if foreign or (tables and "tq_schema" not in tables):
            raise self._refusal(schema, f"has tables that are not tq's ({_listed(foreign or tables)})")
        if tables and _RECORD not in tables and session.rows("staging_in_use"):
            raise self._refusal(schema, "has a queue that is in use")

    def drop_staging(self) -> None:
        def operation(session: Session) -> None:
            self.refuse_foreign_staging(session)
            session.change("drop_staging")

        self.staging.write(operation, repeatable=True)

    # --- the schema where the queue will live --------------------------------------------------------------------

    def refuse_tasks(self) -> None:
        """Two queues cannot become one; nor may tables be lost that only have the names of tq's."""
        try:
            self.staging.read(self._has_empty_queue)
        except InvalidOption:
            self.drop_staging()
            raise

    def _has_empty_queue(self, session: Session) -> bool:
        """True if a queue stands there, False if nothing does; what else there may be is refused."""
        found = _tables(session, self._schema) & _QUEUE
        if found and found != _QUEUE:
            raise self._refusal(self._schema, f"has tables with names of tq's, but no queue of tq ({_listed(found)})")
        if found and session.rows("target_in_use"):
            raise self._refusal(self._schema, "has tasks already, and two queues cannot become one")
        return bool(found)

    def has_opened(self, move_id: str) -> bool:
        """Whether the queue works there. An earlier transaction that opens it, and is not heard of any more, has come
        to its end when this is answered."""

        def operation(session: Session) -> bool:
            session.rows("lock_migrations", (migrations_lock(self._schema),))
            return _tables(session, self._schema) >= _QUEUE and session.rows("read_moved_in") == [(move_id,)]

        return self.staging.write(operation, repeatable=True)

    def put_in_place(self, move_id: str, check: Callable[[Session], None]) -> None:
        """All at once. Programs that use the target are waited for between two tries, and never while it is held."""

        def operation(session: Session) -> None:
            session.rows("lock_migrations", (migrations_lock(self._schema),))  # now nobody makes tables there
            check(session)
            if self._has_empty_queue(session):
                session.change("lock_target")
                self._has_empty_queue(session)  # what was accepted before the lock
                session.change("drop_target_tables")
            session.change("write_moved_in", (move_id,))
            session.change("make_target")
            session.change("open_target")

        give_up_at = time.monotonic() + _OPEN_SECONDS
        while True:
            try:
                return self.staging.write(operation)
            except StorageBusy:
                if time.monotonic() > give_up_at:
                    raise

    def _refusal(self, schema: str, why: str) -> InvalidOption:
        return InvalidOption(f"schema {schema} of {self.name} {why}; {self._how_to_give_another()}")


class _Staging(PostgresDriver):
    """Looks before it makes its tables."""

    def __init__(self, url: str, schema: str, statements: dict[str, str], look: Callable[[Session], None]) -> None:
        self._look = look
        super().__init__(url, schema=schema, statements=statements)

    def _bring_up_to_date(self, connection: Connection) -> None:
        self._look(PostgresSession(connection, self._statements))
        super()._bring_up_to_date(connection)


def _tables(session: Session, schema: str) -> set[str]:
    return {name for (name,) in session.rows("list_tables", (schema,))}


def _listed(names: set[str]) -> str:
    return ", ".join(sorted(names)[:8])


_TAKE = "SELECT pg_try_advisory_lock(hashtextextended($1, 0))"  # held until the connection ends
