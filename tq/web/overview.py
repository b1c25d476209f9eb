"""What there is to see of the queue as a whole: counts, workers, actions, the last minutes, and whether it is there."""

from __future__ import annotations

import logging
from typing import Annotated, cast

from fastapi import Query
from starlette.responses import Response

from tq.errors import StorageError, TqError
from tq.queue import TaskQueue
from tq.views import WorkerView
from tq.web.answers import (
    ActionAnswer,
    ActionsAnswer,
    Health,
    MinuteAnswer,
    MinutesAnswer,
    RunningAnswer,
    Stats,
    WorkerAnswer,
    WorkersAnswer,
)
from tq.web.asked import ActionsQuery, MinutesQuery

log = logging.getLogger("tq")


class OverviewHandlers:
    def __init__(self, queue: TaskQueue) -> None:
        self._queue = queue

    def stats(self) -> Stats:
        return cast(Stats, self._queue.stats())

    def list_workers(self) -> WorkersAnswer:
        return WorkersAnswer(workers=[_worker(view) for view in self._queue.desk.workers()])

    def list_actions(self, query: Annotated[ActionsQuery, Query()]) -> ActionsAnswer:
        found = [ActionAnswer(**row._asdict()) for row in self._queue.desk.actions(query.limit, query.after)]
        return ActionsAnswer(actions=found, next=found[-1].id if len(found) == query.limit else None)

    def metrics(self, query: Annotated[MinutesQuery, Query()]) -> MinutesAnswer:
        views = self._queue.desk.metrics(query.minutes, query.type)
        return MinutesAnswer(minutes=[MinuteAnswer(**view._asdict()) for view in views])

    def prometheus(self) -> Response:
        from tq.web.prometheus import exposition

        text, content_type = exposition(self._queue)
        return Response(text, headers={"Content-Type": content_type})

    def healthz(self) -> Health:
        """Anybody may ask this: what is wrong with the database is told to the log alone."""
        try:
            self._queue.desk.actions(1)
        except TqError as error:
            log.warning("the health check failed: %s", error)
            raise StorageError("the queue cannot be reached; the log of its server says why") from None
        return Health(status="ok")


def _worker(view: WorkerView) -> WorkerAnswer:
    tasks = [RunningAnswer(**task._asdict()) for task in view.tasks]
    types = {name: dict(told) for name, told in view.types.items()}
    record = view.record
    return WorkerAnswer(
        id=record.id,
        name=view.name,
        host=record.host,
        pid=record.pid,
        started_at=record.started_at,
        alive=view.alive,
        overdue=view.overdue,
        types=types,
        tasks=tasks,
    )
