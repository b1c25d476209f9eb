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


class Bell:
    def __init__(self, path: Path) -> None:
        self._path = path
        os.mkfifo(path, 0o600)
        # Open for both ends, so that there is always a reader and never an end of file.
        self._fd = os.open(path, os.O_RDWR | os.O_NONBLOCK)
        self._poll = select.poll()
        self._poll.register(self._fd, select.POLLIN)

    def wait(self, seconds: float) -> bool:
        rung = bool(self._poll.poll(max(0.0, seconds) * 1000))
        if rung:
            with contextlib.suppress(BlockingIOError):
                os.read(self._fd, 65536)
        return rung

    def ring(self) -> None:
        with contextlib.suppress(OSError):  # a full FIFO rings already, and a closed one has nobody to wake
            os.write(self._fd, b"!")

    def remove(self) -> None:
        self._path.unlink(missing_ok=True)

    def close(self) -> None:
        fd, self._fd = self._fd, -1  # whoever rings late must not write to a new file of that number
        os.close(fd)


def ring_all(folder: Path) -> None:
    """Ring every bell in the folder. A dead worker's bell has no reader and is passed over."""
    for path in folder.iterdir():
        if path.suffix == SUFFIX:
            with contextlib.suppress(OSError):
                fd = os.open(path, os.O_WRONLY | os.O_NONBLOCK)
                try:
                    os.write(fd, b"!")
                finally:
                    os.close(fd)
