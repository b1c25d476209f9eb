"""The doorbell of a worker process: a FIFO beside the database. It wakes in a millisecond and costs nothing while idle.

A FIFO does what a datagram socket does, without the limit of 108 bytes on its path. A lost ring is never a lost task:
workers also look by themselves, every `poll_interval`.
"""

from __future__ import annotations

import contextlib
import os
import select
from pathlib import Path

SUFFIX = ".bell"
_LONGEST_WAIT_SECONDS = 86_400.0  # poll() takes no more than 24 days


class Bell:
    def __init__(self, path: Path) -> None:
        self._path = path
        os.mkfifo(path, 0o600)
        # Open for both ends, so that there is always a reader and never an end of file.
        self._fd = os.open(path, os.O_RDWR | os.O_NONBLOCK)
        self._poll = select.poll()
        self._poll.register(self._fd, select.POLLIN)

    def wait(self, seconds: float) -> bool:
        rung = bool(self._poll.poll(min(max(0.0, seconds), _LONGEST_WAIT_SECONDS) * 1000))
        if rung:
            with contextlib.suppress(BlockingIOError):
                os.read(self._fd, 65536)
        return rung

    def ring(self) -> None:
        """By its path, as everybody does: after `close` the number of our descriptor may belong to another file, and
        signal handlers, other threads and forked children ring too."""
        _ring(self._path)

    def remove(self) -> None:
        self._path.unlink(missing_ok=True)

    def close(self) -> None:
        os.close(self._fd)


def ring_all(folder: Path) -> None:
    """Ring every bell in the folder. If somebody has deleted it, workers look by themselves."""
    with contextlib.suppress(FileNotFoundError):
        for name in os.listdir(folder):  # noqa: PTH208 (a sleeping worker waits for this: no time for Path objects)
            if name.endswith(SUFFIX):
                _ring(f"{folder}/{name}")


def _ring(path: Path | str) -> None:
    """A bell that is full rings already; that of a dead worker has no reader; one that has gone needs no ring."""
    with contextlib.suppress(OSError):
        fd = os.open(path, os.O_WRONLY | os.O_NONBLOCK)
        try:
            os.write(fd, b"!")
        finally:
            os.close(fd)
