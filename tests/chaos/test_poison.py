"""A task that kills its worker fails by itself; its neighbours do not pay for it."""

from __future__ import annotations

import pytest

from tests.chaos.checker import unfinished
from tests.chaos.databases import on, rows
from tests.chaos.rig import Program, Rig, wait_until

NEIGHBOURS = 1000
CRASHES = 3  # then a task is set aside


def _supervise(rig: Rig, slots: int) -> list[Program]:
    """Start a worker again whenever it dies, until everything has ended."""
    workers = [rig.start("worker", slots)]

    def ended() -> bool:
        if workers[-1].exit_code is not None:
            workers.append(rig.start("worker", slots))
            assert len(workers) <= CRASHES + 1, workers[0].complaints()
        return unfinished(rig.database) == 0

    wait_until(ended, "every task has ended", 100)
    rig.stop_all()
    return workers


@on("sqlite", "postgres")
@pytest.mark.parametrize("slots", [1, 4])
def test_a_poisonous_task_fails_alone(rig: Rig, slots: int) -> None:
    queue = rig.queue()
    queue("plain").add_many([{}] * (NEIGHBOURS // 2), max_attempts=1)
    poison = queue("plain").submit({"poison": True}, max_attempts=10)
    queue("plain").add_many([{}] * (NEIGHBOURS // 2), max_attempts=1)
    queue.stop()
    workers = _supervise(rig, slots)
    assert sorted(worker.exit_code for worker in workers) == [0, *([1] * CRASHES)]
    assert rows(rig.database, "SELECT status, crashes FROM tasks WHERE id = ?", poison.id) == [("failed", CRASHES)]
    starts = [task for task in rig.history.tasks("start") if task != poison.id]
    assert len(starts) == len(set(starts)), "a neighbour has started twice"
    failed = {row[0] for row in rows(rig.database, "SELECT id FROM tasks WHERE status != 'success'")} - {poison.id}
    # A neighbour may be on its way into its handler, and not have come to the handler's first line.
    assert len(failed - set(starts)) <= CRASHES * (slots - 1), "a neighbour has failed that had not started"
