"""Gives each type its lane: threads of its own for functions, the shared event loop for coroutines."""

from __future__ import annotations

from collections.abc import Callable

from tq.clock import Clock
from tq.executor import Executor
from tq.lanes.job import Basket, Lane
from tq.lanes.loop import LoopLane
from tq.lanes.thread import ThreadLane
from tq.models import TaskType


class HandlerLanes:
    def __init__(
        self,
        executor: Executor,
        basket: Basket,
        clock: Clock,
        started: Callable[[str, int], None],
        stopping: Callable[[], bool],
    ) -> None:
        self._parts = (executor, basket, clock, started, stopping)
        self._threads: dict[str, ThreadLane] = {}
        self._loop: LoopLane | None = None

    def lane_of(self, kind: TaskType) -> Lane:
        if kind.is_async:
            self._loop = self._loop or LoopLane(*self._parts)
            return self._loop
        if kind.name not in self._threads:
            self._threads[kind.name] = ThreadLane(kind.name, *self._parts)
        return self._threads[kind.name]

    def all(self) -> list[Lane]:
        return [*self._threads.values(), *([self._loop] if self._loop else [])]
