"""A worker that is stopped, not dead, keeps what it runs: the kernel knows the difference."""

from __future__ import annotations

import signal
import time

from tests.chaos.checker import check, unfinished
from tests.chaos.databases import rows
from tests.chaos.rig import Rig, wait_until
from tq import TaskQueue

STOPPED_SECONDS = 5.0  # several times as long as others take to notice a death


def test_a_worker_that_is_stopped_for_five_seconds_is_not_robbed(rig: Rig) -> None:
    stopped = rig.start_ready("worker", 1)
    queue = TaskQueue().init(rig.database)
    task = queue("plain").submit({"gate": "gate"})
    wait_until(lambda: rig.history.tasks("start") == [task.id], "the task runs")
    other = rig.start_ready("worker", 1)
    stopped.send(signal.SIGSTOP)
    queue("plain").add_many([{}] * 20)
    time.sleep(STOPPED_SECONDS)
    owner = rows(rig.database, "SELECT status, attempts, worker_id FROM tasks WHERE id = ?", task.id)[0]
    mine = rows(rig.database, "SELECT id FROM workers WHERE pid = ?", stopped.pid)[0][0]
    stopped.send(signal.SIGCONT)
    rig.allow("gate")
    assert owner == ("in-progress", 1, mine)
    wait_until(lambda: unfinished(rig.database) == 0, "every task has ended")
    queue.stop()
    rig.stop_all()
    check(rig.database, rig.history, {})
    assert [event.pid for event in rig.history.events("start") if event.task == task.id] == [stopped.pid]
    assert rows(rig.database, "SELECT status, attempts FROM tasks WHERE id = ?", task.id) == [("success", 1)]
    assert other.exit_code == 0
