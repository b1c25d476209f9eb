"""The programs in tests/bench run, and print what their README says. How fast tq is, is not tested."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests import postgres
from tests.bench.all import FULL, QUICK, Plan, table
from tests.bench.goals import GOALS
from tests.bench.measure import Figure, compare, read_figures

ROOT = Path(__file__).parents[1]
KINDS = ("finished", "scheduled", "foreign")
TINY = {
    "enqueue": (
        ["--n", "32"],
        {"add_normal", "add_full", "add_many_normal", "add_many_full", "add_full_32_threads"},
    ),
    "drain": (
        ["--n", "150"],
        {"drain_normal", "drain_full", "drain_async", "drain_3_processes", "drain_4_kb"},
    ),
    "latency": (["--n", "2"], {"latency_p50", "latency_p99", "latency_full_p50"}),
    "idle": (["--n", "0"], {"idle_cpu", "idle_rss", "idle_pss", "idle_uss", "import_cpu"}),
    "table_size": (
        ["--n", "150", "--rows", "300"],
        {f"{what}_{kind}_300" for what in ("add", "claim", "stats") for kind in KINDS},
    ),
}
TINY_ON_POSTGRES = {
    "enqueue": (
        ["--store", "postgres", "--n", "32"],
        {"add_postgres", "add_many_postgres", "add_postgres_32_threads"},
    ),
    "drain": (
        ["--store", "postgres", "--n", "150"],
        {"drain_postgres", "drain_postgres_async", "drain_postgres_3_processes", "drain_postgres_4_kb"},
    ),
    "latency": (["--store", "postgres", "--n", "2"], {"latency_postgres_p50", "latency_postgres_p99"}),
    "table_size": (
        ["--store", "postgres", "--n", "150", "--rows", "300"],
        {f"{what}_postgres_{kind}_300" for what in ("add", "claim", "stats") for kind in KINDS},
    ),
    "bloat": (
        ["--n", "300", "--patience", "0"],
        {f"bloat_postgres_{what}" for what in ("dead_rows", "table_bytes", "index_bytes", "claim")}
        | {f"bloat_postgres_{what}" for what in ("vacuums", "dead_rows_vacuumed", "claim_vacuumed")},
    ),
}


def run(program: str, options: list[str]) -> str:
    command = [sys.executable, "-W", "error", "-m", f"tests.bench.{program}", "--repeats", "1", *options]
    return subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, text=True, check=True, timeout=100).stdout


def check_its_line(program: str, options: list[str], expected: set[str]) -> None:
    (line,) = run(program, options).splitlines()
    assert json.loads(line)["program"] == program
    figures = read_figures(line)
    assert set(figures) == expected
    for figure in figures.values():
        assert len(figure.tq) == len(figure.reference) == 1
        assert {"median", "low", "high"} <= set(figure.summary())


@pytest.mark.parametrize("program", TINY)
def test_a_program_prints_one_line_with_its_figures(program: str):
    check_its_line(program, *TINY[program])


@pytest.mark.parametrize("program", TINY_ON_POSTGRES)
def test_a_program_prints_one_line_with_its_figures_on_postgres(program: str):
    postgres.server_url()  # starts the server once for all of them
    check_its_line(program, *TINY_ON_POSTGRES[program])


def test_every_goal_has_a_program_that_measures_it():
    measured = {
        re.sub(r"_\d+$", "", name) for _, names in (*TINY.values(), *TINY_ON_POSTGRES.values()) for name in names
    }
    assert {re.sub(r"_\d+$", "", goal.figure) for goal in GOALS} <= measured


def test_pairs_alternate_so_that_neither_side_profits_from_a_drift():
    order: list[str] = []

    def measurement(name: str, amount: float) -> float:
        order.append(name)
        return amount

    figure = compare(lambda: measurement("tq", 3.0), lambda: measurement("reference", 6.0), repeats=3)
    assert order == ["tq", "reference", "reference", "tq", "tq", "reference"]
    assert figure.values() == [0.5, 0.5, 0.5]


def test_the_table_says_which_goals_are_missed():
    figures = {
        "drain_normal": Figure("ratio", "tasks/s", tq=[1.0, 2.0, 9.0], reference=[10.0, 10.0, 10.0]),
        "latency_p50": Figure("ratio", "ms", tq=[1.5], reference=[1.0]),
        "idle_rss": Figure("difference", "MB", tq=[17.0], reference=[8.0]),
    }
    _, _, *rows = table(figures).splitlines()
    cells = [[cell.strip() for cell in row.strip("|").split("|")] for row in rows]
    assert [(row[3], row[5]) for row in cells] == [("0.20", "MISSED"), ("1.50", "floor met"), ("9.00", "aim met")]


@pytest.mark.parametrize("plans", [FULL, QUICK], ids=["full", "quick"])
def test_the_one_command_runs_every_program(plans: dict[str, Plan]):
    assert {store: {*plan.every_round, *plan.once} for store, plan in plans.items()} == {
        "sqlite": set(TINY),
        "postgres": set(TINY_ON_POSTGRES),
    }
