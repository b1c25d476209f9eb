"""How the demo ends: what became of every task, and what to try next. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from tq.cli.demo.picture import wrapped
from tq.cli.safe_text import printable
from tq.cli.screens import Line, Span
from tq.models import QueueStats, Task

NEXT = """\
from tq import tq
tq.init("tasks.db")
tq("greet").set_worker(lambda name: f"hello, {name}")
print(tq("greet").submit("world").result(timeout=10))
print(tq.stats())"""

_HEADINGS = ("", "added", "succeeded", "failed", "lost", "attempts")


class Total(NamedTuple):
    type: str
    added: int
    succeeded: int
    failed: int
    attempts: int

    @property
    def lost(self) -> int:
        return self.added - self.succeeded - self.failed


class Report(NamedTuple):
    totals: list[Total]
    interrupted: int
    failures: list[Task]

    @property
    def lost(self) -> int:
        return sum(total.lost for total in self.totals)


def report(stats: QueueStats, tasks: Sequence[Task], interrupted: int) -> Report:
    """Set what the queue counts beside what was added to it."""
    failures = [task for task in tasks if task.status == "failed"]
    return Report([_total(type_, counts, tasks) for type_, counts in stats["byType"].items()], interrupted, failures)


def _total(type_: str, counts: dict[str, int], tasks: Sequence[Task]) -> Total:
    mine = [task for task in tasks if task.type == type_]
    attempts = sum(task.attempts for task in mine)
    return Total(type_, len(mine), counts.get("success", 0), counts.get("failed", 0), attempts)


def lines(report: Report, width: int) -> Iterator[Line]:
    yield []
    yield from _table(report.totals)
    yield []
    yield [Span("  Nothing was lost.", "green") if not report.lost else Span("  Tasks were lost.", "red")]
    for sentence in _sentences(report):
        yield from ([Span(text)] for text in wrapped(sentence, width, "  ", "  "))
    yield []
    yield [Span("  Now you. Start python, and paste:", "bold")]
    yield []
    yield from ([Span(f"    {line}", "cyan")] for line in NEXT.splitlines())
    yield []
    yield from ([Span(text, "dim")] for text in wrapped(_WHAT_COMES_NEXT, width, "  ", "  "))


def _table(totals: Sequence[Total]) -> Iterator[Line]:
    yield [Span("  " + _columns(_HEADINGS), "dim")]
    for total in totals:
        yield [Span("  " + _columns((total.type, total.added, total.succeeded, total.failed))), *_lost(total)]


def _lost(total: Total) -> Line:
    return [Span(f"{total.lost:>6}", "red" if total.lost else "green"), Span(f"{total.attempts:>10}")]


def _columns(values: Sequence[object]) -> str:
    widths = (-9, 7, 11, 8, 6, 10)
    return "".join(
        f"{value:<{-width}}" if width < 0 else f"{value:>{width}}"
        for value, width in zip(map(str, values), widths, strict=False)
    )


def _sentences(report: Report) -> Iterator[str]:
    if report.lost:
        yield f"{report.lost} of them. That must never happen: please report it."
        return
    yield (
        f"The {report.interrupted} tasks that were cut off by the kill were run again, from their start: "
        "tq runs every accepted task to its end, at least once."
    )
    for task in report.failures:
        reason = printable(task.error or "")
        yield f"{task.input['name']} failed, as it had to. A failed task is kept, with its reason: {reason}."


_WHAT_COMES_NEXT = (
    "Then: more programs to copy are in examples/ of the source, each a page long. `tq --help` lists the commands."
)
