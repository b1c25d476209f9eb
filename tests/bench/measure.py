"""What every program here shares: figures made of pairs, the order in which pairs run, arguments, the one JSON line.

A figure compares tq with a reference that ran in the same seconds. The machine may be twice as slow a minute later, so
only the ratio within a pair says something; a figure is the median over its pairs.
"""

from __future__ import annotations

import argparse
import json
import platform
import statistics
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from typing import Any

Measurement = Callable[[], float]


@dataclass
class Figure:
    """Amounts of tq and of its reference, pair by pair. `kind` says what is made of a pair."""

    kind: str  # "ratio": tq / reference; "difference": tq - reference; "amount": tq alone
    unit: str  # of the amounts
    tq: list[float] = field(default_factory=list)
    reference: list[float] = field(default_factory=list)

    def add(self, tq: float, reference: float = 0.0) -> None:
        self.tq.append(tq)
        self.reference.append(reference)

    def join(self, other: Figure) -> None:
        self.tq += other.tq
        self.reference += other.reference

    def values(self) -> list[float]:
        return [self._value(*pair) for pair in zip(self.tq, self.reference, strict=True)]

    def _value(self, tq: float, reference: float) -> float:
        if self.kind == "ratio":
            return tq / reference
        return tq - reference if self.kind == "difference" else tq

    def summary(self) -> dict[str, Any]:
        values = self.values()
        return {
            "median": round(statistics.median(values), 3),
            "low": round(min(values), 3),
            "high": round(max(values), 3),
            "kind": self.kind,
            "unit": self.unit,
            "tq_median": round(statistics.median(self.tq), 3),
            "reference_median": round(statistics.median(self.reference), 3),
        }


Figures = dict[str, Figure]


def compare(tq: Measurement, reference: Measurement, repeats: int, unit: str = "tasks/s") -> Figure:
    """Run both in turn. Who goes first changes from pair to pair, so that a drift of the machine favours neither."""
    figure = Figure("ratio", unit)
    for number in range(repeats):
        if number % 2:
            second = reference()
            figure.add(tq(), second)
        else:
            figure.add(tq(), reference())
    return figure


@contextmanager
def stopwatch() -> Iterator[Callable[[], float]]:
    """Gives a function that answers with the seconds that the block took."""
    began = time.perf_counter()
    ended = began
    yield lambda: ended - began
    ended = time.perf_counter()


# --- arguments, and the one line --------------------------------------------------------------------------------


def arguments(description: str | None, n: int, repeats: int = 5) -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--n", type=int, default=n, help=f"how much work a measurement does ({n})")
    parser.add_argument("--repeats", type=int, default=repeats, help=f"how many pairs are measured ({repeats})")
    return parser


def report(program: str, options: argparse.Namespace, about: dict[str, str], figures: Figures) -> None:
    """Print the one line; `about` says what the figures were measured on."""
    line = {
        "program": program,
        **vars(options),
        "python": platform.python_version(),
        **about,
        "figures": {name: figure.summary() | asdict(figure) for name, figure in figures.items()},
    }
    print(json.dumps(line), flush=True)


def read_figures(line: str) -> Figures:
    """The figures in a line that `report` printed."""
    fields = ("kind", "unit", "tq", "reference")
    return {
        name: Figure(**{key: figure[key] for key in fields}) for name, figure in json.loads(line)["figures"].items()
    }
