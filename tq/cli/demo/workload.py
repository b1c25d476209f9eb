"""What the demo's queue has to do: two types of tasks, and the functions that pretend to work on them."""

from __future__ import annotations

from typing import Any, NamedTuple

from tq import PermanentError, TaskQueue, current_task
from tq.clock import SystemClock

_SECONDS_TO_SEND = 0.3
_SECONDS_TO_SHRINK = 0.6
_FAIL_ONCE = {5, 14, 27}
_FAIL_TWICE = {9, 21}
_NOT_A_PICTURE = 11


class Kind(NamedTuple):
    type: str
    rules: str
    inputs: list[dict[str, Any]]


def kinds() -> list[Kind]:
    return [
        Kind("email", "2 at a time, at most 5 per second", [_message(number) for number in range(1, 31)]),
        Kind("thumbnail", "4 at a time, tried again when it fails", [_photo(number) for number in range(1, 41)]),
    ]


def _message(number: int) -> dict[str, Any]:
    return {"name": f"user{number}@example.com"}


def _photo(number: int) -> dict[str, Any]:
    failures = 1 if number in _FAIL_ONCE else 2 if number in _FAIL_TWICE else 0
    return {"name": f"photo{number}.jpg", "failures": failures, "broken": number == _NOT_A_PICTURE}


def register(queue: TaskQueue) -> None:
    """Everything that a worker of the demo needs to know."""
    queue("email").set_worker(send).set_worker_count(2).set_rate_limit(5).set_backoff(base=1)
    queue("thumbnail").set_worker(shrink).set_worker_count(4).set_max_attempts(5).set_backoff(base=1, factor=1.5)


def send(message: dict[str, Any]) -> str:
    SystemClock.sleep(_SECONDS_TO_SEND)
    return f"sent to {message['name']}"


def shrink(photo: dict[str, Any]) -> str:
    SystemClock.sleep(_SECONDS_TO_SHRINK)
    if photo["broken"]:
        raise PermanentError("not a picture")
    if current_task().attempt <= photo["failures"]:
        raise TimeoutError("no answer")
    return f"small-{photo['name']}"
