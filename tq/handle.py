"""A handle on one submitted task: look at it, wait for it, get its result."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from tq.clock import Clock
from tq.desk import Desk
from tq.errors import ResultTimeout, TaskCancelled, TaskFailed, TaskNotFound, WrongState
from tq.models import Status, Task
from tq.storage.store import Store

_FIRST_PAUSE, _LONGEST_PAUSE = 0.001, 0.05


class TaskHandle:
    """What `submit` gives back. It stays valid for as long as its queue is open on the same database.

    >>> tq("double").set_worker(lambda number: 2 * number).submit(21).result(timeout=30)
    42
    """

    def __init__(self, task_id: str, opened: Callable[[], Store], clock: Clock, desk: Desk) -> None:
        self.id = task_id
        self._store = opened
        self._clock = clock
        self._desk = desk

    def __repr__(self) -> str:
        return f"TaskHandle({self.id!r})"

    def task(self) -> Task:
        """The task as it stands now."""
        task = self._store().get(self.id)
        if task is None:
            raise TaskNotFound(self.id)
        return task

    def status(self) -> Status:
        """`to-do`, `in-progress`, `success`, `failed` or `cancelled`."""
        return self.task().status

    def cancel(self, by: str | None = None) -> bool:
        """Cancel the task; False if it has ended already. One that runs is asked to stop, which takes a moment."""
        try:
            return bool(self._desk.cancel(self.id, by=by))
        except WrongState:
            return False

    def wait(self, timeout: float | None = None) -> bool:
        """Wait until the task has ended, well or not; False if it had not when the time was over."""
        for pause in self._pauses(timeout):
            if self._ended():
                return True
            self._clock.sleep(pause)
        return self._ended()

    async def await_end(self, timeout: float | None = None) -> bool:
        """`wait` for coroutines."""
        import asyncio  # whoever calls this has loaded it; other programs save 7 MB (measured)

        for pause in self._pauses(timeout):
            if self._ended():
                return True
            await asyncio.sleep(pause)
        return self._ended()

    def result(self, timeout: float | None = None) -> Any:
        """What the handler returned. Raises `TaskFailed`, `TaskCancelled` or, if it takes too long, `ResultTimeout`."""
        return self._outcome(self.wait(timeout), timeout)

    async def aresult(self, timeout: float | None = None) -> Any:
        """`result` for coroutines."""
        return self._outcome(await self.await_end(timeout), timeout)

    def _ended(self) -> bool:
        status = self._store().status(self.id)
        if status is None:
            raise TaskNotFound(self.id)
        return status[1]

    def _outcome(self, ended: bool, timeout: float | None) -> Any:
        if not ended:
            raise ResultTimeout(f"task {self.id} had not ended after {timeout:g} s: {_state(self.task())}")
        task = self.task()
        if task.status == "failed":
            raise TaskFailed(self.id, task.error or "no reason was recorded")
        if task.status == "cancelled":
            raise TaskCancelled(self.id)
        return task.output

    def _pauses(self, timeout: float | None) -> Iterator[float]:
        give_up_at = None if timeout is None else self._clock.monotonic() + timeout
        pause = _FIRST_PAUSE
        while give_up_at is None or self._clock.monotonic() < give_up_at:
            yield pause if give_up_at is None else min(pause, max(0.0, give_up_at - self._clock.monotonic()))
            pause = min(pause * 1.5, _LONGEST_PAUSE)


def _state(task: Task) -> str:
    """Why a task has not ended, for whoever waits for it."""
    match task:
        case Task(status="in-progress"):
            return f"its handler runs, in attempt {task.attempts}; ask again later"
        case Task(error=str(error)) if task.attempts:
            return f"attempt {task.attempts} failed ({error}), and it will be tried again; ask again later"
        case Task(run_after=float()):
            return "its time has not come; ask again later"
    return f"it waits to be started; is a worker running that has a handler for {task.type!r}, and a free place?"
