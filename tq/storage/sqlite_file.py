"""Opening a SQLite database for a queue: which files are fit, which are refused, and what each refusal says.

The database file is never opened except through SQLite, not even to read its header: closing any other descriptor on
it drops this process's locks, and a later commit can vanish (reproduced).
"""

from __future__ import annotations

import contextlib
import errno
import os
import re
import sqlite3
import stat
from pathlib import Path

from tq.errors import (
    DatabaseUnusable,
    NetworkFileSystem,
    StorageBusy,
    StorageError,
    StorageFull,
    UnsupportedSqlite,
)

OLDEST_SQLITE = (3, 35, 0)  # the first with RETURNING
SYNCHRONOUS = {"full": "FULL", "normal": "NORMAL"}
_NETWORK = {"nfs", "nfs4", "cifs", "smb3", "smbfs", "smb2", "9p", "afs", "ceph", "glusterfs", "lustre", "ncpfs"}
_NETWORK |= {"fuse.sshfs", "fuse.glusterfs", "fuse.s3fs", "fuse.rclone", "fuse.ceph", "webdav", "fuse.davfs"}
_MOUNTS = Path("/proc/self/mountinfo")
_BUSY_SECONDS = 5.0
_LONGEST_NAME = 255 - len("-journal")
_CACHE_KIB = 16_384
_WAL_LIMIT_BYTES = 64 * 1024 * 1024


def check_sqlite_version(version: tuple[int, ...] = sqlite3.sqlite_version_info) -> None:
    if version < OLDEST_SQLITE:
        have, need = (".".join(map(str, numbers)) for numbers in (version, OLDEST_SQLITE))
        raise UnsupportedSqlite(
            f"this Python carries SQLite {have}; tq needs {need} or newer: use a newer Python build"
        )


def located(path: Path) -> Path:
    """Where the file really is: whoever comes by a link must meet the others at the lock that stands beside it."""
    try:
        return path.resolve()
    except (OSError, RuntimeError) as error:  # links that go round in a circle
        raise DatabaseUnusable(f"cannot use {path} as a database: {error}") from error


def prepare(path: Path) -> None:
    """Refuse what cannot hold a queue; create the file, readable by its owner alone, where there is none."""
    check_sqlite_version()
    refuse_network(path, _mounts())
    if len(os.fsencode(path.name)) > _LONGEST_NAME:
        raise DatabaseUnusable(
            f"cannot use {path} as a database: the name is too long, SQLite adds endings to it; "
            f"use at most {_LONGEST_NAME} bytes"
        )
    try:
        mode = path.stat().st_mode
    except FileNotFoundError:
        _create(path)
        return
    except OSError as error:
        raise DatabaseUnusable(f"cannot use {path} as a database: {error.strerror}") from error
    if stat.S_ISDIR(mode):
        raise DatabaseUnusable(f"{path} is a directory; give the path of a file in it, such as {path / 'tasks.db'}")
    if not stat.S_ISREG(mode):
        raise DatabaseUnusable(f"{path} is not a regular file; give the path of a file that may be created")
    if path.stat().st_nlink > 1:
        raise DatabaseUnusable(
            f"{path} has a second name (a hard link), and SQLite would keep a log for each name; remove one of them"
        )
    if not os.access(path, os.R_OK | os.W_OK):
        raise DatabaseUnusable(f"{path} is read-only for this user; make it writable, or give another path")
    if not os.access(path.parent, os.W_OK):
        raise DatabaseUnusable(
            f"the folder {path.parent} is read-only, and SQLite keeps its log there; use another one"
        )
    _refuse_other_content(path)


def _refuse_other_content(path: Path) -> None:
    """Look before anything is put beside a file that is not a database."""
    connection = sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True)
    with contextlib.closing(connection):
        try:
            connection.execute("PRAGMA schema_version").fetchall()
        except sqlite3.Error as error:
            if "not a database" in str(error):
                raise translate(error, path) from error


def _create(path: Path) -> None:
    try:
        # Safe although it opens the file: it is new, so no connection of this process can hold a lock on it.
        os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600))
    except FileExistsError:
        return
    except FileNotFoundError as error:
        raise DatabaseUnusable(f"the folder {path.parent} does not exist; create it, or give another path") from error
    except OSError as error:
        raise DatabaseUnusable(f"cannot create {path}: {error.strerror}; give a path that you may write to") from error


def refuse_network(path: Path, mounts: str) -> None:
    """SQLite's locks and shared memory do not work between machines, and on many network mounts not at all."""
    kind = file_system_of(path, mounts)
    if kind in _NETWORK:
        raise NetworkFileSystem(
            f"{path} lies on a network file system ({kind}), where SQLite loses data; "
            "put the file on a local disk, or use PostgreSQL to share a queue between machines"
        )


def file_system_of(path: Path, mounts: str) -> str | None:
    """The type of the file system that holds the path, by the text of /proc/self/mountinfo."""
    found: tuple[int, str] | None = None
    target = str(located(path))
    for line in mounts.splitlines():
        left, _, right = line.partition(" - ")
        fields = left.split()
        if len(fields) < 5 or not right:
            continue
        point = re.sub(r"\\([0-7]{3})", lambda octal: chr(int(octal[1], 8)), fields[4])
        inside = target == point or target.startswith(point.rstrip("/") + "/")
        if inside and (found is None or len(point) >= found[0]):
            found = (len(point), right.split()[0])
    return found[1] if found else None


def _mounts() -> str:
    try:
        return _MOUNTS.read_text()
    except OSError:
        return ""


def connect(path: Path, durability: str) -> sqlite3.Connection:
    """The one place where a connection is made, so that all of them are alike."""
    connection = sqlite3.connect(
        path, timeout=_BUSY_SECONDS, isolation_level=None, check_same_thread=False, cached_statements=256
    )
    try:
        _configure(connection, durability)
    except sqlite3.Error:
        connection.close()
        raise
    return connection


def _configure(connection: sqlite3.Connection, durability: str) -> None:
    for pragma in (
        "journal_mode = WAL",
        f"synchronous = {SYNCHRONOUS[durability]}",
        # SQLite before 3.44.6, 3.50.7 and 3.51.3 can corrupt a log when a checkpoint meets a write: ours never do.
        "wal_autocheckpoint = 0",
        f"journal_size_limit = {_WAL_LIMIT_BYTES}",
        f"cache_size = -{_CACHE_KIB}",
        "temp_store = MEMORY",
        "mmap_size = 0",
    ):
        connection.execute(f"PRAGMA {pragma}").fetchall()


def file_of(connection: sqlite3.Connection) -> Path:
    """The file behind a connection that the program opened itself."""
    try:
        databases = connection.execute("PRAGMA database_list").fetchall()
    except sqlite3.Error as error:  # closed, or made for another thread
        raise DatabaseUnusable(f"this connection cannot be used: {error}; give an open one, or a path") from error
    for _, name, file in databases:
        if name == "main" and file:
            return Path(file)
    raise DatabaseUnusable(
        "this connection is to a database in memory, which no worker could share; open a file instead"
    )


def is_busy(error: sqlite3.Error) -> bool:
    text = str(error)
    return "locked" in text or "busy" in text


def translate(error: sqlite3.Error, path: Path) -> StorageError:
    """Turn SQLite's error into one that says what to do."""
    text = str(error)
    if "full" in text or "disk I/O" in text:
        return StorageFull(f"cannot write to {path}: {text}; free some disk space, nothing that was accepted is lost")
    if is_busy(error):
        return StorageBusy(f"another program keeps {path} locked; end its transaction, then try again")
    if "not a database" in text:
        return DatabaseUnusable(f"{path} is not a SQLite database; give another path, tq does not overwrite files")
    if "readonly" in text:
        return DatabaseUnusable(f"{path} is read-only; make it and its folder writable, or give another path")
    if "malformed" in text:
        return DatabaseUnusable(f"{path} is damaged ({text}); restore it from a backup")
    return StorageError(f"{path}: {text}")


def translate_os(error: OSError, folder: Path) -> StorageError:
    """The same for the files in the folder of tq's locks."""
    if error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG):
        return StorageFull(
            f"cannot write to {folder}: {error.strerror}; free some disk space, nothing accepted is lost"
        )
    return DatabaseUnusable(
        f"cannot use {folder}, the folder for tq's locks: {error.strerror}; make it writable, or give another path"
    )
