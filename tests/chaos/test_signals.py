"""What a signal does to a working program: a first one lets running tasks end, a second one interrupts them."""

from __future__ import annotations

import random
import signal
import time
from collections.abc import Iterable
from typing import Any

import pytest

from tests.chaos.checker import check, in_progress, unfinished
from tests.chaos.databases import rows
from tests.chaos.rig import Program, Rig, wait_until
from tq import TaskQueue

SIGNALS = [signal.SIGTERM, signal.SIGINT]


def _add(rig: Rig, payloads: Iterable[dict[str, Any]]) -> None:
    queue = TaskQueue().init(rig.database, durability="normal")
    queue("plain").add_many(payloads)
    queue.stop()


def _signal_and_wait_until_noticed(program: Program, number: signal.Signals) -> None:
    program.send(number)
    wait_until(lambda: "stopping" in program.complaints(), "the signal was noticed")


def _stopped_in_good_order(rig: Rig, program: Program) -> None:
    assert program.wait() == 0, program.complaints()
    assert in_progress(rig.database) == 0
    assert rows(rig.database, "SELECT id FROM workers") == []
    assert rig.complaints() == ""


def _with_running_task(rig: Rig, name: str = "worker") -> Program:
    _add(rig, [{"gate": "gate"}])
    program = rig.start_ready(name)
    wait_until(lambda: rig.history.events("start"), "the task runs")
    return program


@pytest.mark.parametrize("number", SIGNALS)
def test_a_signal_lets_the_running_task_end_and_gives_back_the_others(rig: Rig, number: signal.Signals) -> None:
    program = rig.start_ready("worker", 1)
    _add(rig, [{}] * 300)  # short ones, so that the worker claims ahead
    wait_until(lambda: unfinished(rig.database) == 0, "the short tasks have ended")
    _add(rig, [{"gate": "gate"}, *([{}] * 50)])
    wait_until(lambda: len(rig.history.events("start")) == 301, "the long task runs")
    _signal_and_wait_until_noticed(program, number)
    wait_until(lambda: in_progress(rig.database) == 1, "claimed tasks were given back while the long one runs")
    rig.allow("gate")
    _stopped_in_good_order(rig, program)
    assert len(rig.history.events("end")) == 301
    attempts, version = rows(rig.database, "SELECT max(attempts), max(version) FROM tasks WHERE status = 'to-do'")[0]
    assert attempts == 0
    assert version >= 2, "nothing had been claimed ahead: this test shows nothing"


@pytest.mark.parametrize("number", SIGNALS)
def test_a_second_signal_interrupts_the_running_task(rig: Rig, number: signal.Signals) -> None:
    program = _with_running_task(rig)
    _signal_and_wait_until_noticed(program, number)
    program.send(number)
    _stopped_in_good_order(rig, program)
    assert rig.history.events("interrupted")
    status, attempts, retry_at = rows(rig.database, "SELECT status, attempts, run_after FROM tasks")[0]
    assert (status, attempts) == ("failed", 1)
    assert retry_at is not None


def test_a_handler_that_ignores_the_interruption_does_not_keep_the_program(rig: Rig) -> None:
    program = _with_running_task(rig, "stubborn")
    _signal_and_wait_until_noticed(program, signal.SIGTERM)
    program.send(signal.SIGTERM)
    _stopped_in_good_order(rig, program)
    assert rig.history.events("ignored")


def test_a_burst_of_signals_ends_the_program_all_the_same(rig: Rig) -> None:
    program = _with_running_task(rig)
    for number in SIGNALS * 100:
        if program.exit_code is None:
            program.send(number)
    assert program.wait() in (0, -signal.SIGINT, -signal.SIGTERM), program.complaints()
    assert in_progress(rig.database) == 0


def test_a_program_that_falls_off_its_end_leaves_nothing_in_progress(rig: Rig) -> None:
    program = rig.start("falls_off")
    _stopped_in_good_order(rig, program)
    assert len(rig.history.events("start")) == len(rig.history.events("end"))


def test_a_kill_at_any_point_of_the_shutdown_loses_nothing(rig: Rig) -> None:
    chance = random.Random(4)
    _add(rig, [{"seconds": 0.002}] * 3000)
    for _ in range(4):
        programs = [rig.start_ready("worker") for _ in range(5)]
        for program in programs:
            program.send(signal.SIGTERM)
        for program in programs:
            time.sleep(chance.uniform(0, 0.02))
            program.kill()
            program.wait()
    rig.start("worker", 8)
    wait_until(lambda: unfinished(rig.database) == 0, "every task has ended")
    rig.stop_all()
    check(rig.database, rig.history, rig.kills())
