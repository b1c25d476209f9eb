"""What operators look at: workers, types, and the situation of one task. Every look sees one moment, and costs the same
with a million tasks."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable
from functools import partial

from tq.models import StoredSettings, Task, WorkerRecord
from tq.ratelimit import Bucket
from tq.storage.driver import Driver, Session
from tq.storage.rows import task_of
from tq.storage.settings import read_settings
from tq.views import Attempt, RunningTask, Situation, TypeView, WorkerView

_MOST_COUNTED = 10_000
_MOST_BEFORE = 1000


class Observer:
    def __init__(self, driver: Driver) -> None:
        self._driver = driver

    def workers(self) -> list[WorkerView]:
        return self._driver.read(self._workers)

    def types(self) -> list[TypeView]:
        return self._driver.read(self._types)

    def story(self, task_id: str) -> tuple[Task, list[Attempt]] | None:
        """A task and what its history remembers."""

        def operation(session: Session) -> tuple[Task, list[Attempt]] | None:
            rows = session.rows("get_task", (task_id,))
            attempts = map(Attempt._make, session.rows("get_attempts", (task_id,)))
            return (task_of(rows[0]), list(attempts)) if rows else None

        return self._driver.read(operation)

    def situation(self, task_id: str, now: float) -> Situation | None:
        return self._driver.read(partial(self._situation, task_id=task_id, now=now))

    def _situation(self, session: Session, task_id: str, now: float) -> Situation | None:
        rows = session.rows("get_task", (task_id,))
        if not rows:
            return None
        task = task_of(rows[0])
        bucket = session.rows("read_bucket", (task.type,))
        first = session.rows("ready_before", (task.type, task.priority, task.id, _MOST_BEFORE + 1))[0][0]
        return Situation(
            now,
            task,
            _settings(session),
            tuple(self._workers(session)),
            Bucket(*bucket[0]) if bucket else None,
            min(first, _MOST_BEFORE),
            first > _MOST_BEFORE,
        )

    def _workers(self, session: Session) -> list[WorkerView]:
        running = _running(session)
        views = []
        for *record, about in session.rows("describe_workers"):
            worker = WorkerRecord(*record)
            told = json.loads(about)
            alive = not self._driver.seems_dead(session, worker)
            types, overdue = told.get("types", {}), told.get("overdue", 0)
            views.append(WorkerView(worker, alive, types, overdue, tuple(running[worker.id])))
        return views

    def _types(self, session: Session) -> list[TypeView]:
        settings = _settings(session)
        living = [worker for worker in self._workers(session) if worker.alive]
        counts, capped = _counts(session)
        names = {*counts, *settings.types, *settings.paused, *(name for worker in living for name in worker.types)}
        return [_type(session, name, counts[name], capped, settings, living) for name in sorted(names - {""})]


def _settings(session: Session) -> StoredSettings:
    return read_settings(session.rows("stored_settings")[0][0])


def _running(session: Session) -> dict[str, list[RunningTask]]:
    by_worker: dict[str, list[RunningTask]] = defaultdict(list)
    for worker_id, *task in session.rows("running_by_worker"):
        by_worker[worker_id].append(RunningTask(*task))
    return by_worker


def _counts(session: Session) -> tuple[dict[str, dict[str, int]], bool]:
    """Tasks by type and state; and whether there are more that wait for their time than were counted."""
    counts: dict[str, dict[str, int]] = defaultdict(dict)
    for (name,) in session.rows("type_names"):
        counts[name] = {}
    for name, status, count in session.rows("count_ended"):
        counts[name]["dead" if status == "failed" else status] = count
    for name, count in session.rows("count_running"):
        counts[name]["in-progress"] = count
    waiting = session.rows("count_waiting_few", (_MOST_COUNTED + 1,))
    for name, status, count in waiting:
        counts[name]["scheduled" if status == "to-do" else "retrying"] = count
    return counts, sum(count for *_, count in waiting) > _MOST_COUNTED


def _type(
    session: Session,
    name: str,
    counts: dict[str, int],
    capped: bool,
    settings: StoredSettings,
    living: Iterable[WorkerView],
) -> TypeView:
    ready = session.rows("ready_of_type", (name, _MOST_COUNTED + 1))[0][0]
    first = session.rows("next_of_type", (name,)) if ready else []
    told = [worker.types[name] for worker in living if name in worker.types]
    stored = settings.types.get(name, {})
    return TypeView(
        name,
        {**counts, "ready": min(ready, _MOST_COUNTED)},
        capped or ready > _MOST_COUNTED,
        first[0][0] if first else None,
        settings.holds_back(name),
        {**(told[-1] if told else {}), **stored},
        tuple(stored),
        len(told),
    )
