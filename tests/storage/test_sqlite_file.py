"""Which files may hold a queue: the others are refused by name, and left as they were."""

from __future__ import annotations

import os
import shutil
import sqlite3
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.processes import as_nobody
from tq.errors import (
    DatabaseUnusable,
    NetworkFileSystem,
    StorageBusy,
    StorageError,
    StorageFull,
    TqError,
    UnsupportedSqlite,
)
from tq.storage import sql, sqlite_file
from tq.storage.sqlite import SqliteDriver
from tq.storage.sqlite_file import check_sqlite_version, file_of, file_system_of, refuse_network, translate


def refusal(path: Path) -> str:
    """Why the path cannot be opened, and that the attempt leaves nothing."""
    before = sorted(path.parent.iterdir()) if path.parent.is_dir() else None
    with pytest.raises(DatabaseUnusable) as caught:
        SqliteDriver(path)
    assert before == (sorted(path.parent.iterdir()) if path.parent.is_dir() else None)
    return str(caught.value)


def test_a_new_file_is_its_owners_alone(folder: Path):
    SqliteDriver(folder / "tasks.db").close()
    assert (folder / "tasks.db").stat().st_mode & 0o777 == 0o600
    assert (folder / "tasks.db-tq").stat().st_mode & 0o777 == 0o700


def test_an_empty_file_becomes_a_database(folder: Path):
    (folder / "tasks.db").touch()
    SqliteDriver(folder / "tasks.db").close()


def test_a_directory_is_refused(folder: Path):
    (folder / "tasks").mkdir()
    assert "is a directory" in refusal(folder / "tasks")


def test_a_text_file_is_refused_and_not_overwritten(folder: Path):
    (folder / "notes.txt").write_text("these are notes, more than a hundred of them\n" * 100)
    before = (folder / "notes.txt").read_bytes()
    assert "not a SQLite database" in refusal(folder / "notes.txt")
    assert (folder / "notes.txt").read_bytes() == before


def test_a_missing_folder_is_refused(folder: Path):
    assert "does not exist" in refusal(folder / "missing" / "tasks.db")


def test_a_file_as_folder_is_refused(folder: Path):
    (folder / "file").touch()
    assert "file" in refusal(folder / "file" / "tasks.db")


def test_a_pipe_is_refused(folder: Path):
    os.mkfifo(folder / "pipe")
    assert "not a regular file" in refusal(folder / "pipe")


def test_a_name_that_is_too_long_is_refused(folder: Path):
    assert "too long" in refusal(folder / ("x" * 300)).lower()


def test_a_file_with_two_names_is_refused(folder: Path):
    SqliteDriver(folder / "tasks.db").close()
    os.link(folder / "tasks.db", folder / "other.db")
    assert "second name" in refusal(folder / "other.db")


def test_a_foreign_file_in_the_place_of_our_folder_is_refused(folder: Path):
    (folder / "tasks.db-tq").touch()
    with pytest.raises(StorageError, match=r"tasks\.db-tq"):
        SqliteDriver(folder / "tasks.db")


@pytest.fixture
def open_folder() -> Iterator[Path]:
    """A folder that every user may enter."""
    folder = Path(tempfile.mkdtemp())
    folder.chmod(0o755)
    yield folder
    folder.chmod(0o755)
    shutil.rmtree(folder)


def refusal_for_nobody(path: Path) -> str:
    def try_it() -> str:
        try:
            SqliteDriver(path)
        except TqError as error:
            return f"{type(error).__name__}: {error}"
        return "opened"

    sql.statements("sqlite"), sql.migrations("sqlite")  # nobody may be unable to read the checkout
    return as_nobody(try_it)


def test_a_read_only_file_is_refused(open_folder: Path):
    (open_folder / "tasks.db").touch()
    (open_folder / "tasks.db").chmod(0o444)
    assert refusal_for_nobody(open_folder / "tasks.db").startswith("DatabaseUnusable")


def test_a_read_only_folder_is_refused(open_folder: Path):
    (open_folder / "tasks.db").touch()
    (open_folder / "tasks.db").chmod(0o666)
    open_folder.chmod(0o555)
    assert "read-only" in refusal_for_nobody(open_folder / "tasks.db")


def test_a_file_that_may_not_be_created_is_refused(open_folder: Path):
    open_folder.chmod(0o555)
    assert "cannot create" in refusal_for_nobody(open_folder / "tasks.db")


def test_a_folder_that_may_not_be_entered_is_refused(open_folder: Path):
    (open_folder / "closed").mkdir(mode=0o700)
    assert refusal_for_nobody(open_folder / "closed" / "tasks.db").startswith("DatabaseUnusable")


# --- network file systems ------------------------------------------------------------------------------------------

MOUNTS = """\
21 1 254:0 / / rw,relatime - ext4 /dev/vda rw
30 21 0:30 / /home rw shared:1 - nfs4 server:/home rw,vers=4.2
31 30 0:31 / /home/local rw,relatime - xfs /dev/vdb rw
32 21 0:32 / /mnt/my\\040files rw - cifs //server/files rw
33 21 0:33 / /mnt/tab\\011and\\134slash rw - nfs server:/odd rw
34 21 0:34 / /over rw - ext4 /dev/vdc rw
35 34 0:35 / /over rw - fuse.sshfs me@server:/ rw
a line that makes no sense
"""


@pytest.mark.parametrize(
    ("path", "kind"),
    [
        ("/var/tasks.db", "ext4"),
        ("/home/ada/tasks.db", "nfs4"),
        ("/home/local/tasks.db", "xfs"),
        ("/homework/tasks.db", "ext4"),
        ("/mnt/my files/tasks.db", "cifs"),
        ("/mnt/tab\tand\\slash/tasks.db", "nfs"),
        ("/over/tasks.db", "fuse.sshfs"),
    ],
)
def test_the_file_system_is_that_of_the_innermost_and_latest_mount(path: str, kind: str):
    assert file_system_of(Path(path), MOUNTS) == kind


@pytest.mark.parametrize("path", ["/home/ada/tasks.db", "/mnt/my files/tasks.db", "/over/tasks.db"])
def test_a_network_file_system_is_refused(path: str):
    with pytest.raises(NetworkFileSystem, match="network file system"):
        refuse_network(Path(path), MOUNTS)


def test_a_link_to_a_network_file_system_is_refused(folder: Path):
    (folder / "far-away").mkdir()
    (folder / "link").symlink_to(folder / "far-away")
    mounts = f"1 0 0:1 / / rw - ext4 /dev/vda rw\n2 1 0:2 / {folder}/far-away rw - nfs server:/ rw\n"
    with pytest.raises(NetworkFileSystem):
        refuse_network(folder / "link" / "tasks.db", mounts)


def test_local_disks_and_unknown_mounts_are_fine():
    refuse_network(Path("/var/tasks.db"), MOUNTS)
    refuse_network(Path("/var/tasks.db"), "")
    assert file_system_of(Path("/var/tasks.db"), "") is None


def test_a_driver_asks_for_the_file_system(folder: Path, monkeypatch):
    mounts = folder / "mountinfo"
    mounts.write_text("1 0 0:1 / / rw - nfs server:/ rw\n")
    monkeypatch.setattr(sqlite_file, "_MOUNTS", mounts)
    with pytest.raises(NetworkFileSystem):
        SqliteDriver(folder / "tasks.db")
    assert not (folder / "tasks.db").exists()


# --- versions, connections, errors ---------------------------------------------------------------------------------


@pytest.mark.parametrize("version", [(3, 34, 1), (3, 7, 17), (2, 8)])
def test_an_old_sqlite_is_refused(version: tuple[int, ...]):
    with pytest.raises(UnsupportedSqlite, match=r"3\.35\.0 or newer"):
        check_sqlite_version(version)


@pytest.mark.parametrize("version", [(3, 35, 0), (3, 50, 4), (4, 0, 0)])
def test_a_newer_sqlite_will_do(version: tuple[int, ...]):
    check_sqlite_version(version)


def test_the_file_of_a_connection_is_found(folder: Path):
    connection = sqlite3.connect(folder / "app.db")
    connection.execute(f"ATTACH '{folder / 'other.db'}' AS other")
    assert file_of(connection) == folder / "app.db"
    connection.close()


@pytest.mark.parametrize("name", [":memory:", ""])
def test_a_connection_without_a_file_is_refused(name: str):
    connection = sqlite3.connect(name)
    with pytest.raises(DatabaseUnusable, match="in memory"):
        file_of(connection)
    connection.close()


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("database or disk is full", StorageFull),
        ("disk I/O error", StorageFull),
        ("database is locked", StorageBusy),
        ("database table is locked", StorageBusy),
        ("file is not a database", DatabaseUnusable),
        ("attempt to write a readonly database", DatabaseUnusable),
        ("database disk image is malformed", DatabaseUnusable),
        ("no such table: tasks", StorageError),
    ],
)
def test_every_error_of_sqlite_gets_a_name_that_says_what_to_do(text: str, kind: type[StorageError]):
    error = translate(sqlite3.OperationalError(text), Path("/data/tasks.db"))
    assert type(error) is kind
    assert "/data/tasks.db" in str(error)
