"""What happened in each minute, as the database keeps it for a day."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

from tq.storage.driver import Driver, Row, Session

_MOST_CAUGHT_UP = 10
_MOST_COUNTED = 50_000  # in a minute

Bounds = Callable[[int], tuple[str, str]]


class Minutes:
    """New tasks are counted by whoever comes first when a minute is over, from their ids: adding one costs nothing."""

    def __init__(self, driver: Driver) -> None:
        self._driver = driver

    def add(self, rows: Sequence[Row]) -> None:
        def operation(session: Session) -> None:
            for row in rows:
                session.change("add_to_minute", row)

        self._driver.write(operation)

    def count_new(self, minute: int, kept: int, bounds: Bounds) -> None:
        """Count what was added in the minutes up to this one, and forget those that are older than `kept`. `bounds`
        gives the first id of a minute, and the first one after it."""
        found = self._driver.read(partial(_uncounted, minute=minute, bounds=bounds), False)

        def operation(session: Session) -> None:
            for row in found:
                session.change("put_minute", row)
            session.change("put_minute", (minute, "", "counted", 1))
            session.change("drop_minutes", (minute - kept,))

        self._driver.write(operation)

    def read(self, first: int, last: int, bounds: Bounds) -> list[Row]:
        """The rows of these minutes; what was added in the last two is counted now, if it has not been."""

        def operation(session: Session) -> list[Row]:
            counted = _last_counted(session)
            new = range(max(last - 1, first, 0 if counted is None else counted + 1), last + 1)
            return session.rows("read_minutes", (first, last)) + [
                row for each in new for row in _added(session, each, bounds)
            ]

        return self._driver.read(operation)


def _uncounted(session: Session, minute: int, bounds: Bounds) -> list[Row]:
    last = _last_counted(session)
    first = minute - _MOST_CAUGHT_UP if last is None else max(last + 1, minute - _MOST_CAUGHT_UP)
    return [row for each in range(first, minute + 1) for row in _added(session, each, bounds)]


def _last_counted(session: Session) -> int | None:
    rows = session.rows("last_minute_counted")
    return rows[0][0] if rows else None


def _added(session: Session, minute: int, bounds: Bounds) -> list[Row]:
    counts = session.rows("count_added", (*bounds(minute), _MOST_COUNTED))
    return [(minute, type_, "added", count) for type_, count in counts]
