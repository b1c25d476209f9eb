"""UUIDv7 ids: ordered by time, strictly increasing within a process, and true to the clock.

`uuid6.uuid7()` adds a millisecond for each id made within the same one, so that 100,000 ids end 99 seconds in the
future (measured) and the order between processes is lost. Here a tick is 1/4096 of a millisecond, finer than Python
can make ids, so the guard below almost never has to invent time.
"""

from __future__ import annotations

import random
import re
import threading
import time
from collections.abc import Callable

from tq.forking import renew_in_child

_TICKS_PER_MS = 4096
_UUID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}", re.IGNORECASE)


class IdFactory:
    """Makes ids. Time and randomness are parameters so that a simulation can repeat itself.

    The randomness is its own: a program that seeds Python's generator must not make the same ids twice.
    """

    def __init__(
        self,
        time_ns: Callable[[], int] = time.time_ns,
        getrandbits: Callable[[int], int] | None = None,
    ) -> None:
        self._time_ns = time_ns
        self._given = getrandbits
        self._last = 0
        self.after_fork()
        renew_in_child(self)

    def after_fork(self) -> None:
        self._lock = threading.Lock()
        self._getrandbits = self._given or random.Random().getrandbits  # noqa: S311 (unique, not secret)

    def new(self) -> str:
        tick = self._time_ns() * _TICKS_PER_MS // 1_000_000
        with self._lock:
            # A clock that stands still or goes back must not reorder what this process adds.
            if tick <= self._last:
                tick = self._last + 1
            self._last = tick
        milliseconds, fraction = divmod(tick, _TICKS_PER_MS)
        noise = self._getrandbits(62)
        head = f"{milliseconds:012x}"
        return f"{head[:8]}-{head[8:]}-7{fraction:03x}-{0x8000 | noise >> 48:04x}-{noise & 0xFFFFFFFFFFFF:012x}"


def first_id(moment: float) -> str:
    """A text that no id is below that was made at this Unix time or later, and every one that was made before."""
    head = f"{max(0, int(moment * 1000)):012x}"
    return f"{head[:8]}-{head[8:]}"


def ids_of_minute(minute: int) -> tuple[str, str]:
    """Between which texts the ids lie that were made in this minute since 1970."""
    return first_id(minute * 60), first_id((minute + 1) * 60)


def is_id(text: str) -> bool:
    return _UUID.fullmatch(text) is not None
