"""What can be done with tasks: add them, find them, and cancel, retry and delete one."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import Depends, Query
from starlette.requests import Request

from tq.desk import Desk
from tq.payload import encode
from tq.queue import TaskQueue
from tq.web.answers import Added, Counted, ExplanationAnswer, PageAnswer, TaskStory
from tq.web.asked import NewTask, NewTasks, PageQuery, TaskId
from tq.web.display import Display
from tq.web.guarded import ACTOR

_LARGEST_STEP = 1000


async def _actor(request: Request) -> str:
    name: str = request.scope[ACTOR]
    return name


Actor = Annotated[str, Depends(_actor)]


class TaskHandlers:
    def __init__(self, queue: TaskQueue, display: Display) -> None:
        self._queue = queue
        self._display = display

    def add_tasks(self, new: NewTasks) -> Added:
        tasks = new if isinstance(new, list) else [new]
        return Added(ids=self._queue.accept([self._spec(task) for task in tasks]))

    def _spec(self, task: NewTask) -> Any:
        context = self._queue(task.type)  # refuses what is no name
        options: Any = task.given("type", "input")
        return self._queue.spec(context.name, encode(task.input), options)

    def list_tasks(self, query: Annotated[PageQuery, Query()]) -> PageAnswer:
        wanted = query.wanted()
        after, left = _skipped(self._queue.desk, query.after, query.offset, wanted)
        if left:
            return PageAnswer(tasks=[], next=None)
        page = self._queue.list(query.limit, after, **wanted)
        return PageAnswer(tasks=[self._display.row(task) for task in page.tasks], next=page.next)

    def get_task(self, id: TaskId) -> TaskStory:
        return self._display.whole(self._queue.get(id), self._queue.desk.timeline(id))

    def explain_task(self, id: TaskId) -> ExplanationAnswer:
        return self._display.explanation(self._queue.explain(id))

    def retry_task(self, id: TaskId, actor: Actor) -> TaskStory:
        self._queue.retry(id, by=actor)
        return self.get_task(id)

    def cancel_task(self, id: TaskId, actor: Actor) -> TaskStory:
        self._queue.cancel(id, by=actor)
        return self.get_task(id)

    def delete_task(self, id: TaskId, actor: Actor) -> Counted:
        return Counted(count=self._queue.delete(id, by=actor), dry_run=False)


def _skipped(desk: Desk, after: str | None, offset: int, wanted: dict[str, Any]) -> tuple[str | None, bool]:
    """Behind which task a page with this offset begins, and whether the tasks have ended before it."""
    while offset:
        page = desk.list(min(offset, _LARGEST_STEP), after, **wanted)
        offset -= len(page.tasks)
        after = page.next
        if after is None:
            return None, True
    return after, False
