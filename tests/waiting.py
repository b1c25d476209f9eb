"""Tests wait for what they want to see, with a deadline that only a hopeless machine would miss."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

PATIENCE = 60.0


def eventually(condition: Callable[[], Any], patience: float = PATIENCE) -> Any:
    """What the condition answers, once that is true."""
    give_up_at = time.monotonic() + patience
    while not (answer := condition()):
        assert time.monotonic() < give_up_at, "it did not come true in time"
        time.sleep(0.01)
    return answer


def wait_until(condition: Callable[[], object], seconds: float = PATIENCE) -> None:
    eventually(condition, seconds)
