"""How a worker process on this machine shows that it lives: a lock file of its own, held until it dies.

The kernel drops the lock when the process ends, however it ends, and keeps it while the process is merely slow or
stopped. So a lock that can be taken means a dead owner, whatever the clock says. The file also lists the claims whose
handlers have started; it is memory-mapped, and what was written survives `kill -9` (but not a power cut, so it names
the boot it belongs to). A claim is a task and its version: one transaction may settle a task and claim it again, and
whoever dies right after it has not struck off the first claim, nor started the second.
"""

from __future__ import annotations

import contextlib
import fcntl
import mmap
import os
import threading
from pathlib import Path

from tq.models import ClaimedTask, WorkerRecord
from tq.storage.bell import SUFFIX as BELL
from tq.storage.bell import Bell
from tq.storage.driver import Autopsy
from tq.storage.write_lock import allocate

SUFFIX = ".lock"
_BOOT_ID = Path("/proc/sys/kernel/random/boot_id")
_HEADER = 64
_ID = 36  # the text of a UUID
_SLOT = 48  # an id, and a version as text
_SLOTS_AT_FIRST = 256
_DEAD = ("Z", "X")  # it has ended, and its parent has not asked for its exit code


class LockFilePresence:
    counts_as_living = True  # for as long as its process lives

    def __init__(self, folder: Path, worker_id: str) -> None:
        self._path = folder / (worker_id + SUFFIX)
        self._fd: int | None = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600)
        try:
            self._lay_out(self._fd)
            self._bell = Bell(folder / (worker_id + BELL))
        except BaseException:
            self._path.unlink()
            os.close(self._fd)
            raise
        self._slots: dict[str, int] = {}
        self._free = list(range(_SLOTS_AT_FIRST))
        self._growing = threading.Lock()
        self.wait = self._bell.wait
        self.ring = self._bell.ring

    def _lay_out(self, fd: int) -> None:
        fcntl.flock(fd, fcntl.LOCK_EX)
        allocate(fd, _HEADER + _SLOTS_AT_FIRST * _SLOT)
        self._map = mmap.mmap(fd, 0)
        header = boot_id().encode()
        self._map[: len(header)] = header

    def started(self, *tasks: ClaimedTask) -> None:
        """List claims before their handlers run. Called by the handlers' threads: each step is atomic."""
        for task in tasks:
            try:
                slot = self._free.pop()
            except IndexError:
                slot = self._grow()
            self._slots[task.id] = slot
            offset = _HEADER + slot * _SLOT
            try:
                self._map[offset : offset + _SLOT] = f"{task.id}{task.version}".encode().ljust(_SLOT, b"\0")
            except ValueError as error:  # the map is closed
                raise OSError("this worker has left, and starts nothing") from error

    def settled(self, task_id: str) -> None:
        """Strike the task off, after its outcome is committed."""
        slot = self._slots.pop(task_id, None)
        if slot is not None:
            self._map[_HEADER + slot * _SLOT] = 0
            self._free.append(slot)

    def _grow(self) -> int:
        with self._growing:
            slots = (len(self._map) - _HEADER) // _SLOT
            size = _HEADER + 2 * slots * _SLOT
            assert self._fd is not None
            allocate(self._fd, size)
            self._map.resize(size)
            self._free.extend(range(slots + 1, 2 * slots))
            return slots

    def leave(self) -> None:
        self._path.unlink(missing_ok=True)
        self._bell.remove()
        self.drop()

    def drop(self) -> None:
        """Let go without cleaning up: what a crash does, and what a forked child must do."""
        if self._fd is not None:
            self._map.close()  # it has a descriptor of its own, and any descriptor keeps the lock
            self._bell.close()
            os.close(self._fd)
            self._fd = None


def autopsy(folder: Path, worker: WorkerRecord) -> Autopsy | None:
    """None while the worker lives; else what it had started.

    The lock is asked for as a shared one: two who examine a dead worker at once must not take each other for it.
    """
    try:
        fd = os.open(folder / (worker.id + SUFFIX), os.O_RDWR)
    except FileNotFoundError:  # somebody cleared the folder
        return None if _lives(worker) else Autopsy(None)
    try:
        fcntl.flock(fd, fcntl.LOCK_SH | fcntl.LOCK_NB)
        return Autopsy(_started(os.pread(fd, os.fstat(fd).st_size, 0)))
    except BlockingIOError:
        return None
    finally:
        os.close(fd)


def started_by(folder: Path, worker: WorkerRecord) -> frozenset[tuple[str, int]] | None:
    """What a worker has listed as started, be it dead or alive; None where nobody can tell."""
    try:
        return _started((folder / (worker.id + SUFFIX)).read_bytes())
    except FileNotFoundError:
        return None


def _started(content: bytes) -> frozenset[tuple[str, int]] | None:
    """The listed claims. After a reboot the list may never have reached the disk: then nobody can tell."""
    if content[:_HEADER].rstrip(b"\0").decode(errors="replace") != boot_id():
        return None
    slots = (content[at : at + _SLOT] for at in range(_HEADER, len(content), _SLOT))
    return frozenset(_claim(slot) for slot in slots if slot[:1] not in (b"", b"\0"))


def _claim(slot: bytes) -> tuple[str, int]:
    version = slot[_ID:].rstrip(b"\0")
    return slot[:_ID].decode(errors="replace"), int(version) if version.isdigit() else -1  # killed while writing it


def bury(folder: Path, worker_id: str) -> None:
    for suffix in (SUFFIX, BELL):
        (folder / (worker_id + suffix)).unlink(missing_ok=True)


def sweep(folder: Path, known: set[str]) -> None:
    """Remove the files of workers that the database no longer knows and that nobody holds."""
    for path in folder.iterdir():
        if path.suffix in (SUFFIX, BELL) and path.stem not in known and len(path.stem) == _ID:
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
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        started = "" if fields[0] in _DEAD else fields[19]
    except (OSError, IndexError):
        started = ""
    return f"{boot_id()}:{pid}:{started}"


def _lives(worker: WorkerRecord) -> bool:
    return identity(worker.pid) == worker.identity and not worker.identity.endswith(":")
