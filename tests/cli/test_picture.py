"""The demo's picture has one character for each task, and fits its terminal."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tq.cli.demo.picture import LOOKS, Pencil, Row, state_of, summary
from tq.cli.screens import plain
from tq.models import Task

WAITING = Task(
    id="1",
    type="email",
    input={},
    status="to-do",
    version=0,
    attempts=0,
    last_attempt_at=None,
    output=None,
    error=None,
    run_after=None,
    created_at=0.0,
    updated_at=0.0,
    completed_at=None,
    priority=0,
    key=None,
    max_attempts=None,
    timeout=None,
    crashes=0,
    worker_id=None,
    cancelled_by=None,
    ready_at=None,
)
ROWS = [Row("email", "2 at a time", ["done"] * 20 + ["to do"] * 10), Row("thumbnail", "4 at a time", ["retry"] * 40)]


@pytest.mark.parametrize(
    ("task", "worker_lives", "state"),
    [
        (WAITING, True, "to do"),
        (replace(WAITING, status="in-progress", attempts=1), True, "running"),
        (replace(WAITING, status="in-progress", attempts=1), False, "cut off"),
        (replace(WAITING, status="success", completed_at=1.0), False, "done"),
        (replace(WAITING, status="failed", run_after=1.0, attempts=1), True, "retry"),
        (replace(WAITING, attempts=1), True, "retry"),
        (replace(WAITING, status="failed", completed_at=1.0), True, "failed"),
    ],
    ids=[
        "new",
        "running",
        "running when the worker died",
        "done",
        "waits for its retry",
        "due for its retry",
        "failed",
    ],
)
def test_a_task_is_shown_by_what_it_waits_for(task: Task, worker_lives: bool, state: str):
    assert state_of(task, worker_lives) == state


@pytest.mark.parametrize("width", [20, 40, 60, 80, 120])
def test_the_cells_and_the_legend_fit(width: int):
    lines = [plain(line) for line in Pencil(unicode=True).picture(ROWS, width)]
    drawn = [line for line in lines if set("■·↻") & set(line) and not any(state in line for state in LOOKS)]
    assert sum(line.count("■") + line.count("·") for line in drawn) == 30
    assert sum(line.count("↻") for line in drawn) == 40
    assert [line for line in lines if len(line) >= width and "at a time" not in line] == []


def test_at_60_columns_each_type_and_the_legend_take_one_line():
    assert len(Pencil(unicode=True).picture(ROWS, 60)) == 1 + 3 + 3 + 1


def test_a_terminal_without_the_characters_gets_others():
    text = "\n".join(plain(line) for line in Pencil(unicode=False).picture(ROWS, 80))
    assert text.isascii()
    assert "####################..........  20 of 30" in text


def test_the_summary_is_one_line():
    assert summary(ROWS) == "email 20 of 30, thumbnail 0 of 40"
