"""SQLite's own check of the file must find nothing, or users would think that their tasks are damaged."""

from __future__ import annotations

from pathlib import Path

from tests.chaos.databases import rows
from tq import PermanentError, TaskQueue


def test_a_queue_with_failed_attempts_passes_the_integrity_check_of_sqlite(folder: Path) -> None:
    def fail(_: object) -> None:
        raise PermanentError("no")

    queue = TaskQueue().init(folder / "tasks.db")
    queue("mail").set_worker(fail).add({"long": "x" * 5000})
    assert queue.join(60)
    queue.stop()
    assert rows(folder / "tasks.db", "PRAGMA integrity_check") == [("ok",)]
