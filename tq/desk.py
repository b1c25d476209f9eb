"""The operator's desk: find tasks, cancel them, try them again, delete them, and steer types while programs run."""

from __future__ import annotations

import contextlib
import json
import os
import socket
from collections.abc import Callable, Iterator, Sequence
from datetime import datetime, timedelta
from typing import Any, TypedDict

from typing_extensions import Unpack

from tq.clock import Clock
from tq.errors import InvalidOption, TaskNotFound, WrongState, shown
from tq.explain import explain
from tq.ids import IdFactory, first_id, ids_of_minute
from tq.models import CHANGEABLE, EVERY_TYPE, STATES, STEERABLE, Action, Page, Task, TaskFilter
from tq.payload import storable
from tq.retry import is_number
from tq.scheduler import positive_number, whole_number
from tq.storage.rows import task_of
from tq.storage.store import Store
from tq.tally import KEPT_MINUTES, MINUTE
from tq.tally import minutes as minute_views
from tq.timeline import timeline
from tq.views import Event, Explanation, MinuteView, TypeView, WorkerView

_LARGEST_PAGE = 1000
_AT_ONCE = 500  # tasks in one transaction
_AFTER_ALL = TaskFilter().below_id

Moment = datetime | timedelta | float | int
Change = Callable[[Sequence[str], Action], list[str]]


class Wanted(TypedDict, total=False):
    """Which tasks are meant. `status` takes one word or several: the statuses, and `ready`, `scheduled`, `retrying` and
    `dead`. A moment is a datetime, a Unix timestamp, or a timedelta that lies so far back."""

    type: str
    status: str | Sequence[str]
    text: str  # somewhere in the input or the error
    error: str  # exactly
    since: Moment  # added then or later
    until: Moment  # added before


class Desk:
    """What an operator does at a queue. `queue.desk` is one."""

    def __init__(self, opened: Callable[[], Store], clock: Clock, ids: IdFactory) -> None:
        self._opened = opened
        self._clock = clock
        self._ids = ids

    # --- finding -------------------------------------------------------------------------------------------------

    def list(self, limit: int = 50, after: str | None = None, **wanted: Unpack[Wanted]) -> Page:
        """A page of tasks, the newest first; `after=page.next` gives the next one.

        A page looks at a few thousand tasks, however many there are. So where few match it may have fewer than `limit`,
        or none, and yet a next one.
        """
        if whole_number("limit", limit) > _LARGEST_PAGE:
            raise InvalidOption(f"limit={limit}: a page has up to {_LARGEST_PAGE} tasks; use after= for more")
        asked = self._filter(wanted)
        if _text("after", after) is not None:
            assert after is not None
            asked = asked._replace(below_id=min(after, asked.below_id))
        rows, next_ = self._opened().operators.page(asked, limit)
        return Page(tuple(map(task_of, rows)), next_)

    def count(self, **wanted: Unpack[Wanted]) -> int:
        """How many tasks match: what `cancel`, `retry` and `delete` would look at."""
        return sum(len(ids) for ids in self._batches(self._filter(wanted)))

    def would(self, name: str, **wanted: Unpack[Wanted]) -> int:
        """How many tasks `cancel`, `retry` or `delete` would change, by its name, if it came now."""
        if name not in CHANGEABLE or not wanted:
            raise InvalidOption(f"would({shown(name)}): name one of {', '.join(CHANGEABLE)}, and say which tasks")
        return sum(len(ids) for ids in self._changeable(name, wanted))

    def timeline(self, task_id: str) -> Sequence[Event]:
        """What happened to a task, from when it was added: who ran it, how each attempt ended, who cancelled it."""
        story = self._opened().observer.story(task_id)
        if story is None:
            raise TaskNotFound(task_id)
        return timeline(*story)

    def explain(self, task_id: str) -> Explanation:
        """Why a task is not running, or what became of it: `.sentence` is for people, `.reason` for programs."""
        situation = self._opened().observer.situation(task_id, self._clock.now())
        if situation is None:
            raise TaskNotFound(task_id)
        return explain(situation)

    def workers(self) -> Sequence[WorkerView]:
        """All worker processes, what they work on, and what they run."""
        return self._opened().observer.workers()

    def types(self) -> Sequence[TypeView]:
        """All types: their tasks by state, the settings that hold for them, and how many workers they have."""
        return self._opened().observer.types()

    def metrics(self, minutes: int = 60, type: str | None = None) -> Sequence[MinuteView]:
        """What happened in each of the last minutes, by type, the oldest first. A day is kept."""
        last = int(self._clock.now() // MINUTE)
        span = min(whole_number("minutes", minutes), KEPT_MINUTES)
        rows = self._opened().minutes.read(last - span + 1, last, ids_of_minute)
        return [view for view in minute_views(rows) if type in (None, view.type)]

    def actions(self, limit: int = 50, after: str | None = None) -> Sequence[Action]:
        """What operators have done, the newest first."""
        rows = self._opened().operators.actions(after or _AFTER_ALL, whole_number("limit", limit))
        return [Action._make(row) for row in rows]

    # --- changing ------------------------------------------------------------------------------------------------

    def cancel(self, task_id: str | None = None, /, *, by: str | None = None, **wanted: Unpack[Wanted]) -> int:
        """Cancel a task, or all that match and have not ended; answers with how many.

        What waits is cancelled at once. What runs is asked to stop, which takes up to a second: a coroutine is
        cancelled, in a thread an exception is raised, and `current_task().cancelled` says so.
        """
        store = self._opened().operators
        return self._change(store.cancel, "cancel", task_id, by, wanted, "it has ended")

    def retry(self, task_id: str | None = None, /, *, by: str | None = None, **wanted: Unpack[Wanted]) -> int:
        """Run a task again that has failed or was cancelled, with all of its attempts, or run one now that waits for
        its time; or all such that match. Answers with how many."""
        store = self._opened().operators
        return self._change(
            store.retry, "retry", task_id, by, wanted, "only what has failed, was cancelled or waits can"
        )

    def delete(self, task_id: str | None = None, /, *, by: str | None = None, **wanted: Unpack[Wanted]) -> int:
        """Delete a task that has ended, or all such that match, with their histories; answers with how many."""
        store = self._opened().operators
        return self._change(store.delete, "delete", task_id, by, wanted, "only what has ended can; cancel it first")

    def cleanup(
        self, older_than: timedelta | float = 604_800.0, status: str | Sequence[str] = "success", **rest: Any
    ) -> int:
        """Delete tasks that have ended and were added longer ago than this; answers with how many."""
        seconds = older_than.total_seconds() if isinstance(older_than, timedelta) else older_than
        if not is_number(seconds) or seconds < 0:
            raise InvalidOption(f"older_than={shown(older_than)}: give a timedelta or a number of seconds")
        return self.delete(status=status, until=self._clock.now() - seconds, **rest)

    def _change(
        self, change: Change, name: str, task_id: str | None, by: str | None, wanted: Wanted, otherwise: str
    ) -> int:
        said = any(value is not None for value in wanted.values())  # a name that holds None by mistake says nothing
        if (task_id is None) is not said:
            raise InvalidOption(f"{name}(): give one id, or say which tasks: {name}(status=…, type=…)")
        if task_id is None:
            action = self._action(by, name, json.dumps(wanted, default=str, sort_keys=True))
            return sum(len(change(ids, self._renewed(action))) for ids in self._changeable(name, wanted))
        changed = change([task_id], self._action(by, name, task_id))
        if not changed:
            task = self._opened().get(task_id)
            if task is None:
                raise TaskNotFound(task_id)
            if name == "cancel" and task.status == "in-progress" and task.cancelled_by is not None:
                return 1  # it was asked to stop before, and is about to
            raise WrongState(f"cannot {name} task {task_id}, which is {state_of(task)}: {otherwise}")
        return len(changed)

    def _changeable(self, name: str, wanted: Wanted) -> Iterator[Sequence[str]]:
        """The ids of those of the wanted tasks with which this can be done."""
        asked = self._filter(wanted)
        states = tuple(state for state in CHANGEABLE[name] if asked.states is None or state in asked.states)
        return self._batches(asked._replace(states=states)) if states else iter(())

    def _batches(self, wanted: TaskFilter) -> Iterator[Sequence[str]]:
        """The ids of all that match, some hundreds at a time. What is added meanwhile does not count."""
        store = self._opened().operators
        below: str | None = min(wanted.below_id, first_id(self._clock.now() + 1))
        while below is not None:
            rows, below = store.page(wanted._replace(below_id=below), _AT_ONCE)
            yield [row[0] for row in rows]

    # --- steering types ------------------------------------------------------------------------------------------

    def override(self, type: str, *, by: str | None = None, **settings: Any) -> None:
        """Set `worker_count`, `rate_limit`, `global_limit`, `timeout` or `max_attempts` of a type for all processes.

        It holds at once and after restarts, and wins over what programs say, until `reset`.
        """
        _check_type(type)
        values = {name: json.dumps(_checked(name, value)) for name, value in settings.items()}
        if not values:
            raise InvalidOption(f"override({type!r}): say what, of {', '.join(STEERABLE)}")
        action = self._action(by, "override", f"{type} {json.dumps(settings)}")
        self._opened().operators.set(type, dict(values), action)

    def reset(self, type: str, *names: str, by: str | None = None) -> None:
        """End overrides of a type, all of them if none is named: it is as the programs say again."""
        _check_type(type)
        for name in names:
            _check_name(name)
        action = self._action(by, "reset", f"{type} {' '.join(names)}".strip())
        self._opened().operators.set(type, dict.fromkeys(names or STEERABLE), action)

    def pause(self, type: str | None = None, *, by: str | None = None) -> None:
        """Start nothing, or nothing of this type, in any process until `resume`; and remember who said so."""
        self._opened().operators.set(type or EVERY_TYPE, {"paused": "true"}, self._action(by, "pause", type or ""))

    def resume(self, type: str | None = None, *, by: str | None = None) -> None:
        """End a pause, and remember who did."""
        self._opened().operators.set(type or EVERY_TYPE, {"paused": None}, self._action(by, "resume", type or ""))

    # --- the words of a call ---------------------------------------------------------------------------------------

    def _action(self, by: str | None, name: str, target: str) -> Action:
        if by is not None and not (isinstance(by, str) and 0 < len(by) <= 255 and by.isprintable()):
            raise InvalidOption(f"by={shown(by)}: give the name of who does it, up to 255 printable characters")
        actor = by or f"process {os.getpid()} on {socket.gethostname()}"
        return Action(self._ids.new(), self._clock.now(), actor, name, target)

    def _renewed(self, action: Action) -> Action:
        return action._replace(id=self._ids.new(), at=self._clock.now())

    def _filter(self, wanted: Wanted) -> TaskFilter:
        unknown = set(wanted) - set(Wanted.__annotations__)
        if unknown:
            raise InvalidOption(f"there is no {min(unknown)}= here; use {', '.join(Wanted.__annotations__)}")
        asked = TaskFilter(
            type=_text("type", wanted.get("type")),
            states=_states(wanted.get("status")),
            text=_text("text", wanted.get("text")),
            error=_text("error", wanted.get("error")),
        )
        if wanted.get("since") is not None:
            asked = asked._replace(from_id=first_id(self._moment("since", wanted["since"])))
        if wanted.get("until") is not None:
            asked = asked._replace(below_id=first_id(self._moment("until", wanted["until"])))
        return asked

    def _moment(self, name: str, value: Any) -> float:
        match value:
            case timedelta():
                return self._clock.now() - value.total_seconds()
            case datetime():
                with contextlib.suppress(ValueError, OverflowError, OSError):  # a year that no clock shows
                    return value.timestamp()
            case int() | float() if is_number(value):
                return float(value)
        raise InvalidOption(f"{name}={shown(value)}: give a datetime, a Unix timestamp, or a timedelta that lies back")


def state_of(task: Task) -> str:
    """The status of a task in the words that `list` takes."""
    match task.status:
        case "to-do":
            return "ready" if task.run_after is None else "scheduled"
        case "failed":
            return "retrying" if task.completed_at is None else "dead"
    return task.status


def _states(status: Any) -> tuple[str, ...] | None:
    if status is None:
        return None
    words = [status] if isinstance(status, str) else status
    try:
        return tuple(state for word in words for state in STATES[word])
    except (KeyError, TypeError) as error:
        raise InvalidOption(f"status={shown(status)}: give one or several of {', '.join(STATES)}") from error


def _text(name: str, value: Any) -> str | None:
    if value is not None and (not isinstance(value, str) or storable(value) != value):
        raise InvalidOption(f"{name}={shown(value)}: give a text that a database can hold")
    return value


def _check_type(type_: Any) -> None:
    if not isinstance(type_, str) or not 0 < len(type_) <= 255 or not type_.isprintable():
        raise InvalidOption(f"type={shown(type_)}: a task type is a text of 1 to 255 printable characters")


def _check_name(name: str) -> None:
    if name not in STEERABLE:
        raise InvalidOption(f"{shown(name)} cannot be set for all processes; what can is {', '.join(STEERABLE)}")


def _checked(name: str, value: Any) -> int | float | None:
    _check_name(name)
    if value is None and name in ("rate_limit", "global_limit"):
        return None
    if name in ("rate_limit", "timeout"):
        return positive_number(name, value)
    return whole_number(name, value)
