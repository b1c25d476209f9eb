"""What operators do with tasks that others have added: find them, cancel them, try them again, delete them.

Each is a guarded statement over a few ids, with a row in the history of every task that it touched, and one in the list
of actions, in one transaction.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Sequence
from functools import partial
from typing import NamedTuple

from tq.models import Action, TaskFilter
from tq.storage.driver import Driver, Row, Session

_REACH = 5000  # so many tasks one page looks at
_FEW = 2000  # up to here the tasks of a state are read by its own index and sorted
_INDEX_OF = {
    "ready": "ready",
    "scheduled": "waiting",
    "retrying": "waiting",
    "in-progress": "in-progress",
    "dead": "given up",
    "cancelled": "given up",
}


class Changed(NamedTuple):
    """A task that an operator has changed, and what it was before: a status, or `waiting` for its time or its turn."""

    id: str
    type: str
    before: str
    version: int
    attempts: int


class OperatorStore:
    def __init__(self, driver: Driver) -> None:
        self._driver = driver

    # --- finding -------------------------------------------------------------------------------------------------

    def page(self, wanted: TaskFilter, limit: int) -> tuple[list[Row], str | None]:
        """Some of the wanted tasks, the newest first, and below which id to look on; None behind the last one.

        However many tasks there are, it looks at a few thousand: a page may have fewer rows than the limit, or none,
        and still not be the last.
        """
        return self._driver.read(partial(_page, wanted=wanted, limit=limit))

    # --- changing ------------------------------------------------------------------------------------------------

    def cancel(self, ids: Sequence[str], action: Action) -> list[str]:
        """Cancel what waits, and ask the workers of what runs to stop it; answers with the ids of both."""

        def operation(session: Session) -> list[str]:
            session.rows("hold_tasks", (_json(ids),))  # else one slips from running to waiting between the two
            waiting = _changed(session, "cancel_waiting", _json(ids), action.at, action.actor)
            running = _changed(session, "ask_to_cancel", _json(ids), action.actor)
            _count(session, ((task.type, "cancelled", 1) for task in waiting))
            _tell(session, waiting, "cancelled", action)
            return _recorded(session, action, [*waiting, *running])

        return self._driver.write(operation)

    def retry(self, ids: Sequence[str], action: Action) -> list[str]:
        """Make ready what has failed, was cancelled, or waits for its time."""

        def operation(session: Session) -> list[str]:
            ended = [
                task
                for status in ("failed", "cancelled")
                for task in _changed(session, "retry_ended", _json(ids), action.at, status)
            ]
            waiting = _changed(session, "hasten", _json(ids), action.at)
            _count(session, ((task.type, task.before, -1) for task in ended))
            _tell(session, [*ended, *waiting], "retried", action)
            session.rings = True
            return _recorded(session, action, [*ended, *waiting])

        return self._driver.write(operation)

    def delete(self, ids: Sequence[str], action: Action) -> list[str]:
        """Delete what has ended, with its history."""

        def operation(session: Session) -> list[str]:
            gone = _changed(session, "delete_ended", _json(ids))
            for statement in ("delete_inputs", "delete_attempts") if gone else ():
                session.change(statement, (_json([task.id for task in gone]),))
            _count(session, ((task.type, task.before, -1) for task in gone))
            return _recorded(session, action, gone)

        return self._driver.write(operation)

    def set(self, type_: str, values: dict[str, str | None], action: Action) -> None:
        """Store settings of a type, in JSON; None lets it be as the programs say."""

        def operation(session: Session) -> None:
            for name, value in values.items():
                if value is None:
                    session.change("drop_setting", (type_, name))
                else:
                    session.change("put_setting", (type_, name, value))
            session.rings = session.hungry = True  # whoever sleeps is to hear of it, wanting something or not
            session.change("record_action", action._replace(touched=1))

        self._driver.write(operation, repeatable=True)

    def actions(self, below_id: str, limit: int) -> list[Row]:
        """What operators have done, the newest first."""
        return self._driver.read(lambda session: session.rows("list_actions", (below_id, limit)))


def _page(session: Session, wanted: TaskFilter, limit: int) -> tuple[list[Row], str | None]:
    """By the index that holds the fewest tasks beside the wanted ones."""
    states = None if wanted.states is None else _json(wanted.states)
    pattern = None if wanted.text is None else f"%{_escaped(wanted.text)}%"
    rest = (limit, wanted.type, states, pattern, wanted.error)
    if wanted.states is not None and "success" not in wanted.states and _are_few(session, wanted.states):
        rows, end = session.rows("page_of_few", (wanted.below_id, wanted.from_id, *rest)), None
    elif wanted.type is not None and _are_few(session, ("scheduled", "in-progress"), wanted.type):
        all_match = (states, pattern, wanted.error) == (None, None, None)
        most = limit if all_match else _REACH
        end = _end(session.rows("reach_of_type", (wanted.below_id, wanted.from_id, most, wanted.type)))
        rows = session.rows("page_of_type", (wanted.below_id, end or wanted.from_id, *rest, most + 1))
    else:
        end = _end(session.rows("reach", (wanted.below_id, wanted.from_id, _REACH)))
        rows = session.rows("page", (wanted.below_id, end or wanted.from_id, *rest))
    return rows, rows[-1][0] if len(rows) == limit else end


def _end(reach: list[Row]) -> str | None:
    """Where a page ends that has looked far enough; None if it has come to the end."""
    return reach[0][0] if reach else None


def _are_few(session: Session, states: Sequence[str], ready_type: str | None = None) -> bool:
    """Whether each of these states, and the ready tasks of a type, can be read whole."""
    counts: dict[str, int] = dict(session.rows("count_few", (_FEW + 1,)))
    ready = session.rows("ready_of_type", (ready_type, _FEW + 1))[0][0] if ready_type is not None else 0
    return ready <= _FEW and all(counts[_INDEX_OF[state]] <= _FEW for state in states)


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace("%", "\\%").replace("_", "\\_")


def _json(values: Iterable[str]) -> str:
    return json.dumps(list(values))


def _changed(session: Session, statement: str, *parameters: object) -> list[Changed]:
    return sorted(Changed._make(row) for row in session.rows(statement, parameters))


def _count(session: Session, changes: Iterable[tuple[str, str, int]]) -> None:
    """Keep the counts of ended tasks right."""
    counts: Counter[tuple[str, str]] = Counter()
    for type_, status, count in changes:
        counts[type_, status] += count
    for (type_, status), count in sorted(counts.items()):  # in one order, so that no two wait for each other
        session.change("count_finished", (type_, status, count))


def _tell(session: Session, tasks: Iterable[Changed], what: str, action: Action) -> None:
    rows = [(task.id, task.version, task.attempts, what, None, None, action.at, action.actor) for task in tasks]
    if rows:
        session.change_each("record_attempt", rows)


def _recorded(session: Session, action: Action, tasks: Sequence[Changed]) -> list[str]:
    if tasks:
        session.change("record_action", action._replace(touched=len(tasks)))
    return [task.id for task in tasks]
