"""The types that a worker process works on: what its program says of them, and what was set for all processes."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping

from tq.models import STEERABLE, StoredSettings, TaskType


class Kinds:
    """Its types, as they are to be run. What was set for all processes wins."""

    def __init__(self, types: Callable[[], Mapping[str, TaskType]]) -> None:
        self._types = types
        self.settings = StoredSettings()
        self._described: tuple[Mapping[str, TaskType], int] = ({}, -1)
        self._description = ""

    def __iter__(self) -> Iterator[TaskType]:
        return (self.settings.applied(kind) for kind in self._types().values() if kind.handler is not None)

    def adopt(self, settings: StoredSettings) -> bool:
        """Go by these settings from here on; answers whether they are others than before."""
        changed = settings != self.settings
        self.settings = settings
        return changed

    def description(self, overdue: int) -> str:
        """What the program says of its types, and how many handlers run on that were given up, for those who look."""
        types = self._types()
        if (types, overdue) != self._described:
            self._described = types, overdue
            told = {kind.name: {name: getattr(kind, name) for name in STEERABLE} for kind in types.values()}
            handled = {name: about for name, about in told.items() if types[name].handler is not None}
            self._description = json.dumps({"types": handled, "overdue": overdue})
        return self._description
