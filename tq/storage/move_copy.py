"""Copies the tasks of a queue into the schema that a move fills, and compares both sides."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from functools import partial
from typing import NamedTuple

from tq.errors import StorageError
from tq.storage.driver import Row, Session
from tq.storage.move_source import unstarted, workers
from tq.storage.move_target import Target
from tq.storage.postgres import PostgresDriver
from tq.storage.sqlite import SqliteDriver

_PAGE, _PAGE_BYTES = 1000, 4_000_000
_CATCH_UP_SECONDS = 60.0  # a queue that changes faster than it is copied waits for the rest behind the fence
_TIME_TO_FOLLOW_SECONDS = 300.0

Tell = Callable[[str, int, int], None]


class Copy:
    """Copies tasks, each with its input and its history, and can be interrupted after any page."""

    def __init__(self, target: Target, move_id: str) -> None:
        self._target = target
        self._staging = target.staging
        self.id = move_id
        self._staging.write(self._claim_staging)

    def _claim_staging(self, session: Session) -> None:
        self._target.refuse_foreign_staging(session)  # a program may have opened a queue there meanwhile
        session.change("make_staging_record")
        if [row[0] for row in session.rows("read_staging")] != [self.id]:
            session.change("empty_staging")
            session.change("claim_staging", (self.id,))
        session.change("drop_key_index")  # two tasks may have one key for as long as not all changes are copied

    def check(self, session: Session) -> None:
        """Another file's move may have taken the schema, if we lost our turn with a connection."""
        if [row[0] for row in session.rows("read_staging")] != [self.id]:
            raise StorageError("another move has taken over the schema; let that one finish")

    def all_tasks(self, source: SqliteDriver, tell: Tell) -> None:
        total = source.read(lambda session: session.rows("count_tasks"))[0][0]
        cursor = self._staging.read(lambda session: session.rows("read_staging"))[0][1]
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
        names = ("settings", "counts", "buckets", "minutes", "actions")
        tables = source.read(lambda session: [session.rows(f"all_{name}") for name in names])
        dead = unstarted(source, living=False)
        seats = [(*worker, _TIME_TO_FOLLOW_SECONDS if lives else -1.0) for worker, lives in workers(source)]

        def operation(session: Session) -> None:
            self.check(session)
            session.change("drop_small_tables")
            for name, rows in zip(names, tables, strict=True):
                session.change_each(f"copy_{name}", rows)
            session.change_each("copy_workers", seats)
            session.change("mark_claims", ([task for task, _ in dead],))

        self._staging.write(operation, repeatable=True)

    def make_key_index(self) -> None:
        def operation(session: Session) -> None:
            self.check(session)
            session.change("make_key_index")

        self._staging.write(operation, repeatable=True)


def _forget_changes(session: Session, last: int) -> None:
    session.change("forget_changes", (last,))


# --- the comparison ----------------------------------------------------------------------------------------------


class Group(NamedTuple):
    """What is compared: the tasks of one type and status, or the attempts of one outcome."""

    name: str
    status: str
    size: int
    checksum: str


def checksums(driver: SqliteDriver | PostgresDriver) -> list[Group]:
    rows = driver.read(lambda session: session.rows("checksum_tasks") + session.rows("checksum_attempts"))
    return sorted(Group._make(row) for row in rows)
