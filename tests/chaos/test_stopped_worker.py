"""A worker that is stopped, not dead: a lock file knows the difference, a lease does not, and nothing goes wrong."""

from __future__ import annotations

import signal
import time

from tests.chaos.checker import check, unfinished
from tests.chaos.databases import on, rows
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


@on("postgres")
def test_a_worker_that_is_stopped_for_longer_than_its_lease_loses_its_task_and_goes_on(rig: Rig) -> None:
    stopped = rig.start_ready("worker", 1)
    queue = rig.queue()
    task = queue("plain").submit({"gate": "gate"})
    wait_until(lambda: rig.history.tasks("start") == [task.id], "the task runs")
    stopped.send(signal.SIGSTOP)
    other = rig.start_ready("worker", 1)
    wait_until(lambda: rig.history.tasks("start") == [task.id] * 2, "the other worker has taken it over")
    rig.allow("gate")
    wait_until(lambda: unfinished(rig.database) == 0, "the other worker has done it")
    outcome = rows(rig.database, "SELECT status, attempts, version, updated_at FROM tasks")
    assert [row[:2] for row in outcome] == [("success", 2)]
    stopped.send(signal.SIGCONT)
    wait_until(lambda: len(rig.history.events("end")) == 2, "the stopped handler comes to its end")
    wait_until(lambda: "its result was dropped" in stopped.complaints(), "the late result was refused")
    assert rows(rig.database, "SELECT status, attempts, version, updated_at FROM tasks") == outcome
    other.send(signal.SIGTERM)
    assert other.wait() == 0, other.complaints()
    again = queue("plain").submit({})
    wait_until(lambda: again.status() == "success", "the worker that was stopped goes on")
    assert [event.pid for event in rig.history.events("start") if event.task == again.id] == [stopped.pid]
    queue.stop()
    rig.stop_all()
    # If it was stopped inside a transaction, the server has ended that one, and the worker says so.
    assert "Traceback" not in stopped.complaints()
