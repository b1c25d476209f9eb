"""What a handle on a submitted task promises."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable

import pytest

from tests.waiting import PATIENCE
from tq import ResultTimeout, TaskFailed, TaskQueue, TqError
from tq.errors import TaskNotFound


def test_a_result_is_what_the_handler_returned(queue: TaskQueue):
    queue("echo").set_worker(lambda input: input)
    for value in (None, 0, "", [], {}, {"a": [1, 2.5, None, False]}, "日本"):
        assert queue("echo").submit(value).result(PATIENCE) == value


def test_a_failure_says_which_task_and_why(queue: TaskQueue):
    def handler(_: None) -> None:
        raise ConnectionError("no route to host")

    handle = queue("email").set_worker(handler).set_max_attempts(1).submit(None)
    with pytest.raises(TaskFailed) as caught:
        handle.result(PATIENCE)
    assert caught.value.task_id == handle.id
    assert caught.value.error == "ConnectionError: no route to host"
    assert str(caught.value) == f"task {handle.id} failed: ConnectionError: no route to host"
    assert isinstance(caught.value, TqError)


def test_waiting_ends_when_the_time_is_over_and_the_task_goes_on(queue: TaskQueue):
    go = threading.Event()
    handle = queue("slow").set_worker(lambda _: go.wait(PATIENCE)).submit(None)
    assert handle.wait(0.01) is False
    with pytest.raises(ResultTimeout, match=r"had not ended after 0\.01 s: its handler runs"):
        handle.result(timeout=0.01)
    with pytest.raises(TimeoutError):
        handle.result(timeout=0)
    with pytest.raises(ResultTimeout):
        asyncio.run(handle.aresult(timeout=0.01))
    go.set()
    assert handle.result(PATIENCE) is True
    assert handle.wait() is True


def test_coroutines_wait_while_their_loop_goes_on(queue: TaskQueue):
    go = threading.Event()
    handle = queue("slow").set_worker(lambda _: go.wait(PATIENCE)).submit(None)

    async def program() -> object:
        waiting = asyncio.create_task(handle.aresult(PATIENCE))
        await asyncio.sleep(0)
        go.set()
        return await waiting

    assert asyncio.run(program()) is True


def test_a_handle_in_another_queue_on_the_same_database(make_queue: Callable[..., TaskQueue]):
    producer, worker = make_queue(), make_queue()
    handle = producer("double").submit(4)
    worker("double").set_worker(lambda number: 2 * number)
    assert worker.handle(handle.id).result(PATIENCE) == 8
    assert repr(handle) == f"TaskHandle('{handle.id}')"


@pytest.mark.parametrize("missing", ["01936d3f-1234-7abc-8ef0-123456789abc", "no id at all", ""])
def test_a_handle_on_nothing_says_so(queue: TaskQueue, missing: str):
    handle = queue.handle(missing)
    for ask in (handle.status, handle.task, handle.wait, handle.result):
        with pytest.raises(TaskNotFound, match="deleted, or lives in another database"):
            ask()


def test_a_waiting_retry_has_not_ended(queue: TaskQueue):
    def handler(_: None) -> None:
        raise ConnectionError

    handle = queue("email").set_worker(handler).set_backoff(base=1000).submit(None)
    while handle.status() != "failed":
        handle.wait(0.01)
    assert handle.wait(0.05) is False
    assert not handle.task().finished
