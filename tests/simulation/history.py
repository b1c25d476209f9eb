"""What has happened in a schedule, in order: what the actors did, and every committed change of a task.

The changes are told by the database itself: triggers write each of them down in the transaction that makes it, so a
change that is rolled back never happened, and no statement can hide one.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from tests.simulation.database import Change


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
    cancelled_by: str | None

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


class History:
    def __init__(self, clock: Callable[[], float], latest_wall: Callable[[], float]) -> None:
        self.events: list[Event] = []
        self.rows: dict[str, Row] = {}  # as last committed
        self.deleted: set[str] = set()
        self._clock = clock
        self._latest_wall = latest_wall

    def record(self, who: str, what: str, task: str | None = None, **facts: Any) -> None:
        self.events.append(Event(self._clock(), self._latest_wall(), who, what, task, facts))

    def read_changes(self, changes: list[Change], who: str, **facts: Any) -> None:
        """Take over what one transaction has changed. Called right after its commit."""
        for what, subject, old, new in changes:
            match what:
                case "paused" | "resumed":
                    self.record(who, what, None, type=subject)
                case "set":
                    self.record(who, what, None, type=subject, name=old, value=new)
                case "marked":
                    self.record(who, what, subject, version=new.version)
                case "leased" | "dismissed":
                    self.record(who, what, None, worker=subject, until=new)
                case _:
                    self.record(who, what, subject, old=old, new=new, **facts)
                    self._keep(subject, new)
        if changes:
            self.record(who, "committed", None, **facts)

    def _keep(self, task: str, row: Row | None) -> None:
        if row is not None:
            self.rows[task] = row
        else:
            del self.rows[task]
            self.deleted.add(task)

    @property
    def unfinished(self) -> bool:
        return not all(row.ended for row in self.rows.values())

    def of_task(self, task: str) -> list[Event]:
        return [event for event in self.events if event.task == task or event.what in ("killed", "left")]
