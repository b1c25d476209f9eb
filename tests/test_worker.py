"""What a worker promises: how much runs at once, when what failed is tried again, and when it is given up on."""

from __future__ import annotations

import asyncio
import contextvars
import math
import sqlite3
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.programs import Program, run
from tests.waiting import PATIENCE, eventually
from tq import PermanentError, RetryAfter, TaskFailed, TaskHandle, TaskQueue, current_task
from tq.errors import NotInTask, TaskTimeout

MakeQueue = Callable[..., TaskQueue]


class Meter:
    """Counts how many handlers are inside at once."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._inside = 0
        self.most = 0

    def __enter__(self) -> None:
        with self._lock:
            self._inside += 1
            self.most = max(self.most, self._inside)

    def __exit__(self, *_: object) -> None:
        with self._lock:
            self._inside -= 1


def settled_as(handle: TaskHandle, status: str) -> Any:
    """The task, once one attempt of it has been settled with this status."""
    return eventually(lambda: handle.task() if handle.task().status == status else None)


# --- how much runs at once ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("count", [1, 4])
def test_the_worker_count_is_reached_and_never_passed_in_threads(queue: TaskQueue, count: int):
    meter, company = Meter(), threading.Barrier(count)

    def handler(_: int) -> None:
        with meter:
            company.wait(PATIENCE)

    queue("slow").set_worker(handler).set_worker_count(count).add_many(range(5 * count))
    assert queue.join(PATIENCE)
    assert meter.most == count


@pytest.mark.parametrize("count", [1, 4, 300])
def test_the_worker_count_is_reached_and_never_passed_on_the_event_loop(queue: TaskQueue, count: int):
    meter = Meter()

    async def handler(_: int) -> None:
        with meter:
            while meter.most < count:
                await asyncio.sleep(0.01)

    queue("slow").set_worker(handler).set_worker_count(count).add_many(range(2 * count))
    assert queue.join(PATIENCE)
    assert queue.stats()["success"] == 2 * count
    assert meter.most == count


def test_each_type_has_its_own_count(queue: TaskQueue):
    """Two types with one worker each run side by side: each waits for the other."""
    company = threading.Barrier(2)
    for type_ in ("email", "image"):
        queue(type_).set_worker(lambda _: company.wait(PATIENCE) and None).add(None)
    assert queue.join(PATIENCE)
    assert queue.stats()["success"] == 2


def test_a_count_that_is_lowered_holds(queue: TaskQueue):
    company, meter = threading.Barrier(4), Meter()
    queue("slow").set_worker(lambda _: company.wait(PATIENCE) and None).set_worker_count(4).add_many(range(8))
    assert queue.join(PATIENCE)

    def quick(_: int) -> None:
        with meter:
            time.sleep(0.0005)

    queue("slow").set_worker_count(1).set_worker(quick).add_many(range(300))
    assert queue.join(PATIENCE)
    assert meter.most == 1


def test_a_count_that_is_raised_is_used(queue: TaskQueue):
    queue("slow").set_worker(lambda _: None).add(None)
    assert queue.join(PATIENCE)
    company = threading.Barrier(3)
    queue("slow").set_worker_count(3).set_worker(lambda _: company.wait(PATIENCE) and None).add_many(range(3))
    assert queue.join(PATIENCE)
    assert queue.stats()["success"] == 4


WORKER_WITH_GLOBAL_LIMIT = """
    import os, sys, time
    from pathlib import Path
    from tq import tq

    def handler(number):
        me = Path("running", str(number))
        me.touch()
        time.sleep(0.02)
        at_once = len(list(Path("running").iterdir()))
        me.unlink()
        return at_once

    tq.init("tasks.db")
    tq("slow").set_worker_count(4).set_global_limit(2).set_worker(handler)
    print("ready", flush=True)
    sys.stdin.readline()
    tq.stop()
"""


def test_a_global_limit_holds_over_processes(queue: TaskQueue, folder: Path):
    (folder / "running").mkdir()
    with Program(folder, WORKER_WITH_GLOBAL_LIMIT) as one, Program(folder, WORKER_WITH_GLOBAL_LIMIT) as other:
        assert (one.line(), other.line()) == ("ready", "ready")
        handles = [queue("slow").submit(number) for number in range(30)]
        assert max(handle.result(PATIENCE) for handle in handles) == 2
        for program in (one, other):
            program.say("stop")
            program.ends()


class CountingClock:
    """The system's clock, which counts how often it is asked for the time of day."""

    def __init__(self) -> None:
        self.asked = 0

    def now(self) -> float:
        self.asked += 1
        return time.time()

    monotonic = staticmethod(time.monotonic)
    sleep = staticmethod(time.sleep)


def test_a_worker_that_waits_for_a_global_limit_sleeps(folder: Path):
    """With tokens left in the bucket and the limit reached, there is nothing to do until something ends."""
    clock = CountingClock()
    queue = TaskQueue(clock=clock).init(folder / "tasks.db", poll_interval=0.2)

    def handler(_: int) -> int:
        before = clock.asked
        time.sleep(1)
        return clock.asked - before

    queue("slow").set_rate_limit(100).set_global_limit(1).set_worker_count(3).set_worker(handler)
    first = queue("slow").submit(1)
    queue("slow").add(2)
    assert first.result(PATIENCE) < 100
    queue.stop()


# --- the rate limit ----------------------------------------------------------------------------------------------


def starts(folder: Path) -> list[float]:
    connection = sqlite3.connect(folder / "tasks.db")
    rows = connection.execute("SELECT last_attempt_at FROM tasks").fetchall()
    connection.close()
    return sorted(at for (at,) in rows)


def within_rate(moments: list[float], rate: float) -> bool:
    """Over any stretch of time no more than a full bucket and what has flowed in."""
    return all(
        last - first + 1 <= max(1, rate) + rate * (moments[last] - moments[first]) + 0.01
        for first in range(len(moments))
        for last in range(first, len(moments))
    )


def test_a_rate_limit_holds_over_a_long_run(queue: TaskQueue, folder: Path):
    queue("fetch").set_worker(lambda _: None).set_worker_count(8).set_rate_limit(20).add_many(range(60))
    assert queue.join(PATIENCE)
    assert within_rate(starts(folder), 20)


def test_a_slow_rate_lets_one_through_at_once(queue: TaskQueue):
    queue("fetch").set_worker(lambda _: None).set_rate_limit(0.001)
    assert queue("fetch").submit(1).wait(PATIENCE)
    assert not queue("fetch").submit(2).wait(0.2)


WORKER_WITH_RATE = """
    import sys
    from tq import tq
    tq.init("tasks.db")
    tq("fetch").set_rate_limit(20).set_worker_count(4).set_worker(lambda _: None)
    print("ready", flush=True)
    sys.stdin.readline()
    tq.stop()
"""


def test_a_rate_limit_is_shared_by_processes(queue: TaskQueue, folder: Path):
    with Program(folder, WORKER_WITH_RATE) as one, Program(folder, WORKER_WITH_RATE) as other:
        assert (one.line(), other.line()) == ("ready", "ready")
        queue("fetch").add_many(range(60))
        assert queue.join(PATIENCE)
        for program in (one, other):
            program.say("stop")
            program.ends()
    assert within_rate(starts(folder), 20)


# --- what a handler knows ----------------------------------------------------------------------------------------


def told() -> list[Any]:
    task = current_task()
    return [task.id, task.type, task.attempt, task.max_attempts, task.stopping]


def test_a_function_knows_its_task(queue: TaskQueue):
    handle = queue("see").set_worker(lambda _: told()).set_max_attempts(7).submit(None)
    assert handle.result(PATIENCE) == [handle.id, "see", 1, 7, False]


def test_coroutines_know_their_own_tasks(queue: TaskQueue):
    async def inner() -> list[Any]:
        await asyncio.sleep(0.01)
        return told()

    async def handler(_: None) -> list[Any]:
        before = told()
        assert await asyncio.gather(inner(), asyncio.to_thread(told)) == [before, before]
        return before

    queue("see").set_worker(handler).set_worker_count(5)
    handles = [queue("see").submit(None) for _ in range(5)]
    assert [handle.result(PATIENCE)[0] for handle in handles] == [handle.id for handle in handles]


def test_attempts_are_counted(queue: TaskQueue):
    attempts: list[int] = []

    def handler(_: None) -> None:
        attempts.append(current_task().attempt)
        raise ConnectionError

    assert queue("see").set_worker(handler).set_backoff(base=0).submit(None).wait(PATIENCE)
    assert attempts == [1, 2, 3]


def test_a_task_of_its_own_max_attempts_and_timeout(queue: TaskQueue):
    def handler(_: None) -> None:
        assert current_task().max_attempts == 2
        raise ConnectionError

    handle = queue("see").set_worker(handler).set_backoff(base=0).submit(None, max_attempts=2)
    with pytest.raises(TaskFailed, match="ConnectionError"):
        handle.result(PATIENCE)
    assert handle.task().attempts == 2


def test_outside_a_handler_there_is_no_task():
    with pytest.raises(NotInTask, match="works inside a handler only"):
        contextvars.Context().run(current_task)


def test_after_a_handler_there_is_no_task_in_a_thread_it_left_behind(queue: TaskQueue):
    errors: list[BaseException] = []

    def look() -> None:
        try:
            current_task()
        except NotInTask as error:
            errors.append(error)

    def handler(_: None) -> None:
        thread = threading.Thread(target=look)
        thread.start()
        thread.join(PATIENCE)

    queue("see").set_worker(handler).submit(None).result(PATIENCE)
    assert len(errors) == 1


# --- trying again ------------------------------------------------------------------------------------------------


def raising(error: BaseException) -> Callable[[Any], None]:
    def handler(_: Any) -> None:
        raise error

    return handler


def test_a_permanent_error_fails_at_once(queue: TaskQueue):
    handle = queue("email").set_worker(raising(PermanentError("no such mailbox"))).submit(None)
    with pytest.raises(TaskFailed, match="PermanentError: no such mailbox"):
        handle.result(PATIENCE)
    assert handle.task().attempts == 1


def test_no_retry_covers_subclasses_and_nothing_else(queue: TaskQueue):
    queue("email").set_worker(lambda _: {}["missing"]).set_no_retry(LookupError, ZeroDivisionError)
    once = queue("email").submit(None)
    assert once.wait(PATIENCE)
    assert once.task().attempts == 1
    queue("image").set_worker(raising(ValueError())).set_no_retry(LookupError).set_backoff(base=0)
    thrice = queue("image").submit(None)
    assert thrice.wait(PATIENCE)
    assert thrice.task().attempts == 3


def waits(handle: TaskHandle) -> float:
    task = settled_as(handle, "failed")
    assert task.run_after is not None
    return float(task.run_after - task.updated_at)


def test_retry_after_picks_its_own_delay(queue: TaskQueue):
    handle = queue("fetch").set_worker(raising(RetryAfter(4000, "the site asks us to slow down"))).submit(None)
    assert waits(handle) == pytest.approx(4000, abs=1)
    assert handle.task().error == "RetryAfter: the site asks us to slow down"


def test_retry_after_counts_as_an_attempt(queue: TaskQueue):
    handle = queue("fetch").set_worker(raising(RetryAfter(0))).submit(None)
    with pytest.raises(TaskFailed, match="asked to be retried after 0 s"):
        handle.result(PATIENCE)
    assert handle.task().attempts == 3


@pytest.mark.parametrize("seconds", [math.inf, -math.inf, math.nan], ids=str)
def test_retry_after_what_is_no_time_waits_as_usual(queue: TaskQueue, seconds: float):
    handle = queue("fetch").set_worker(raising(RetryAfter(seconds))).set_backoff(base=500, jitter=0).submit(None)
    assert waits(handle) == pytest.approx(500, abs=1)


def test_retry_after_a_negative_time_means_now(queue: TaskQueue):
    handle = queue("fetch").set_worker(raising(RetryAfter(-5))).submit(None)
    assert handle.wait(PATIENCE)
    assert handle.task().attempts == 3


@pytest.mark.parametrize("seconds", ["soon", None], ids=str)
def test_retry_after_nonsense_still_tries_again(queue: TaskQueue, seconds: Any):
    def handler(_: None) -> None:
        raise RetryAfter(seconds)

    task = settled_as(queue("fetch").set_worker(handler).submit(None), "failed")
    assert task.run_after is not None


def test_backoff_by_numbers(queue: TaskQueue):
    queue("fetch").set_worker(raising(ConnectionError())).set_backoff(base=3, factor=10, cap=1000, jitter=0)
    assert waits(queue("fetch").submit(None)) == pytest.approx(3, abs=1)


def test_backoff_by_a_rule_of_attempts(queue: TaskQueue):
    handle = queue("fetch").set_worker(raising(ConnectionError())).set_backoff(lambda n: 100 * n).submit(None)
    assert waits(handle) == pytest.approx(100, abs=1)


def exit_in_rule(_: int) -> float:
    raise SystemExit(1)


@pytest.mark.parametrize(
    "rule",
    [
        lambda: 5,
        lambda attempts: attempts / 0,
        lambda attempts: "soon",
        lambda attempts: None,
        lambda attempts: math.inf,
        lambda attempts: math.nan,
        exit_in_rule,
    ],
    ids=["no argument", "raises", "text", "None", "inf", "nan", "exits"],
)
def test_a_broken_rule_waits_as_by_default_and_is_named_in_the_log(
    queue: TaskQueue, rule: Any, caplog: pytest.LogCaptureFixture
):
    handle = queue("fetch").set_worker(raising(ConnectionError())).set_backoff(rule).submit(None)
    assert 8 <= waits(handle) <= 12
    assert "set_backoff" in caplog.text
    assert queue("other").set_worker(lambda _: "goes on").submit(None).result(PATIENCE) == "goes on"


# --- timeouts ----------------------------------------------------------------------------------------------------


def test_a_function_that_loops_gets_an_exception(queue: TaskQueue):
    cleaned_up = threading.Event()

    def handler(_: None) -> None:
        try:
            while True:
                pass
        except Exception:
            pytest.fail("except Exception must let it through")
        finally:
            cleaned_up.set()

    handle = queue("loop").set_worker(handler).set_timeout(0.2).set_max_attempts(1).submit(None)
    with pytest.raises(TaskFailed, match=r"timed out after 0\.2 s"):
        handle.result(PATIENCE)
    assert cleaned_up.is_set()
    assert queue.stats()["overdue"] == 0


def test_a_handler_may_clean_up_when_its_time_is_up(queue: TaskQueue):
    caught: list[type] = []

    def handler(_: None) -> None:
        try:
            while True:
                time.sleep(0.001)
        except TaskTimeout as error:
            caught.append(type(error))
            raise

    assert queue("loop").set_worker(handler).set_timeout(0.1).set_max_attempts(1).submit(None).wait(PATIENCE)
    assert caught == [TaskTimeout]


def test_a_function_in_a_long_call_is_settled_without_it_and_its_slot_replaced(queue: TaskQueue):
    leave = threading.Event()

    def handler(blocks: bool) -> str:
        if blocks:
            leave.wait(PATIENCE)
        return "done"

    stuck = queue("slow").set_worker(handler).set_timeout(0.1).submit(True, max_attempts=1)
    with pytest.raises(TaskFailed, match=r"timed out after 0\.1 s, and its handler would not stop"):
        stuck.result(PATIENCE)
    assert queue.stats()["overdue"] == 1, "never silent"
    assert queue("slow").submit(False).result(PATIENCE) == "done", "the slot was replaced"
    leave.set()
    eventually(lambda: queue.stats()["overdue"] == 0)
    assert stuck.status() == "failed", "what it answers now is too late"


def test_a_coroutine_is_cancelled(queue: TaskQueue):
    cancelled: list[str] = []

    async def handler(_: None) -> None:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            cancelled.append("cancelled")
            raise

    handle = queue("slow").set_worker(handler).set_timeout(0.1).set_max_attempts(1).submit(None)
    with pytest.raises(TaskFailed, match=r"timed out after 0\.1 s$"):
        handle.result(PATIENCE)
    assert cancelled == ["cancelled"]
    assert queue.stats()["overdue"] == 0


def test_an_awaitable_made_by_a_function_times_out_too(queue: TaskQueue):
    async def work() -> None:
        await asyncio.sleep(PATIENCE)

    handle = queue("slow").set_worker(lambda _: work()).set_timeout(0.1).set_max_attempts(1).submit(None)
    with pytest.raises(TaskFailed, match="timed out"):
        handle.result(PATIENCE)


def test_a_timeout_is_tried_again(queue: TaskQueue):
    attempts: list[int] = []

    async def handler(_: None) -> str:
        attempts.append(1)
        if len(attempts) == 1:
            await asyncio.Event().wait()
        return "done"

    queue("slow").set_worker(handler).set_timeout(0.1).set_backoff(base=0)
    assert queue("slow").submit(None).result(PATIENCE) == "done"


def test_a_task_may_have_its_own_timeout(queue: TaskQueue):
    async def handler(_: None) -> None:
        await asyncio.Event().wait()

    handle = queue("slow").set_worker(handler).submit(None, timeout=0.1, max_attempts=1)
    with pytest.raises(TaskFailed, match=r"timed out after 0\.1 s"):
        handle.result(PATIENCE)


def test_init_sets_the_timeout_of_types_that_set_none(make_queue: MakeQueue):
    async def handler(_: None) -> None:
        await asyncio.Event().wait()

    queue = make_queue(task_timeout=0.15)
    handle = queue("slow").set_worker(handler).set_max_attempts(1).submit(None)
    with pytest.raises(TaskFailed, match=r"timed out after 0\.15 s"):
        handle.result(PATIENCE)


def test_a_handler_sees_that_its_time_is_up(queue: TaskQueue):
    seen: list[bool] = []

    async def handler(_: None) -> None:
        seen.append(current_task().stopping)
        try:
            await asyncio.Event().wait()
        finally:
            seen.append(current_task().stopping)

    assert queue("slow").set_worker(handler).set_timeout(0.1).set_max_attempts(1).submit(None).wait(PATIENCE)
    assert seen == [False, True]


# --- the history -------------------------------------------------------------------------------------------------


def test_every_failed_attempt_is_remembered_with_its_traceback(queue: TaskQueue, folder: Path):
    def send_to_nobody(_: None) -> None:
        raise ConnectionError(f"attempt {current_task().attempt}")

    assert queue("email").set_worker(send_to_nobody).set_backoff(base=0).submit(None).wait(PATIENCE)
    connection = sqlite3.connect(folder / "tasks.db")
    rows = connection.execute("SELECT attempt, outcome, error FROM attempts ORDER BY version").fetchall()
    connection.close()
    assert [row[:2] for row in rows] == [(1, "retry"), (2, "retry"), (3, "failed")]
    assert all("in send_to_nobody" in error and f"attempt {attempt}" in error for attempt, _, error in rows)


def test_a_worker_that_is_killed_costs_the_task_one_attempt(queue: TaskQueue, folder: Path):
    source = """
        import time
        from tq import tq
        def handler(_):
            print("running", flush=True)
            time.sleep(600)
        tq.init("tasks.db")
        tq("slow").set_worker(handler)
        tq.run()
    """
    handle = queue("slow").submit(None)
    with Program(folder, source) as worker:
        assert worker.line() == "running"
    queue("slow").set_backoff(base=0).set_worker(lambda _: current_task().attempt)
    assert handle.result(PATIENCE) == 2
    assert handle.task().crashes == 1


def test_a_worker_started_and_stopped_leaves_no_files_but_its_own_folder(folder: Path):
    run(
        folder,
        """
        from tq import tq
        tq.init("tasks.db")
        tq("double").set_worker(lambda number: 2 * number)
        assert tq("double").submit(4).result(60) == 8
        assert tq.stop()
        """,
    )
    assert {path.name for path in folder.iterdir()} <= {"tasks.db", "tasks.db-tq", "tasks.db-wal", "tasks.db-shm"}
    assert [path.name for path in (folder / "tasks.db-tq").iterdir()] == ["write.lock"]


def test_a_worker_looks_for_tasks_even_if_its_type_was_configured_at_the_last_moment(make_queue: MakeQueue):
    """A chain of set_* holds a type back for a moment. Where that moment ended right after the look, the worker must
    not go to sleep as if it had found nothing."""
    queue = make_queue(poll_interval=3600)
    want, left = queue._scheduler.want, [5]  # how many looks are too early

    def want_later(*given: Any) -> Any:
        left[0] -= 1
        return want(*given) if left[0] < 0 else None

    queue._scheduler.want = want_later
    queue._scheduler.configuring = lambda _: 0.02 if left[0] > 0 else 0.0
    assert queue("quick").set_worker(lambda number: number).submit(7).result(timeout=PATIENCE) == 7
