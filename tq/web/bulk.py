"""What can be done with all tasks that match."""

from __future__ import annotations

from typing import Annotated

from fastapi import Query

from tq.queue import TaskQueue
from tq.web.answers import Counted
from tq.web.asked import BulkBody, BulkQuery
from tq.web.tasks import Actor


class BulkHandlers:
    def __init__(self, queue: TaskQueue) -> None:
        self._queue = queue

    def delete_tasks(self, query: Annotated[BulkQuery, Query()], actor: Actor) -> Counted:
        return self._change("delete", query, actor)

    def retry_tasks(self, body: BulkBody, actor: Actor) -> Counted:
        return self._change("retry", body, actor)

    def cancel_tasks(self, body: BulkBody, actor: Actor) -> Counted:
        return self._change("cancel", body, actor)

    def _change(self, name: str, asked: BulkBody | BulkQuery, actor: str) -> Counted:
        desk, wanted = self._queue.desk, asked.wanted()
        if asked.dry_run:
            return Counted(count=desk.would(name, **wanted), dry_run=True)
        change = {"delete": desk.delete, "retry": desk.retry, "cancel": desk.cancel}[name]
        return Counted(count=change(by=actor, **wanted), dry_run=False)
