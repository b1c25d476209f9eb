"""What has happened in a schedule, in order: what the actors did, and every committed change of a task.

The changes are told by the database itself: triggers write each of them down in the transaction that makes it, so a
change that is rolled back never happened, and no statement can hide one.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from typing import Any, NamedTuple


class Row(NamedTuple):
    """The part of a task's row that the invariants speak of."""

    type: str
    priority: int
    version: int
    status: str
    attempts: int
    crashes: int
    run_after: float | None
    completed_at: float | None
    worker_id: str | None
    attempts_allowed: int | None
    last_attempt_at: float | None
    output: str | None

    @property
    def ready(self) -> bool:
        return self.status == "to-do" and self.run_after is None

    @property
    def running(self) -> bool:
        return self.status == "in-progress"

    @property
    def ended(self) -> bool:
        return self.completed_at is not None


class Event(NamedTuple):
    at: float
    latest_wall: float  # the latest time that the wall clock has shown until now
    who: str
    what: str
    task: str | None
    facts: dict[str, Any]

    def __str__(self) -> str:
        facts = ", ".join(f"{name}={value}" for name, value in self.facts.items() if name not in ("old", "new"))
        return f"{self.at:10.4f}  {self.who:<12} {self.what:<9} {self._change() or facts}"

    def _change(self) -> str:
        old, new = self.facts.get("old"), self.facts.get("new")
        if new is None:
            return ""
        before = {} if old is None else old._asdict()
        return " ".join(f"{name}={value}" for name, value in new._asdict().items() if before.get(name) != value)


def _columns(row: str) -> str:
    return ", ".join(f"{row}.{name}" for name in Row._fields)


_NONE = ", ".join("NULL" for _ in Row._fields)

AUDIT = f"""
CREATE TABLE audit (n INTEGER PRIMARY KEY, what, subject,
    {", ".join("old_" + name for name in Row._fields)}, {", ".join("new_" + name for name in Row._fields)});
CREATE TRIGGER audit_insert AFTER INSERT ON tasks BEGIN
    INSERT INTO audit SELECT NULL, 'changed', new.id, {_NONE}, {_columns("new")}; END;
CREATE TRIGGER audit_update AFTER UPDATE ON tasks BEGIN
    INSERT INTO audit SELECT NULL, 'changed', new.id, {_columns("old")}, {_columns("new")}; END;
CREATE TRIGGER audit_delete AFTER DELETE ON tasks BEGIN
    INSERT INTO audit SELECT NULL, 'deleted', old.id, {_columns("old")}, {_NONE}; END;
CREATE TRIGGER audit_pause AFTER INSERT ON settings BEGIN
    INSERT INTO audit SELECT NULL, 'paused', new.type, {_NONE}, {_NONE}; END;
CREATE TRIGGER audit_resume AFTER DELETE ON settings BEGIN
    INSERT INTO audit SELECT NULL, 'resumed', old.type, {_NONE}, {_NONE}; END;
"""


class History:
    def __init__(self, clock: Callable[[], float], latest_wall: Callable[[], float]) -> None:
        self.events: list[Event] = []
        self.rows: dict[str, Row] = {}  # as last committed
        self._clock = clock
        self._latest_wall = latest_wall
        self._seen = 0

    def record(self, who: str, what: str, task: str | None = None, **facts: Any) -> None:
        self.events.append(Event(self._clock(), self._latest_wall(), who, what, task, facts))

    def read_changes(self, connection: sqlite3.Connection, who: str, **facts: Any) -> None:
        """Take over what has been committed since the last time. Called right after each commit."""
        width = len(Row._fields)
        changes = connection.execute("SELECT * FROM audit WHERE n > ? ORDER BY n", (self._seen,)).fetchall()
        for n, what, subject, *columns in changes:
            self._seen = n
            if what in ("paused", "resumed"):
                self.record(who, what, None, type=subject)
                continue
            old, new = _row(columns[:width]), _row(columns[width:])
            self.record(who, what, subject, old=old, new=new, **facts)
            if new is not None:
                self.rows[subject] = new
        if changes:
            self.record(who, "committed", None, **facts)

    @property
    def unfinished(self) -> bool:
        return not all(row.ended for row in self.rows.values())

    @property
    def waiting(self) -> bool:
        """Whether all that has not ended waits for its time."""
        unfinished = [row for row in self.rows.values() if not row.ended]
        return bool(unfinished) and all(row.run_after is not None for row in unfinished)

    def of_task(self, task: str) -> list[Event]:
        return [event for event in self.events if event.task == task or event.what in ("killed", "left")]


def _row(columns: list[Any]) -> Row | None:
    return None if columns[2] is None else Row(*columns)
