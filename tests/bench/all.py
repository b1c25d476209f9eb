"""Runs every program in turn, several rounds of it, and says which goals are met.

    python -m tests.bench.all            about six minutes
    python -m tests.bench.all --quick    half a minute: whether it works, not how fast it is

Prints one JSON line for each figure, then a table of the goals. The rounds go through all programs, so that the pairs
of a figure come from different minutes; the filled tables alone are made once, and measured several times.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys

from tests.bench.goals import GOALS
from tests.bench.measure import Figure, Figures, read_figures
from tests.bench.processes import ROOT

TWO_PAIRS = ["--repeats", "2"]  # in one of them tq goes first, in the other the reference
FULL = {
    "enqueue": [*TWO_PAIRS, "--n", "2000"],
    "drain": [*TWO_PAIRS, "--n", "10000"],
    "latency": [*TWO_PAIRS, "--n", "60"],
    "idle": [*TWO_PAIRS, "--n", "3"],
}
QUICK = {
    "enqueue": [*TWO_PAIRS, "--n", "500"],
    "drain": [*TWO_PAIRS, "--n", "2000"],
    "latency": ["--repeats", "1", "--n", "15"],
    "idle": ["--repeats", "1", "--n", "1"],
}
FULL_TABLES = ["--repeats", "7", "--n", "2000", "--rows", "100000", "1000000"]
QUICK_TABLES = ["--repeats", "3", "--n", "500", "--rows", "20000"]


def run(program: str, options: list[str]) -> Figures:
    command = [sys.executable, "-m", f"tests.bench.{program}", *options]
    print(f"… {program}", file=sys.stderr, flush=True)
    return read_figures(subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, text=True, check=True).stdout)


def gather(programs: dict[str, list[str]], tables: list[str], rounds: int) -> Figures:
    figures: Figures = {}
    for _ in range(rounds):
        for program, options in programs.items():
            for name, figure in run(program, options).items():
                figures.setdefault(name, Figure(figure.kind, figure.unit)).join(figure)
    return figures | run("table_size", tables)


def table(figures: Figures) -> str:
    lines = [("goal", "floor", "aim", "measured", "low–high", "")]
    for goal in GOALS:
        if goal.figure in figures:
            found = figures[goal.figure].summary()
            sign = "≤" if goal.at_most else "≥"
            spread = f"{found['low']:.2f}–{found['high']:.2f}"
            verdict = goal.verdict(found["median"])
            bounds = f"{sign} {goal.floor:g}", f"{sign} {goal.aim:g}"
            lines.append((goal.says, *bounds, f"{found['median']:.2f}", spread, verdict))
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    rows = ["| " + " | ".join(map(str.ljust, line, widths)) + " |" for line in lines]
    return "\n".join([rows[0], "|" + "|".join("-" * (width + 2) for width in widths) + "|", *rows[1:]])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="little of everything, in half a minute")
    parser.add_argument("--rounds", type=int, help="how often each program runs (4; quick: 1)")
    options = parser.parse_args()
    if options.quick:
        figures = gather(QUICK, QUICK_TABLES, options.rounds or 1)
    else:
        figures = gather(FULL, FULL_TABLES, options.rounds or 4)
    for name, figure in figures.items():
        print(json.dumps({"figure": name, **figure.summary(), "pairs": len(figure.tq)}), flush=True)
    print(table(figures))


if __name__ == "__main__":
    main()
