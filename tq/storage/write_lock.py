"""The queue of writers between processes: a lock file beside the database, with a few shared bytes in it.

SQLite's own busy handler sleeps and guesses; with eight writing processes it starved one down to a single commit in
five seconds, where this lock gave each its share (measured). The bytes are read and written under the lock only.
"""

from __future__ import annotations

import contextlib
import fcntl
import mmap
import os
import struct
import threading
import time
from pathlib import Path

from typing_extensions import Self

from tq.errors import NotInitialised

_SIZE = 64
_HUNGRY = 0
_UNCHECKPOINTED = struct.Struct("q")
_UNCHECKPOINTED_AT = 8


class WriteLock:
    def __init__(self, path: Path) -> None:
        self._path = path
        # The file's lock belongs to the descriptor, and would let all threads in. Reentrant only so that a thread can
        # ask whether it is its own: a Ctrl-C between two steps must leave neither lock behind.
        self._threads = threading.RLock()
        self._held = False
        self._closed = False
        self._open()

    def _open(self) -> None:
        fd = os.open(self._path, os.O_RDWR | os.O_CREAT, 0o600)
        try:
            allocate(fd, _SIZE)
            self._shared = mmap.mmap(fd, _SIZE)
        except BaseException:
            os.close(fd)
            raise
        self._fd = fd

    def held(self) -> Self:
        """`with lock.held():` for one writer at a time, of all threads and all processes."""
        return self

    def __enter__(self) -> None:
        try:
            self._threads.acquire()
            self._take_file()
            self._held = True
        except BaseException:
            self.let_go()
            raise

    def hold_within(self, seconds: float) -> bool:
        """Take the lock, to be released by `let_go`; False if somebody else keeps it for longer than that."""
        if self.is_mine or not self._threads.acquire(timeout=seconds):
            return False
        give_up_at = time.monotonic() + seconds
        while time.monotonic() < give_up_at:
            with contextlib.suppress(BlockingIOError):
                fcntl.flock(self._fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
                self._held = True
                return True
            time.sleep(0.01)
        self._threads.release()
        return False

    def _take_file(self) -> None:
        """Lock the file that has the name now: somebody may have deleted the folder, and others lock a new one."""
        if self._closed:
            raise NotInitialised("the queue was closed; call init() again to go on")
        fcntl.flock(self._fd, fcntl.LOCK_EX)
        while os.fstat(self._fd).st_nlink == 0:
            deleted = self._shared, self._fd
            self._path.parent.mkdir(mode=0o700, exist_ok=True)
            self._open()
            _close(*deleted)
            fcntl.flock(self._fd, fcntl.LOCK_EX)

    def __exit__(self, *_: object) -> None:
        self.let_go()

    def let_go(self) -> None:
        """Release the lock if this thread has it. A Ctrl-C may hit `with` itself, on its way in or out: then whoever
        catches it has to call this."""
        if self._threads._is_owned():  # type: ignore[attr-defined]
            self._held = False
            if not self._closed:
                fcntl.flock(self._fd, fcntl.LOCK_UN)
            self._threads.release()

    # --- forks ---------------------------------------------------------------------------------------------------

    def keep_threads_out(self) -> bool:
        """Until `let_threads_in`. False, and nothing is kept, where this very thread holds the lock."""
        if not self.is_mine:
            self._threads.acquire()
        return not self._held

    def let_threads_in(self) -> None:
        if self.is_mine and not self._held:
            self._threads.release()

    @property
    def is_mine(self) -> bool:
        """Whether the calling thread is inside."""
        owned: bool = self._threads._is_owned()  # type: ignore[attr-defined]
        return owned

    def drop(self) -> None:
        """In a forked child: give up our copy, or the lock would outlive a parent that dies holding it."""
        self._close()

    # --- the shared bytes ----------------------------------------------------------------------------------------

    @property
    def hungry(self) -> bool:
        """Whether a worker has found less than it wanted since somebody last rang."""
        return self._shared[_HUNGRY] != 0

    @hungry.setter
    def hungry(self, value: bool) -> None:
        self._shared[_HUNGRY] = value

    @property
    def uncheckpointed(self) -> int:
        """Pages written, by any process and by estimate, since the last checkpoint."""
        return int(_UNCHECKPOINTED.unpack_from(self._shared, _UNCHECKPOINTED_AT)[0])

    @uncheckpointed.setter
    def uncheckpointed(self, value: int) -> None:
        _UNCHECKPOINTED.pack_into(self._shared, _UNCHECKPOINTED_AT, value)

    def close(self) -> None:
        with self._threads:  # whoever waits for the lock must not find a descriptor that is another file's by now
            self._close()

    def _close(self) -> None:
        if not self._closed:
            self._closed = True
            _close(self._shared, self._fd)


def _close(shared: mmap.mmap, fd: int) -> None:
    shared.close()  # it has a descriptor of its own, and any descriptor keeps the lock
    os.close(fd)


def allocate(fd: int, size: int) -> None:
    """Give a file real bytes up to this size. A map over a hole kills the process, by SIGBUS, when the disk is full."""
    while (missing := size - os.fstat(fd).st_size) > 0:  # the last free bytes of a disk make a short write
        os.pwrite(fd, bytes(missing), size - missing)
