"""Many writers at once wait for each other; they never hear that the database is locked."""

from __future__ import annotations

import sqlite3
import time
from contextlib import closing

import pytest

from tests.chaos.checker import check, unfinished
from tests.chaos.rig import Rig, wait_until

WRITERS, WORKERS = 8, 4
FOREIGN_SECONDS = 7.0  # more than SQLite itself waits


def _contend(rig: Rig, seconds: float) -> int:
    writers = [rig.start("writer", seconds) for _ in range(WRITERS)]
    workers = [rig.start("worker") for _ in range(WORKERS)]
    for writer in writers:
        assert writer.wait(seconds + 60) == 0, writer.complaints()
    wait_until(lambda: unfinished(rig.database) == 0, "every task has ended", 120)
    rig.stop_all()
    check(rig.database, rig.history, {})
    texts = [program.complaints() for program in writers + workers]
    assert not [text for text in texts if "locked" in text or "Traceback" in text or "ERROR" in text]
    return len(rig.history.events("accepted"))


def test_eight_writers_and_four_workers_never_meet_a_locked_database(rig: Rig) -> None:
    assert _contend(rig, 4) >= WRITERS


@pytest.mark.campaign
@pytest.mark.timeout(300)
def test_twenty_seconds_of_contention(rig: Rig) -> None:
    print(f"\n{_contend(rig, 20)} tasks were accepted in 20 s of contention, and all of them ran")


def test_adds_wait_for_a_foreign_program_that_holds_the_database(rig: Rig) -> None:
    rig.finish("add_some", 1)
    with closing(sqlite3.connect(rig.database, isolation_level=None, timeout=60)) as foreign:
        foreign.execute("BEGIN IMMEDIATE")
        program = rig.start_ready("add_some", 3)
        time.sleep(FOREIGN_SECONDS)
        waiting = len(rig.history.events("accepted"))
        foreign.execute("COMMIT")
    assert waiting == 1
    assert program.wait() == 0, program.complaints()
    assert len(rig.history.events("accepted")) == 4
