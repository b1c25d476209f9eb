"""Which settings hold for all processes, and which of them a worker has seen in the transaction that it claims in."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from tests.simulation.history import Event
from tq.models import TaskType

Stored = dict[str, dict[str, Any]]  # by type and name


class Steering:
    def __init__(self, types: Mapping[str, TaskType], one_writer: bool) -> None:
        self._types = types
        self._one_writer = one_writer
        self._stored: Stored = {}
        self._seen: dict[str, Stored] = {}  # by process

    def hear(self, event: Event) -> None:
        match event.what:
            case "set":
                self._set(**event.facts)
            case "asked" if event.facts["statement"] == "look_around":
                self._seen[event.who] = {type_: dict(values) for type_, values in self._stored.items()}

    def _set(self, type: str, name: str, value: str | None) -> None:
        values = self._stored.setdefault(type, {})
        values.pop(name, None)
        if value is not None:
            values[name] = json.loads(value)

    def kind(self, who: str, type_: str) -> TaskType:
        """A type as it is to be run by whoever claims now. Where two may write at once it goes by what it has seen."""
        seen = self._stored if self._one_writer else self._seen.get(who.removesuffix(", late"), {})
        return replace(self._types[type_], **seen.get(type_, {}))
