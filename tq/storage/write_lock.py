"""The queue of writers between processes: a lock file beside the database, with a few shared bytes in it.

SQLite's own busy handler sleeps and guesses; with eight writing processes it starved one down to a single commit in
five seconds, where this lock gave each its share (measured). The bytes are read and written under the lock only.
"""

from __future__ import annotations

import fcntl
import mmap
import os
import struct
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tq.errors import NotInitialised

_SIZE = 64
_HUNGRY = 0
_UNCHECKPOINTED = struct.Struct("q")
_UNCHECKPOINTED_AT = 8


class WriteLock:
    def __init__(self, path: Path) -> None:
        self._fd = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
        size = os.fstat(self._fd).st_size
        if size < _SIZE:  # written, not a hole: on a full disk, writing to a mapped hole is no error but a SIGBUS
            os.pwrite(self._fd, bytes(_SIZE - size), size)
        self._shared = mmap.mmap(self._fd, _SIZE)
        self._closed = False
        self._threads = threading.Lock()  # the file's lock belongs to the descriptor, and would let all threads in

    @contextmanager
    def held(self) -> Iterator[None]:
        with self._threads:
            if self._closed:
                raise NotInitialised("the queue was closed; call init() again to go on")
            try:  # a Ctrl-C that arrives right after the lock was taken must still let it go
                fcntl.flock(self._fd, fcntl.LOCK_EX)
                yield
            finally:
                fcntl.flock(self._fd, fcntl.LOCK_UN)

    def rest(self, timeout: float) -> bool:
        """Let no thread of this process in until `go_on`; False where one stays inside for longer than that."""
        return self._threads.acquire(timeout=timeout)

    def go_on(self) -> None:
        self._threads.release()

    @property
    def hungry(self) -> bool:
        """Whether a worker has found less than it wanted since somebody last rang."""
        return self._shared[_HUNGRY] != 0

    @hungry.setter
    def hungry(self, value: bool) -> None:
        self._shared[_HUNGRY] = value

    @property
    def uncheckpointed(self) -> int:
        """Rows changed, by any process, since the last checkpoint."""
        count: int = _UNCHECKPOINTED.unpack_from(self._shared, _UNCHECKPOINTED_AT)[0]
        return count

    @uncheckpointed.setter
    def uncheckpointed(self, value: int) -> None:
        _UNCHECKPOINTED.pack_into(self._shared, _UNCHECKPOINTED_AT, value)

    def drop(self) -> None:
        """In a forked child: give up our copy, or the lock would outlive a parent that dies holding it."""
        self._close()

    def close(self) -> None:
        with self._threads:  # whoever waits for the lock must not find a descriptor that is another file's by now
            self._close()

    def _close(self) -> None:
        self._closed = True
        self._shared.close()  # it has a descriptor of its own, a copy of ours, which would keep the lock
        os.close(self._fd)
