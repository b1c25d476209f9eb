"""The operator's desk, from another process' point of view: two queues on one database."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable, Iterator
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import pytest

from tests.postgres import new_schema, run_sql, server_url
from tests.waiting import eventually
from tq import TaskCancelled, TaskQueue, current_task
from tq.errors import InvalidOption, TaskNotFound, WrongState

NO_TASK = "018bcfe5-6805-7497-86ea-a6afaf2d55c4"
Open = Callable[[], TaskQueue]


@pytest.fixture(params=["sqlite", "postgres"])
def open_queue(request: pytest.FixtureRequest, folder: Path) -> Iterator[Open]:
    """Opens queues on one database, as several processes would."""
    queues: list[TaskQueue] = []
    schema = new_schema()

    def open_() -> TaskQueue:
        queue = TaskQueue()
        queues.append(queue)
        if request.param == "sqlite":
            return queue.init(folder / "tasks.db", poll_interval=0.2)
        return queue.init(server_url(), schema=schema, poll_interval=0.2)

    yield open_
    for queue in queues:
        queue.stop(timeout=0)
    if request.param == "postgres":
        run_sql(f"DROP SCHEMA IF EXISTS {schema} CASCADE")


@pytest.fixture
def worker(open_queue: Open) -> TaskQueue:
    return open_queue()


@pytest.fixture
def operator(open_queue: Open, worker: TaskQueue) -> TaskQueue:
    return open_queue()


def started(queue: TaskQueue, task_id: str) -> None:
    eventually(lambda: queue.get(task_id).status == "in-progress")


# --- cancel ----------------------------------------------------------------------------------------------------------


def test_a_running_function_is_stopped_from_another_process(worker: TaskQueue, operator: TaskQueue):
    seen: list[tuple[str, bool, bool]] = []

    def busy(_: Any) -> None:
        try:
            while True:
                time.sleep(0.01)
        except BaseException as error:
            seen.append((type(error).__name__, current_task().cancelled, current_task().stopping))
            raise

    handle = worker("busy").set_worker(busy).submit(1)
    started(operator, handle.id)
    assert operator.cancel(handle.id, by="ada") == 1
    with pytest.raises(TaskCancelled):
        handle.result(timeout=60)
    task = operator.get(handle.id)
    assert (task.status, task.cancelled_by, task.error) == ("cancelled", "ada", "cancelled by ada")
    assert seen == [("TaskAborted", True, True)]


def test_a_running_coroutine_is_cancelled_from_another_process(worker: TaskQueue, operator: TaskQueue):
    seen: list[str] = []

    async def busy(_: Any) -> None:
        try:
            await asyncio.sleep(600)
        except BaseException as error:
            seen.append(type(error).__name__)
            raise

    handle = worker("busy").set_worker(busy).submit(1)
    started(operator, handle.id)
    operator.cancel(handle.id)
    assert handle.wait(timeout=60) and handle.status() == "cancelled"
    assert seen == ["CancelledError"]


def test_a_handler_that_will_not_stop_loses_its_place(worker: TaskQueue, operator: TaskQueue):
    release = threading.Event()

    def stubborn(number: int) -> int:
        while number == 1 and not release.is_set():
            try:
                release.wait(0.05)
            except BaseException:
                continue
        return number

    handle = worker("busy").set_worker(stubborn).submit(1)
    started(operator, handle.id)
    operator.cancel(handle.id)
    assert handle.wait(timeout=60) and handle.status() == "cancelled"
    assert "would not stop" in (handle.task().error or "")
    assert worker.stats()["overdue"] == 1
    assert worker("busy").submit(2).result(timeout=60) == 2
    release.set()


def test_a_result_that_came_before_the_cancellation_stands(worker: TaskQueue, operator: TaskQueue):
    handle = worker("quick").set_worker(lambda number: number).submit(1)
    assert handle.result(timeout=60) == 1
    with pytest.raises(WrongState, match="which is success: it has ended"):
        operator.cancel(handle.id)
    assert handle.cancel() is False


def test_a_handler_may_look_whether_it_was_cancelled(worker: TaskQueue, operator: TaskQueue):
    looks = threading.Event()

    async def careful(_: Any) -> str:
        while not current_task().cancelled:
            looks.set()
            try:
                await asyncio.sleep(0.01)
            except asyncio.CancelledError:
                return "cleaned up"
        return "cleaned up"

    handle = worker("careful").set_worker(careful).submit(1)
    assert looks.wait(60)
    assert operator.handle(handle.id).cancel(by="ada")
    assert handle.wait(timeout=60) and handle.status() == "cancelled"  # it did not end by itself


def test_all_that_match_are_cancelled_and_nothing_else(worker: TaskQueue, operator: TaskQueue):
    worker("report").add_many(range(700))
    worker("email").add_many(range(3))
    assert operator.desk.count(type="report") == 700
    assert operator.cancel(type="report", status="to-do") == 700
    assert operator.stats()["byType"] == {"email": {"to-do": 3}, "report": {"cancelled": 700}}


# --- retry, delete ---------------------------------------------------------------------------------------------------


def test_what_has_failed_runs_again_with_all_of_its_attempts(worker: TaskQueue, operator: TaskQueue):
    mended = threading.Event()

    def send(_: Any) -> int:
        if not mended.is_set():
            raise ValueError("no")
        return current_task().attempt

    handle = worker("email").set_worker(send).set_max_attempts(1).submit(1)
    assert handle.wait(timeout=60) and handle.status() == "failed"
    mended.set()
    assert operator.retry(type="email", status="dead", by="ada") == 1
    eventually(lambda: handle.status() == "success")
    assert handle.result(timeout=60) == 1
    assert operator.stats()["byType"] == {"email": {"success": 1}}
    events = operator.desk.timeline(handle.id)
    assert [event.what for event in events] == [
        "added",
        "started",
        "failed for good",
        "retried",
        "started",
        "succeeded",
    ]
    assert events[3].by == "ada" and "ValueError: no" in (events[2].error or "")


def test_what_waits_for_its_time_runs_now(worker: TaskQueue, operator: TaskQueue):
    handle = worker("later").set_worker(lambda number: number).submit(7, run_after=timedelta(days=1))
    assert operator.explain(handle.id).reason == "scheduled"
    assert operator.retry(handle.id) == 1
    assert handle.result(timeout=60) == 7


def test_what_runs_or_has_succeeded_is_not_tried_again(worker: TaskQueue, operator: TaskQueue):
    handle = worker("quick").set_worker(lambda number: number).submit(1)
    handle.result(timeout=60)
    with pytest.raises(WrongState, match=r"cannot retry task .* which is success"):
        operator.retry(handle.id)


def test_only_what_has_ended_is_deleted_and_its_key_is_free_again(worker: TaskQueue, operator: TaskQueue):
    waiting = worker("report").submit("x" * 2000, key="january")
    with pytest.raises(WrongState, match="which is ready: only what has ended can; cancel it first"):
        operator.delete(waiting.id)
    assert waiting.cancel()
    assert operator.delete(waiting.id) == 1
    with pytest.raises(TaskNotFound):
        operator.delete(waiting.id)
    assert worker("report").submit(1, key="january").id != waiting.id
    assert operator.stats()["byType"] == {"report": {"to-do": 1}}


def test_a_cleanup_takes_what_is_old_and_has_ended(worker: TaskQueue, operator: TaskQueue):
    worker("quick").set_worker(lambda number: number).add_many(range(5))
    assert worker.join(timeout=60)
    assert operator.cleanup(older_than=timedelta(hours=1)) == 0
    eventually(lambda: operator.cleanup(older_than=0) == 5)
    assert operator.list().tasks == ()


def test_to_cancel_twice_is_no_mistake(worker: TaskQueue, operator: TaskQueue):
    release = threading.Event()

    def stubborn(_: Any) -> None:
        while not release.is_set():
            try:
                release.wait(0.05)
            except BaseException:
                continue

    handle = worker("busy").set_worker(stubborn).submit(1)
    started(operator, handle.id)
    assert [operator.cancel(handle.id), operator.cancel(handle.id)] == [1, 1]
    assert handle.wait(timeout=60)
    release.set()


def test_a_time_that_no_clock_shows_is_explained_all_the_same(worker: TaskQueue, operator: TaskQueue):
    handle = worker("later").submit(1, run_after=1_795_000_000_000)  # milliseconds, by mistake
    assert "a time after the year 9999" in operator.explain(handle.id).sentence


@pytest.mark.parametrize("call", ["cancel", "retry", "delete"])
def test_a_call_that_does_not_say_which_is_refused(operator: TaskQueue, call: str):
    with pytest.raises(InvalidOption, match="give one id, or say which tasks"):
        getattr(operator, call)()
    with pytest.raises(InvalidOption, match="give one id, or say which tasks"):
        getattr(operator, call)(type=None, status=None)
    with pytest.raises(InvalidOption, match="give one id, or say which tasks"):
        getattr(operator, call)(NO_TASK, type="email")
    with pytest.raises(TaskNotFound):
        getattr(operator, call)(NO_TASK)


# --- finding ---------------------------------------------------------------------------------------------------------


def test_pages_follow_each_other_and_miss_nothing(worker: TaskQueue, operator: TaskQueue):
    worker("a").add_many(range(25))
    worker("b").add_many(range(25))
    for wanted in ({}, {"type": "a"}, {"status": "ready"}, {"status": ["to-do", "success"]}):
        found, after = [], None
        while True:
            page = operator.list(limit=7, after=after, **wanted)
            found += [task.id for task in page.tasks]
            after = page.next
            if after is None:
                break
        assert found == sorted(found, reverse=True)
        assert len(found) == len(set(found)) == (25 if "type" in wanted else 50)


def test_tasks_are_found_by_text_and_by_when_they_were_added(worker: TaskQueue, operator: TaskQueue):
    worker("email").add({"to": "Ada@example.com"}).add({"to": "100%_sure"}).add({"to": "x" * 5000 + "needle"})
    assert [task.input["to"] for task in operator.list(text="ada@").tasks] == ["Ada@example.com"]
    assert [task.input["to"] for task in operator.list(text="100%_").tasks] == ["100%_sure"]
    assert len(operator.list(text="needle").tasks) == 1
    assert operator.list(text="%").tasks[0].input["to"] == "100%_sure"
    assert len(operator.list(since=timedelta(minutes=5)).tasks) == 3
    assert operator.list(until=timedelta(minutes=5)).tasks == ()
    assert len(operator.list(since=datetime.now(timezone.utc) - timedelta(minutes=5)).tasks) == 3


@pytest.mark.parametrize(
    "wrong",
    [
        {"status": "done"},
        {"status": [1]},
        {"status": 5},
        {"limit": 0},
        {"limit": 1001},
        {"text": 5},
        {"text": "\0"},
        {"text": "\ud800"},
        {"since": "yesterday"},
        {"since": float("nan")},
        {"since": datetime.min},
        {"after": 5},
        {"colour": "red"},
    ],
)
def test_a_question_that_makes_no_sense_is_refused(operator: TaskQueue, wrong: dict[str, Any]):
    with pytest.raises(InvalidOption):
        operator.list(**wrong)


# --- steering --------------------------------------------------------------------------------------------------------


def test_a_setting_for_all_processes_wins_at_once_and_can_be_taken_back(worker: TaskQueue, operator: TaskQueue):
    lock, running, most = threading.Lock(), 0, 0

    def count(_: Any) -> None:
        nonlocal running, most
        with lock:
            running += 1
            most = max(most, running)
        time.sleep(0.05)
        with lock:
            running -= 1

    operator.desk.override("work", worker_count=1, by="ada")
    worker("work").set_worker(count).set_worker_count(8).add_many(range(6))
    assert worker.join(timeout=60)
    assert most == 1
    [view] = operator.desk.types()
    assert (view.settings["worker_count"], view.overridden) == (1, ("worker_count",))
    operator.desk.reset("work")
    worker("work").add_many(range(16))
    assert worker.join(timeout=60)
    assert most > 1
    assert [(action.name, action.actor) for action in operator.desk.actions()][1] == ("override", "ada")


def test_a_pause_is_told_with_the_type(worker: TaskQueue, operator: TaskQueue):
    handle = worker("work").set_worker(lambda number: number).pause().submit(1)
    assert operator.explain(handle.id).sentence == "Tasks of type work are paused."
    [view] = operator.desk.types()
    assert view.paused and view.counts["ready"] == 1


@pytest.mark.parametrize(
    "settings",
    [{}, {"worker_count": 0}, {"rate_limit": -1}, {"timeout": None}, {"colour": 1}, {"worker_count": None}],
)
def test_a_setting_that_makes_no_sense_is_refused(operator: TaskQueue, settings: dict[str, Any]):
    with pytest.raises(InvalidOption):
        operator.desk.override("work", **settings)
    with pytest.raises(InvalidOption):
        operator.desk.reset("work", "colour")
    with pytest.raises(InvalidOption, match="type="):
        operator.desk.override("", worker_count=1)


@pytest.mark.parametrize("by", ["", "x" * 256, "a\nb", 5])
def test_a_name_that_cannot_be_shown_is_refused(operator: TaskQueue, by: Any):
    with pytest.raises(InvalidOption, match="by="):
        operator.desk.reset("work", by=by)


# --- looking ---------------------------------------------------------------------------------------------------------


def test_workers_are_seen_with_what_they_run(worker: TaskQueue, operator: TaskQueue):
    release = threading.Event()
    handle = worker("work").set_worker(lambda _: release.wait(60)).set_worker_count(2).submit(1)
    started(operator, handle.id)
    eventually(lambda: [list(view.types) for view in operator.desk.workers()] == [["work"]])
    [view] = operator.desk.workers()
    assert view.alive and [task.id for task in view.tasks] == [handle.id]
    assert view.types["work"]["worker_count"] == 2
    assert operator.explain(handle.id).reason == "running"
    other = worker("work").submit(2)
    blocked = worker("work").submit(3)
    started(operator, other.id)
    assert operator.explain(blocked.id).reason == "busy"
    release.set()


def test_minutes_tell_what_was_added_and_how_it_ended(worker: TaskQueue, operator: TaskQueue):
    worker("work").set_worker(lambda number: 1 // number).set_max_attempts(1).add_many([1, 1, 0])
    assert worker.join(timeout=60)
    worker.stop()

    def totals() -> tuple[int, int, int]:
        views = operator.desk.metrics(minutes=5, type="work")
        return sum(v.added for v in views), sum(v.succeeded for v in views), sum(v.failed for v in views)

    eventually(lambda: totals() == (3, 2, 1))
    assert operator.desk.metrics(type="another") == []


def test_a_task_that_does_not_exist_is_named(operator: TaskQueue):
    for look in (operator.explain, operator.desk.timeline, operator.get):
        with pytest.raises(TaskNotFound, match=NO_TASK):
            look(NO_TASK)
