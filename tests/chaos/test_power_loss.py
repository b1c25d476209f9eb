"""What a power cut leaves of the log: every task that was acknowledged before the cut must be in it."""

from __future__ import annotations

import random
import shutil
from pathlib import Path

from tests.chaos.databases import rows
from tests.chaos.rig import Rig, wait_until

TASKS, CUTS = 300, 300


def _copy_while_it_writes(rig: Rig, into: Path) -> tuple[bytes, bytes]:
    """The database and its log, in this order: a log that is copied later can only be longer."""
    program = rig.start_ready("durable", TASKS)
    wait_until(lambda: len(rig.history.events("accepted")) >= TASKS // 2, "half of the tasks were added")
    for suffix in ("", "-wal"):
        shutil.copy(f"{rig.database}{suffix}", into / f"copy{suffix}")
    rig.allow("copied")
    assert program.wait() == 0, program.complaints()
    return (into / "copy").read_bytes(), (into / "copy-wal").read_bytes()


def test_every_acknowledged_task_survives_a_torn_log(rig: Rig, folder: Path) -> None:
    chance = random.Random(8)
    database, log = _copy_while_it_writes(rig, folder)
    acknowledged = [(event.task, event.attempt) for event in rig.history.events("accepted")]  # with the log's length
    shortest = acknowledged[0][1]
    for number in range(CUTS):
        cut = chance.randrange(shortest, len(log) + 1)
        torn = folder / f"torn-{number}.db"
        torn.write_bytes(database)
        # What was not flushed may be missing, or be rubbish.
        rubbish = chance.randbytes(chance.choice([0, 24, 512, 5000]))
        torn.with_name(torn.name + "-wal").write_bytes(log[:cut] + rubbish)
        expected = {task for task, length in acknowledged if length <= cut}
        assert expected, "this cut shows nothing"
        missing = expected - {row[0] for row in rows(torn, "SELECT id FROM tasks")}
        assert not missing, f"cut at {cut} of {len(log)} bytes: {len(missing)} acknowledged tasks are gone"
        assert rows(torn, "PRAGMA integrity_check") == [("ok",)]
        torn.unlink()
