"""A queue moves to PostgreSQL while real programs work on it, and the mover is killed at random moments."""

from __future__ import annotations

import contextlib
import random
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from itertools import pairwise

import pytest

from tests.chaos.checker import check, unfinished
from tests.chaos.databases import PostgresSchema, drop, rows
from tests.chaos.rig import ROOT, Rig, wait_until
from tests.postgres import new_schema, server_url

WORKERS, PRODUCERS = 3, 2
LINES = ("copying", "holding", "closing", "following", "comparing", "opening", "telling")  # as a mover says them


@pytest.fixture
def target() -> Iterator[PostgresSchema]:
    target = PostgresSchema(server_url(), new_schema())
    yield target
    drop(target)
    drop(target._replace(schema=f"{target.schema}_moving"))


def _mover(rig: Rig, target: PostgresSchema) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "tq", "move", str(rig.database), target.url, "--schema", target.schema]
    return subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def _killed(mover: subprocess.Popen[str], line: str, seconds: float) -> bool:
    """Whether the mover was killed so long after it had said this line; False if it came to its end before."""
    assert mover.stdout is not None
    with contextlib.suppress(StopIteration):
        while not next(mover.stdout).startswith(line):
            pass
        with contextlib.suppress(subprocess.TimeoutExpired):
            mover.wait(seconds)
    died = mover.poll() is None
    mover.kill()
    out, err = mover.communicate()
    assert died or mover.returncode == 0, out + err
    return died


def _ended(mover: subprocess.Popen[str]) -> None:
    out, err = mover.communicate(timeout=60)
    assert mover.returncode == 0, out + err


def _campaign(rig: Rig, target: PostgresSchema, tasks: int, kills: int, seed: int) -> None:
    chance = random.Random(seed)
    crew = [rig.start_ready("producer", seed + number) for number in range(PRODUCERS)]
    crew += [rig.start_ready("worker") for _ in range(WORKERS)]
    wait_until(lambda: len(rig.history.tasks("accepted")) >= tasks, "some tasks to move")
    died = 0
    for line in sorted(chance.choices(LINES, k=kills), key=LINES.index):  # it never goes back to an earlier one
        if _not_yet_moved(rig):
            died += _killed(_mover(rig, target), line, 0.03 * chance.random() ** 4)
    print(f"\nthe mover was killed {died} times")
    assert died >= 2
    if _not_yet_moved(rig):
        _ended(_mover(rig, target))
    after = len(rig.history.tasks("accepted"))
    wait_until(lambda: len(rig.history.tasks("accepted")) >= after + tasks, "producers go on in the new place")
    rig.allow("enough")
    for program in crew[:PRODUCERS]:
        assert program.wait() == 0, program.complaints()
    wait_until(lambda: unfinished(target) == 0, "every task has ended")
    rig.stop_all()
    check(target, rig.history, rig.kills())
    starts = Counter(event.task for event in rig.history.events("start"))
    assert set(starts.values()) == {1}, "no worker died, so nothing runs twice"
    assert [line for line in rig.complaints().splitlines() if "ERROR" in line and "is being moved to" not in line] == []


def _not_yet_moved(rig: Rig) -> bool:
    begun = rows(rig.database, "SELECT 1 FROM sqlite_master WHERE name = 'tq_move'")
    return not begun or rows(rig.database, "SELECT 1 FROM tq_move WHERE done") == []


def test_a_mover_that_is_killed_at_random_moments_loses_nothing_and_repeats_nothing(
    rig: Rig, target: PostgresSchema
) -> None:
    _campaign(rig, target, tasks=200, kills=4, seed=1)


@pytest.mark.campaign
@pytest.mark.timeout(600)
@pytest.mark.parametrize("seed", range(2, 5))
def test_many_kills_of_the_mover(rig: Rig, target: PostgresSchema, seed: int) -> None:
    _campaign(rig, target, tasks=1500, kills=18, seed=seed)


def test_a_move_of_a_busy_queue_holds_it_for_a_moment_only(rig: Rig, target: PostgresSchema) -> None:
    """No producer hears of an error, and the longest silence of any of them is shown."""
    producers = [rig.start_ready("producer", number) for number in range(PRODUCERS)]
    worker = rig.start_ready("worker")
    wait_until(lambda: len(rig.history.tasks("accepted")) >= 300, "some tasks to move")
    began = time.monotonic()
    _ended(_mover(rig, target))
    took = time.monotonic() - began
    rig.allow("enough")
    assert [program.wait() for program in producers] == [0] * PRODUCERS
    wait_until(lambda: unfinished(target) == 0, "every task has ended")
    rig.stop_all()
    assert worker.exit_code == 0
    check(target, rig.history, {})
    moments = sorted(event.at for event in rig.history.events("accepted"))
    silence = max(later - earlier for earlier, later in pairwise(moments))
    print(f"\nthe move took {took:.1f} s, and the longest silence of the producers {silence:.2f} s")
