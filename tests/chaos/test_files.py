"""The database file is deleted, replaced or moved, or the disk is full: adds are refused by name, nothing is lost."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.chaos.checker import check, unfinished
from tests.chaos.databases import rows
from tests.chaos.rig import Rig, wait_until
from tq import TaskQueue


def _delete(database: Path) -> None:
    database.unlink()


def _move(database: Path) -> None:
    database.rename(database.with_name("moved.db"))


def _replace(database: Path) -> None:
    fresh = database.with_name("fresh.db")
    TaskQueue().init(fresh).stop()
    fresh.rename(database)


@pytest.mark.parametrize("harm", [_delete, _move, _replace])
def test_adds_are_refused_by_name_when_the_file_is_not_the_one_that_was_opened(
    rig: Rig, harm: Callable[[Path], None]
) -> None:
    program = rig.start_ready("keeps_adding")
    wait_until(lambda: len(rig.history.events("accepted")) >= 5, "some were accepted")
    harm(rig.database)
    wait_until(lambda: len(rig.history.events("refused")) >= 5, "adds are refused")
    refused_from = rig.history.events("refused")[0].at
    assert set(rig.history.tasks("refused")) == {"DatabaseReplaced"}
    assert all(event.at < refused_from for event in rig.history.events("accepted")), "one was accepted into nowhere"
    rig.allow("enough")
    assert program.wait() == 0, program.complaints()
    assert "Traceback" not in program.complaints()


def test_a_file_that_is_put_back_is_used_again(rig: Rig) -> None:
    program = rig.start_ready("keeps_adding")
    wait_until(lambda: rig.history.events("accepted"), "one was accepted")
    aside = rig.database.with_name("aside.db")
    rig.database.rename(aside)
    wait_until(lambda: rig.history.events("refused"), "adds are refused")
    refused_at = rig.history.events("refused")[0].at
    aside.rename(rig.database)
    wait_until(lambda: rig.history.events("accepted")[-1].at > refused_at, "adds are accepted again")
    rig.allow("enough")
    assert program.wait() == 0, program.complaints()
    assert set(rig.history.tasks("accepted")) == {row[0] for row in rows(rig.database, "SELECT id FROM tasks")}


def test_a_full_disk_refuses_by_name_and_work_goes_on_once_there_is_space(rig: Rig) -> None:
    program = rig.finish("full_disk", 3)
    refused = rig.history.events("refused")
    space = rig.history.events("space")[0].at
    assert rig.history.events("full")[0].at <= refused[0].at < space
    assert [event for event in rig.history.events("accepted") if event.at > space]
    check(rig.database, rig.history, {})
    lines = [line for line in program.complaints().splitlines() if "ERROR" in line]
    assert len(lines) <= 1, "one line in ten seconds is enough"
    assert "Traceback" not in program.complaints()


def test_a_backup_that_is_restored_beside_runs_what_it_holds(rig: Rig) -> None:
    rig.finish("add_some", 10)
    copy = rig.database.with_name("copy.db")
    shutil.copy(rig.database, copy)
    rig.database = copy
    rig.start_ready("worker")
    wait_until(lambda: unfinished(copy) == 0, "all tasks have run")
    rig.stop_all()
    check(copy, rig.history, {})
