"""How the demo's tasks look at one moment: one character for each of them. Pure."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Sequence
from itertools import groupby
from typing import Literal, NamedTuple

from tq.cli.screens import Line, Span, Style
from tq.models import Task

State = Literal["done", "running", "cut off", "retry", "to do", "failed"]


class Look(NamedTuple):
    character: str
    ascii: str
    style: Style


LOOKS: dict[State, Look] = {
    "done": Look("■", "#", "green"),
    "running": Look("▸", ">", "cyan"),
    "cut off": Look("!", "!", "red"),
    "retry": Look("↻", "r", "yellow"),
    "to do": Look("·", ".", "dim"),
    "failed": Look("✗", "x", "red"),
}
_INDENT = "  "


def state_of(task: Task, worker_lives: bool) -> State:
    if task.status == "success":
        return "done"
    if task.status == "in-progress":
        return "running" if worker_lives else "cut off"
    if task.status == "failed":
        return "failed" if task.finished else "retry"
    return "retry" if task.attempts else "to do"


class Row(NamedTuple):
    """One type, as the picture shows it."""

    type: str
    rules: str
    states: Sequence[State]

    @property
    def done(self) -> int:
        return self.states.count("done")


class Pencil:
    """Draws with the characters that the terminal has."""

    def __init__(self, unicode: bool) -> None:
        self._unicode = unicode

    def picture(self, rows: Sequence[Row], width: int) -> list[Line]:
        lines: list[Line] = [[]]
        for row in rows:
            lines += [self._title(row), *self._cells(row.states, width), []]
        return [*lines, *self._legend(width)]

    def _title(self, row: Row) -> Line:
        return [Span(_INDENT), Span(f"{row.type:<11}", "bold"), Span(row.rules, "dim")]

    def _cells(self, states: Sequence[State], width: int) -> Iterable[Line]:
        counted = f"  {states.count('done'):>2} of {len(states)}"
        room = width - len(_INDENT) - len(counted) - 1
        for start in range(0, len(states), room):
            spans = [self._run(state, len(list(same))) for state, same in groupby(states[start : start + room])]
            last = start + room >= len(states)
            yield [Span(_INDENT), *spans, *([Span(counted)] if last else [])]

    def _run(self, state: State, length: int) -> Span:
        return Span(self.character(state) * length, LOOKS[state].style)

    def character(self, state: State) -> str:
        look = LOOKS[state]
        return look.character if self._unicode else look.ascii

    def _legend(self, width: int) -> list[Line]:
        lines: list[list[Span]] = [[]]
        for state, look in LOOKS.items():
            if _length(lines[-1]) + len(state) + 4 >= width:
                lines.append([])
            lines[-1] += [Span(_INDENT), Span(self.character(state), look.style), Span(f" {state}", "dim")]
        return list(lines)


def _length(line: Line) -> int:
    return sum(len(span.text) for span in line)


def wrapped(text: str, width: int, first: str = "", rest: str = "") -> list[str]:
    return textwrap.wrap(text, width - 1, initial_indent=first, subsequent_indent=rest)


def summary(rows: Sequence[Row]) -> str:
    """The picture in one line."""
    return ", ".join(f"{row.type} {row.done} of {len(row.states)}" for row in rows)
