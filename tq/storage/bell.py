"""The doorbell of a worker process: a FIFO beside the database. It wakes in a millisecond and costs nothing while idle.

A FIFO does what a datagram socket does, without the limit of 108 bytes on its path. A lost ring is never a lost task:
workers also look by themselves, every `poll_interval`.
"""

from __future__ import annotations

import contextlib
import os
import select
import threading
from pathlib import Path

SUFFIX = ".bell"
_LONGEST_WAIT_SECONDS = 86_400.0  # poll() takes no more than 24 days; to be woken for nothing costs nothing


class Bell:
    def __init__(self, path: Path) -> None:
        self._path = path
        os.mkfifo(path, 0o600)
        # Open for both ends, so that there is always a reader and never an end of file.
        self._fd = os.open(path, os.O_RDWR | os.O_NONBLOCK)
        self._closing = threading.RLock()  # a signal's handler may ring while its thread rings
        self._closed = False
        self._poll = select.poll()
        self._poll.register(self._fd, select.POLLIN)

    def wait(self, seconds: float) -> None:
        if self._poll.poll(min(max(0.0, seconds), _LONGEST_WAIT_SECONDS) * 1000):
            with contextlib.suppress(BlockingIOError):
                os.read(self._fd, 65536)

    def ring(self) -> None:
        with self._closing:
            if not self._closed:  # else the descriptor may be another file's by now, such as a database's
                with contextlib.suppress(BlockingIOError):  # a full FIFO rings already
                    os.write(self._fd, b"!")

    def close(self) -> None:
        with self._closing:
            self._closed = True
            os.close(self._fd)
        self._path.unlink(missing_ok=True)


def ring_all(folder: Path) -> None:
    """Ring every bell in the folder. It never fails: what it rings for is committed, and workers also look by
    themselves. A dead worker's bell has no reader and is passed over."""
    with contextlib.suppress(OSError):
        for path in folder.iterdir():
            if path.suffix == SUFFIX:
                _ring(path)


def _ring(path: Path) -> None:
    with contextlib.suppress(OSError):
        fd = os.open(path, os.O_WRONLY | os.O_NONBLOCK)
        try:
            os.write(fd, b"!")
        finally:
            os.close(fd)
