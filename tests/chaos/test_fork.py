"""A program may fork with an open queue: both sides go on, and a dead parent is noticed although its child lives."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest

from tests.chaos.checker import check
from tests.chaos.databases import is_sound, on, rows
from tests.chaos.rig import Rig, wait_until

CHILD_SECONDS = 120  # longer than any test waits: nothing here may depend on the child's end


def _stored(rig: Rig) -> set[str]:
    return {row[0] for row in rows(rig.database, "SELECT id FROM tasks")}


def _accepted(rig: Rig) -> set[str]:
    return set(rig.history.tasks("accepted"))


@on("sqlite", "postgres")
def test_what_a_forked_child_adds_is_there_also_after_its_parent_has_closed_the_queue(rig: Rig) -> None:
    program = rig.start("fork_and_add")
    wait_until(lambda: rig.history.events("visit"), "the child has added")
    assert _accepted(rig) == _stored(rig)
    rig.allow("visited")  # another process has opened the file, and closed it again
    wait_until(lambda: rig.history.events("done"), "the child has added more")
    assert _accepted(rig) == _stored(rig)
    rig.allow("child-may-end")
    assert program.wait() == 0, program.complaints()
    assert len(_accepted(rig)) == 50
    assert _accepted(rig) == _stored(rig)


@on("sqlite", "postgres")
@pytest.mark.parametrize("attempt", range(3))
def test_many_threads_of_a_forked_child_may_open_the_queue_at_once(rig: Rig, attempt: int) -> None:
    rig.finish("fork_with_threads")
    assert _accepted(rig) == _stored(rig)


@on("sqlite", "postgres")
def test_a_child_that_ends_cuts_no_connection_of_its_parent(rig: Rig) -> None:
    program = rig.finish("fork_and_exit")
    assert _accepted(rig) == _stored(rig)
    assert len(_accepted(rig)) == 14
    assert {event.pid for event in rig.history.events("start")} == {program.pid}
    check(rig.database, rig.history, {})
    assert not [line for line in program.complaints().splitlines() if line.startswith(("WARNING", "ERROR"))]


@on("sqlite", "postgres")
def test_forking_while_other_threads_add_loses_nothing(rig: Rig) -> None:
    rig.finish("fork_while_adding", 25)
    assert _accepted(rig) == _stored(rig)
    assert is_sound(rig.database)


@on("sqlite", "postgres")
def test_a_handler_may_fork_a_child_that_adds(rig: Rig) -> None:
    program = rig.start("handler_forks", "exits")
    wait_until(lambda: _accepted(rig), "the child has added")
    assert _accepted(rig) <= _stored(rig)
    rig.start_ready("worker")
    program.kill()


@on("sqlite", "postgres")
def test_a_child_that_returns_from_the_handler_runs_nothing_of_its_parents(rig: Rig) -> None:
    program = rig.finish("handler_forks", "returns")
    assert {event.pid for event in rig.history.events()} == {program.pid}
    check(rig.database, rig.history, {})


@on("sqlite", "postgres")
@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_children_of_multiprocessing_may_add(rig: Rig, method: str) -> None:
    rig.finish("multiprocess", method)
    assert len(_accepted(rig)) == 41
    assert _accepted(rig) == _stored(rig)


@pytest.mark.parametrize("child", ["fork", "popen", "holding"])
def test_a_killed_parent_is_noticed_although_its_child_lives(rig: Rig, child: str) -> None:
    """`holding`: it died while it held the write lock, which its child must not keep."""
    parent = rig.start_ready("parent", child, CHILD_SECONDS)
    children = _children(parent.pid)
    assert children
    try:
        parent.kill()
        parent.wait()
        rig.allow("never")
        rig.allow("later")
        rig.start("worker")
        wait_until(lambda: len(rig.history.events("end")) >= 2, "both tasks have been taken over")
    finally:
        for pid in children:
            os.kill(pid, signal.SIGKILL)


def _children(pid: int) -> list[int]:
    return [int(child) for path in Path(f"/proc/{pid}/task").glob("*/children") for child in path.read_text().split()]
