"""The one source of time. Tests and the simulator put their own in its place."""

from __future__ import annotations

import time
from typing import Protocol


class Clock(Protocol):
    def now(self) -> float:
        """Unix seconds, for everything that is stored."""

    def monotonic(self) -> float:
        """Seconds that never go back, for everything that is measured."""

    def sleep(self, seconds: float) -> None: ...


class SystemClock:
    now = staticmethod(time.time)
    monotonic = staticmethod(time.monotonic)
    sleep = staticmethod(time.sleep)
