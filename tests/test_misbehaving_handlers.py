"""Handlers that misbehave: the worker goes on, the reason is on the task, and their neighbours notice nothing."""

from __future__ import annotations

import asyncio
import gc
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.programs import Program, run
from tests.waiting import PATIENCE, eventually
from tq import RetryAfter, Task, TaskFailed, TaskQueue, current_task
from tq.errors import InvalidOption, TaskTimeout

MakeQueue = Callable[..., TaskQueue]


def failure(queue: TaskQueue, handler: Callable[[Any], Any]) -> str:
    """What is recorded on a task of this handler; a neighbour of the same type runs right after it."""

    def sometimes(broken: bool) -> Any:
        return handler(None) if broken else "neighbour"

    async def sometimes_async(broken: bool) -> Any:
        return await handler(None) if broken else "neighbour"

    is_async = asyncio.iscoroutinefunction(handler)
    queue("odd").set_worker(sometimes_async if is_async else sometimes).set_max_attempts(1)
    broken, neighbour = queue("odd").submit(True), queue("odd").submit(False)
    assert neighbour.result(PATIENCE) == "neighbour"
    with pytest.raises(TaskFailed) as caught:
        broken.result(PATIENCE)
    return caught.value.error


class Strange(BaseException):
    pass


class Unprintable(Exception):
    def __str__(self) -> str:
        raise RuntimeError("not for you")

    __repr__ = __str__


class UnprintableTimeout(TaskTimeout):
    def __str__(self) -> str:
        raise RuntimeError("not for you")


class UnprintableRetry(RetryAfter):
    @property
    def seconds(self) -> float:  # type: ignore[override]
        raise RuntimeError("not for you")

    @seconds.setter
    def seconds(self, value: float) -> None: ...


def nest() -> None:
    nest()


def exit_by(error: BaseException) -> Callable[[Any], Any]:
    def handler(_: Any) -> None:
        raise error

    return handler


def exit_by_async(error: BaseException) -> Callable[[Any], Any]:
    async def handler(_: Any) -> None:
        await asyncio.sleep(0)
        raise error

    return handler


# --- what they raise ---------------------------------------------------------------------------------------------

RAISED = {
    "sys.exit": (SystemExit(1), "SystemExit: 1"),
    "KeyboardInterrupt": (KeyboardInterrupt(), "KeyboardInterrupt"),
    "BaseException": (Strange("odd"), "Strange: odd"),
    "GeneratorExit": (GeneratorExit(), "GeneratorExit"),
    "CancelledError": (asyncio.CancelledError(), "CancelledError"),
    "StopIteration": (StopIteration(), "StopIteration"),
    "MemoryError": (MemoryError(), "MemoryError"),
    "unprintable": (Unprintable(), "Unprintable: (its message cannot be shown)"),
    "unprintable timeout": (UnprintableTimeout(), "(its message cannot be shown)"),
    "unprintable retry": (UnprintableRetry(1), "UnprintableRetry"),
    "NUL": (ValueError("a\0b"), "ValueError: a\ufffdb"),
    "lone surrogate": (ValueError("a\ud800b"), "ValueError: a\\ud800b"),
}


@pytest.mark.parametrize("make", [exit_by, exit_by_async], ids=["function", "coroutine"])
@pytest.mark.parametrize(("error", "recorded"), RAISED.values(), ids=RAISED)
def test_whatever_is_raised_is_recorded(
    queue: TaskQueue, make: Callable[[BaseException], Any], error: BaseException, recorded: str
):
    assert recorded in failure(queue, make(error))


def test_a_megabyte_of_message_is_kept_short(queue: TaskQueue):
    error = failure(queue, exit_by(ValueError("x" * 2**20)))
    assert error.startswith("ValueError: xxx")
    assert "characters left out" in error
    assert len(error) < 100_000


def test_endless_recursion_is_recorded(queue: TaskQueue):
    assert failure(queue, lambda _: nest()).startswith("RecursionError: maximum recursion depth exceeded")


def test_an_exception_in_a_child_task_of_the_loop_is_the_childs_own(queue: TaskQueue):
    """sys.exit in a task that a handler has started leaves the event loop running for everybody else."""

    async def child() -> None:
        sys.exit(3)

    async def handler(starts_child: bool) -> str:
        if starts_child:
            started = asyncio.create_task(child())
            await asyncio.sleep(0.05)
            with pytest.raises(SystemExit):
                started.result()
        return "done"

    queue("odd").set_worker(handler).set_worker_count(2)
    handles = [queue("odd").submit(odd) for odd in (True, False)]
    assert [handle.result(PATIENCE) for handle in handles] == ["done", "done"]
    assert queue("odd").submit(False).result(PATIENCE) == "done"


# --- what they return --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("result", "recorded"),
    [
        (object(), "the handler's result is not JSON"),
        ({1, 2}, "the handler's result is not JSON"),
        (b"bytes", "the handler's result is not JSON"),
        (float("nan"), "NaN and infinity have no place in it"),
        ({1: 2}, "has the key 1, which is not text"),
        ("a\0b", "holds a NUL character"),
        ("\ud800", "half a surrogate pair"),
        ("x" * 2**21, "the limit is 1,048,576"),
        (10**5000, "the handler's result is not JSON"),
    ],
    ids=["object", "set", "bytes", "NaN", "key", "NUL", "surrogate", "too large", "long integer"],
)
def test_a_result_that_cannot_be_kept_fails_the_task_once(queue: TaskQueue, result: Any, recorded: str):
    """The work is done: running it again would repeat its effects and end the same way."""
    handle = queue("odd").set_worker(lambda _: result).submit(None)
    with pytest.raises(TaskFailed, match=recorded):
        handle.result(PATIENCE)
    assert handle.task().attempts == 1
    assert queue("other").set_worker(lambda _: "goes on").submit(None).result(PATIENCE) == "goes on"


def test_a_result_that_breaks_while_it_is_read_is_recorded(queue: TaskQueue):
    class Broken(dict[str, int]):
        def items(self) -> Any:
            raise ZeroDivisionError("nobody may look")

    assert "ZeroDivisionError" in failure(queue, lambda _: Broken(a=1))


# --- handlers that will not stop ---------------------------------------------------------------------------------


def test_an_endless_loop_that_swallows_everything(queue: TaskQueue):
    leave = threading.Event()

    def handler(odd: bool) -> str:
        while odd and not leave.is_set():
            try:
                while not leave.wait(0.001):
                    pass
            except BaseException:
                continue
        return "done"

    queue("odd").set_worker(handler).set_timeout(0.1).set_max_attempts(1)
    handle, neighbour = queue("odd").submit(True), queue("odd").submit(False)
    with pytest.raises(TaskFailed, match="would not stop"):
        handle.result(PATIENCE)
    assert neighbour.result(PATIENCE) == "done"
    assert queue.stats()["overdue"] == 1
    leave.set()
    eventually(lambda: queue.stats()["overdue"] == 0)


def test_a_handler_that_turns_its_timeout_into_a_success_has_timed_out(queue: TaskQueue):
    def handler(_: None) -> str:
        try:
            while True:
                pass
        except TaskTimeout:
            return "in time, honestly"

    handle = queue("odd").set_worker(handler).set_timeout(0.1).set_max_attempts(1).submit(None)
    with pytest.raises(TaskFailed, match=r"timed out after 0\.1 s"):
        handle.result(PATIENCE)


def test_a_coroutine_that_swallows_its_cancellation(queue: TaskQueue):
    leave = threading.Event()

    async def handler(odd: bool) -> str:
        while odd and not leave.is_set():
            try:
                await asyncio.sleep(0.01)
            except asyncio.CancelledError:
                continue
        return "done"

    queue("odd").set_worker(handler).set_timeout(0.1).set_max_attempts(1)
    handle, neighbour = queue("odd").submit(True), queue("odd").submit(False)
    with pytest.raises(TaskFailed, match="would not stop"):
        handle.result(PATIENCE)
    assert neighbour.result(PATIENCE) == "done"
    assert queue.stats()["overdue"] == 1
    leave.set()
    eventually(lambda: queue.stats()["overdue"] == 0)


def test_a_coroutine_that_blocks_the_loop_leaves_it_to_itself(queue: TaskQueue):
    leave = threading.Event()

    async def handler(odd: bool) -> str:
        if odd:
            leave.wait(PATIENCE)  # not awaited: nothing else on this loop can run
        return "done"

    queue("odd").set_worker(handler).set_timeout(0.1).set_max_attempts(1)
    queue("other").set_worker(handler)
    handle = queue("odd").submit(True)
    neighbours = [queue("odd").submit(False), queue("other").submit(False)]
    with pytest.raises(TaskFailed, match="would not stop"):
        handle.result(PATIENCE)
    assert [neighbour.result(PATIENCE) for neighbour in neighbours] == ["done", "done"]
    assert queue.stats()["overdue"] == 1
    leave.set()
    eventually(lambda: queue.stats()["overdue"] == 0)


def test_a_neighbour_on_a_blocked_loop_is_still_cancelled_when_its_own_time_is_up(queue: TaskQueue):
    leave, cancelled = threading.Event(), threading.Event()
    waiting = threading.Event()

    async def blocker(_: None) -> None:
        leave.wait(PATIENCE)

    async def sleeper(_: None) -> None:
        waiting.set()
        try:
            await asyncio.Event().wait()
        finally:
            cancelled.set()

    queue("sleeper").set_worker(sleeper).set_timeout(2).set_max_attempts(1)
    asleep = queue("sleeper").submit(None)
    assert waiting.wait(PATIENCE)
    queue("blocker").set_worker(blocker).set_timeout(0.1).set_max_attempts(1)
    blocking = queue("blocker").submit(None)
    assert blocking.wait(PATIENCE)
    leave.set()
    with pytest.raises(TaskFailed, match="timed out after 2 s"):
        asleep.result(PATIENCE)
    assert cancelled.wait(PATIENCE)
    eventually(lambda: queue.stats()["overdue"] == 0)


# --- handlers that use the queue ---------------------------------------------------------------------------------


def test_a_handler_adds_to_its_own_type(queue: TaskQueue):
    seen: list[int] = []

    def handler(number: int) -> None:
        seen.append(number)
        if number:
            queue("count").add(number - 1)

    queue("count").set_worker(handler).add(20)
    eventually(lambda: len(seen) == 21)
    assert queue.join(PATIENCE)
    assert seen == list(range(20, -1, -1))


def test_a_handler_waits_for_another_types_result(queue: TaskQueue):
    async def outer(number: int) -> Any:
        handle = await queue("inner").asubmit(number)
        return await handle.aresult(PATIENCE)

    queue("inner").set_worker(lambda number: number + 1)
    queue("outer").set_worker(outer)
    queue("sync outer").set_worker(lambda number: queue("inner").submit(number).result(PATIENCE))
    assert queue("outer").submit(1).result(PATIENCE) == 2
    assert queue("sync outer").submit(2).result(PATIENCE) == 3


def test_a_handler_pauses_the_queue(queue: TaskQueue):
    def handler(_: int) -> None:
        queue.pause()

    queue("odd").set_worker(handler)
    first, second = queue("odd").submit(1), queue("odd").submit(2)
    assert first.wait(PATIENCE)
    assert not second.wait(0.3)
    queue.resume()
    assert second.wait(PATIENCE)


@pytest.mark.parametrize("kind", ["function", "coroutine"])
def test_a_handler_cannot_stop_the_queue_that_runs_it(queue: TaskQueue, kind: str):
    """stop() would wait for the handler, and the handler for stop()."""

    def handler(_: None) -> None:
        queue.stop()

    async def async_handler(_: None) -> None:
        queue.stop()

    queue("odd").set_worker(handler if kind == "function" else async_handler).set_no_retry(InvalidOption)
    handle = queue("odd").submit(None)
    with pytest.raises(TaskFailed, match=r"stop\(\) waits for running tasks, and would wait for this one"):
        handle.result(PATIENCE)
    assert queue("other").set_worker(lambda _: "goes on").submit(None).result(PATIENCE) == "goes on"


def test_a_handler_may_stop_another_queue(make_queue: MakeQueue):
    mine, other = make_queue("mine.db"), make_queue("other.db")
    other("odd").set_worker(lambda _: None)
    assert mine("odd").set_worker(lambda _: other.stop()).submit(None).result(PATIENCE) is True


def test_a_handler_configures_its_own_type(queue: TaskQueue):
    def handler(number: int) -> int:
        queue("odd").set_worker_count(number).set_timeout(60)
        return number

    queue("odd").set_worker(handler)
    assert [queue("odd").submit(number).result(PATIENCE) for number in (3, 1, 5)] == [3, 1, 5]


# --- handlers that change the process ----------------------------------------------------------------------------


def test_a_handler_that_changes_the_directory(folder: Path):
    (folder / "elsewhere").mkdir()
    run(
        folder,
        """
        import os
        from tq import tq
        tq.init("tasks.db")
        tq("odd").set_worker(lambda _: os.chdir("elsewhere"))
        tq("other").set_worker(lambda _: os.getcwd())
        tq("odd").submit(None).result(60)
        assert tq("other").submit(None).result(60).endswith("elsewhere")
        assert tq.stop()
        tq.init(os.path.abspath("../tasks.db"))
        assert tq.stats()["success"] == 2
        tq.stop()
        """,
    )
    assert list((folder / "elsewhere").iterdir()) == []


def test_a_handler_that_changes_signal_handlers(queue: TaskQueue):
    before = signal.getsignal(signal.SIGTERM)
    error = failure(queue, lambda _: signal.signal(signal.SIGTERM, signal.SIG_IGN))
    assert "ValueError: signal only works in main thread" in error
    assert signal.getsignal(signal.SIGTERM) is before


def test_a_handler_that_leaves_threads_behind(queue: TaskQueue):
    leave = threading.Event()
    threads = [threading.Thread(target=leave.wait, args=(PATIENCE,)) for _ in range(3)]

    def handler(number: int) -> int:
        threads[number].start()
        return number

    queue("odd").set_worker(handler)
    assert [queue("odd").submit(number).result(PATIENCE) for number in range(3)] == [0, 1, 2]
    assert queue.stop()
    leave.set()
    for thread in threads:
        thread.join(PATIENCE)


def test_a_handler_that_prints_a_lot(folder: Path):
    printed = run(
        folder,
        """
        from tq import tq
        tq.init("tasks.db")
        def handler(_):
            for line in range(2000):
                print("x" * 500)
        tq("odd").set_worker(handler).submit(None).result(60)
        tq.stop()
        """,
    )
    assert len(printed) == 2000 * 501


def test_a_handler_that_kills_its_own_process_costs_one_attempt(queue: TaskQueue, folder: Path):
    handle = queue("odd").submit(None)
    source = """
        import os
        from tq import tq
        tq.init("tasks.db")
        tq("odd").set_worker(lambda _: os._exit(3))
        tq.run()
    """
    with Program(folder, source) as program:
        program.ends(3)
    queue("odd").set_backoff(base=0).set_worker(lambda _: current_task().attempt)
    assert handle.result(PATIENCE) == 2
    assert handle.task().crashes == 1


FORKS = """
    import os, sys, warnings
    from tq import tq
    warnings.simplefilter("ignore", DeprecationWarning)  # forking with threads: that is the point
    tq.init("tasks.db")

    def handler(_):
        child = os.fork()
        if child == 0:
            {child}
        return [child, os.waitpid(child, 0)[1]]

    tq("odd").set_worker(handler)
    tq("other").set_worker(lambda _: "goes on")
    child, status = tq("odd").submit(None).result(60)
    assert status == 0, status
    assert tq("other").submit(None).result(60) == "goes on"
    assert tq.stop()
    print("ended")
"""


@pytest.mark.parametrize(
    ("child", "tasks"),
    [
        ("os._exit(0)", 2),
        ("tq('child').add(1); os._exit(0)", 3),
        ("return 'the child'", 2),
        ("sys.exit(0)", 2),
        ("raise ValueError", 2),
    ],
    ids=["exits", "adds", "returns", "sys.exit", "raises"],
)
def test_a_handler_that_forks(folder: Path, child: str, tasks: int):
    """A child that leaves the handler ends there: it has no worker to go back to."""
    assert run(folder, FORKS.format(child=child)) == "ended\n"
    queue = TaskQueue().init(folder / "tasks.db")
    stats = queue.stats()
    assert (stats["success"], sum(stats[status] for status in ("to-do", "success", "failed"))) == (2, tasks)
    queue.stop()


def test_a_handler_that_closes_files_it_does_not_own_ends_the_program_for_its_supervisor(folder: Path):
    """Nothing can be trusted after that, but it must not hang in silence, and the next worker must get on with it."""
    source = """
        import os
        from tq import tq
        tq.init("tasks.db")
        tq("odd").set_worker(lambda _: os.closerange(3, 200)).set_max_attempts(2).set_backoff(base=0)
        tq.run()
    """
    queue = TaskQueue().init(folder / "tasks.db")
    handle = queue("odd").submit(None)
    with Program(folder, source) as program:
        _, complaints = program.ends(1)
    assert "restart the program" in complaints
    queue("odd").set_backoff(base=0).set_worker(lambda _: "done")
    assert handle.result(PATIENCE) == "done"
    queue.stop()


# --- a crowd of them ---------------------------------------------------------------------------------------------


@pytest.fixture
def crowd(queue: TaskQueue) -> Iterator[list[Task]]:
    def odd(number: int) -> str:
        misdeeds: list[Callable[[], Any]] = [
            sys.exit,
            nest,
            lambda: (_ for _ in ()).throw(KeyboardInterrupt),
            lambda: object(),
            lambda: (_ for _ in ()).throw(Strange("odd")),
            gc.collect,
        ]
        return str(misdeeds[number % len(misdeeds)]())

    queue("odd").set_worker(odd).set_worker_count(4).set_backoff(base=0).set_max_attempts(2)
    queue("good").set_worker(lambda number: number).set_worker_count(2)
    odd_ones = [queue("odd").submit(number) for number in range(30)]
    good_ones = [queue("good").submit(number) for number in range(100)]
    assert [handle.result(PATIENCE) for handle in good_ones] == list(range(100))
    assert all(handle.wait(PATIENCE) for handle in odd_ones)
    yield [handle.task() for handle in odd_ones]


def test_a_crowd_of_misbehaving_handlers_harms_nobody(queue: TaskQueue, crowd: list[Task]):
    assert all(task.error for task in crowd if task.status == "failed")
    assert queue.stats()["byType"]["good"] == {"success": 100}
    assert queue.stats()["in-progress"] == 0
