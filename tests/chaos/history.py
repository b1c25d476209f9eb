"""What handlers and producers write down while they run: one line for each event, appended in a single write.

Lines of different processes never mix (O_APPEND, one write), survive `kill -9`, and carry the machine's monotonic
clock, which is the same in all processes. All have one length, so that none crosses a page: a kill could cut it there.
"""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import NamedTuple

_LENGTH = 128


class Event(NamedTuple):
    at: float
    pid: int
    what: str  # start, end, accepted, …
    task: str
    attempt: int


class History:
    def __init__(self, path: Path) -> None:
        self.path = path
        self._fd = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)

    def write(self, what: str, task: str = "-", attempt: int = 0) -> None:
        line = f"{time.monotonic():.6f} {os.getpid()} {what} {task} {attempt}"
        os.write(self._fd, line.ljust(_LENGTH - 1).encode() + b"\n")

    def close(self) -> None:
        os.close(self._fd)

    def events(self, *what: str) -> list[Event]:
        lines = self.path.read_text().split("\n")[:-1]  # the last one may be on its way
        return [event for event in map(_event, lines) if not what or event.what in what]

    def tasks(self, what: str) -> list[str]:
        return [event.task for event in self.events(what)]


def _event(line: str) -> Event:
    at, pid, what, task, attempt = line.split()
    return Event(float(at), int(pid), what, task, int(attempt))
