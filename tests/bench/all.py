"""Runs every program in turn, several rounds of it, and says which goals are met.

    python -m tests.bench.all                     SQLite and PostgreSQL, a quarter of an hour or more
    python -m tests.bench.all --store sqlite      about six minutes
    python -m tests.bench.all --quick             a minute: whether it works, not how fast it is

Prints one JSON line for each figure, then a table of the goals. The rounds go through all programs, so that the pairs
of a figure come from different minutes; what takes long to prepare, as the filled tables, is made once and measured
several times.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from typing import NamedTuple

from tests.bench.goals import GOALS
from tests.bench.measure import Figure, Figures, read_figures
from tests.bench.processes import ROOT
from tests.bench.stores import STORES

Programs = dict[str, list[str]]  # the options of each

TWO_PAIRS = ["--repeats", "2"]  # in one of them tq goes first, in the other the reference


class Plan(NamedTuple):
    """What runs on a store: some programs once in every round, others once."""

    every_round: Programs
    once: Programs


FULL_EVERYWHERE = {
    "enqueue": [*TWO_PAIRS, "--n", "2000"],
    "drain": [*TWO_PAIRS, "--n", "10000"],
    "latency": [*TWO_PAIRS, "--n", "60"],
}
QUICK_EVERYWHERE = {
    "enqueue": [*TWO_PAIRS, "--n", "500"],
    "drain": [*TWO_PAIRS, "--n", "2000"],
    "latency": ["--repeats", "1", "--n", "15"],
}
FULL_TABLES = {"table_size": ["--repeats", "7", "--n", "2000", "--rows", "100000", "1000000"]}
QUICK_TABLES = {"table_size": ["--repeats", "3", "--n", "500", "--rows", "20000"]}
FULL = {
    "sqlite": Plan(FULL_EVERYWHERE | {"idle": [*TWO_PAIRS, "--n", "3"]}, FULL_TABLES),
    "postgres": Plan(FULL_EVERYWHERE, FULL_TABLES | {"bloat": ["--repeats", "7", "--n", "200000"]}),
}
QUICK = {
    "sqlite": Plan(QUICK_EVERYWHERE | {"idle": ["--repeats", "1", "--n", "1"]}, QUICK_TABLES),
    "postgres": Plan(QUICK_EVERYWHERE, QUICK_TABLES | {"bloat": ["--repeats", "3", "--n", "5000", "--patience", "0"]}),
}
ONE_STORE = {"idle", "bloat"}  # these know where they run


def run(program: str, options: list[str], store: str) -> Figures:
    where = [] if program in ONE_STORE else ["--store", store]
    command = [sys.executable, "-m", f"tests.bench.{program}", *where, *options]
    print(f"… {program}, {store}", file=sys.stderr, flush=True)
    return read_figures(subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, text=True, check=True).stdout)


def gather(plans: dict[str, Plan], rounds: int) -> Figures:
    figures: Figures = {}
    for number in range(rounds):
        for store, plan in plans.items():
            programs = plan.every_round if number else plan.every_round | plan.once
            for program, options in programs.items():
                for name, figure in run(program, options, store).items():
                    figures.setdefault(name, Figure(figure.kind, figure.unit)).join(figure)
    return figures


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
    parser.add_argument("--quick", action="store_true", help="little of everything, in a minute")
    parser.add_argument("--rounds", type=int, help="how often each program runs (4; quick: 1)")
    parser.add_argument("--store", choices=[*STORES, "both"], default="both", help="what to measure (both)")
    options = parser.parse_args()
    plans = QUICK if options.quick else FULL
    if options.store != "both":
        plans = {options.store: plans[options.store]}
    for store in plans:  # a PostgreSQL from pip starts here, and runs until the end
        print(json.dumps({"store": store, **STORES[store].about()}), flush=True)
    figures = gather(plans, options.rounds or (1 if options.quick else 4))
    for name, figure in figures.items():
        print(json.dumps({"figure": name, **figure.summary(), "pairs": len(figure.tq)}), flush=True)
    print(table(figures))


if __name__ == "__main__":
    main()
