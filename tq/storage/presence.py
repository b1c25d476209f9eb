"""How a worker process on this machine shows that it lives: a lock file of its own, held until it dies.

The kernel drops the lock when the process ends, however it ends, and keeps it while the process is merely slow or
stopped. So a lock that can be taken means a dead owner, whatever the clock says. The file also lists the tasks whose
handlers have started; it is memory-mapped, and what was written survives `kill -9` (but not a power cut, so it names
the boot it belongs to).
"""

from __future__ import annotations

import contextlib
import fcntl
import mmap
import os
import threading
from pathlib import Path

from tq.models import WorkerRecord
from tq.storage.bell import SUFFIX as BELL
from tq.storage.bell import Bell
from tq.storage.driver import Autopsy

SUFFIX = ".lock"
_BOOT_ID = Path("/proc/sys/kernel/random/boot_id")
_HEADER = 64
_SLOT = 36  # the text of a UUID
_SLOTS_AT_FIRST = 256


class LockFilePresence:
    knows_started = True

    def __init__(self, folder: Path, worker_id: str) -> None:
        self._path = folder / (worker_id + SUFFIX)
        self._fd: int | None = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600)
        fcntl.flock(self._fd, fcntl.LOCK_EX)
        # Written, not a hole: on a full disk, writing to a mapped hole is no error but a SIGBUS.
        os.pwrite(self._fd, bytes(_HEADER + _SLOTS_AT_FIRST * _SLOT), 0)
        self._map = mmap.mmap(self._fd, 0)
        header = boot_id().encode()
        self._map[: len(header)] = header
        self._slots: dict[str, int] = {}
        self._free = list(range(_SLOTS_AT_FIRST))
        self._growing = threading.Lock()
        self._bell = Bell(folder / (worker_id + BELL))
        self.wait = self._bell.wait
        self.ring = self._bell.ring

    def started(self, task_id: str) -> None:
        """List the task before its handler runs. Called by the handlers' threads: each step is atomic."""
        try:
            slot = self._free.pop()
        except IndexError:
            slot = self._grow()
        self._slots[task_id] = slot
        offset = _HEADER + slot * _SLOT
        self._map[offset : offset + _SLOT] = task_id.encode()

    def settled(self, task_id: str) -> None:
        """Strike the task off, after its outcome is committed."""
        slot = self._slots.pop(task_id, None)
        if slot is not None:
            self._map[_HEADER + slot * _SLOT] = 0
            self._free.append(slot)

    def _grow(self) -> int:
        with self._growing:
            slots = (len(self._map) - _HEADER) // _SLOT
            assert self._fd is not None, "a worker that has left starts nothing"
            os.pwrite(self._fd, bytes(slots * _SLOT), len(self._map))
            self._map.resize(len(self._map) + slots * _SLOT)
            self._free.extend(range(slots + 1, 2 * slots))
            return slots

    def leave(self) -> None:
        self._path.unlink(missing_ok=True)
        self._bell.close()
        self._close()

    def drop(self) -> None:
        """Let go without cleaning up: what a crash does, and what a forked child must do."""
        self._close()
        # A map has a descriptor of its own, a copy of ours: as long as it is open, the lock is held.
        self._map.close()

    def _close(self) -> None:
        if self._fd is not None:
            os.close(self._fd)
            self._fd = None


def autopsy(folder: Path, worker: WorkerRecord) -> Autopsy | None:
    """None while the worker lives; else what it had started."""
    try:
        fd = os.open(folder / (worker.id + SUFFIX), os.O_RDWR)
    except FileNotFoundError:  # somebody cleared the folder
        return None if _lives(worker) else Autopsy(None)
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        return Autopsy(_started(os.pread(fd, os.fstat(fd).st_size, 0)))
    except BlockingIOError:
        return None
    finally:
        os.close(fd)


def _started(content: bytes) -> frozenset[str] | None:
    """The listed tasks. After a reboot the list may never have reached the disk: then nobody can tell."""
    if content[:_HEADER].rstrip(b"\0").decode(errors="replace") != boot_id():
        return None
    slots = (content[at : at + _SLOT] for at in range(_HEADER, len(content), _SLOT))
    return frozenset(slot.decode() for slot in slots if slot[:1] not in (b"", b"\0"))


def bury(folder: Path, worker_id: str) -> None:
    for suffix in (SUFFIX, BELL):
        (folder / (worker_id + suffix)).unlink(missing_ok=True)


def sweep(folder: Path, known: set[str]) -> None:
    """Remove the files of workers that the database no longer knows and that nobody holds."""
    for path in folder.iterdir():
        if path.suffix in (SUFFIX, BELL) and path.stem not in known and len(path.stem) == _SLOT:
            with contextlib.suppress(OSError):
                _remove_if_free(path)


def _remove_if_free(path: Path) -> None:
    lock = path.with_suffix(SUFFIX)
    if lock.exists():
        fd = os.open(lock, os.O_RDWR)
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        finally:
            os.close(fd)
    path.unlink(missing_ok=True)


def boot_id() -> str:
    try:
        return _BOOT_ID.read_text().strip()
    except OSError:
        return "unknown-boot"


def identity(pid: int) -> str:
    """A name for a process that no later process on this machine can have: boot, pid and start time."""
    try:
        started = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[19]
    except (OSError, IndexError):
        started = ""
    return f"{boot_id()}:{pid}:{started}"


def _lives(worker: WorkerRecord) -> bool:
    return identity(worker.pid) == worker.identity and not worker.identity.endswith(":")
