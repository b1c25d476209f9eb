"""Bad input: each kind is a named error that says what to do, and nothing is stored."""

from __future__ import annotations

import math
import os
import sqlite3
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from tests.programs import run
from tests.waiting import PATIENCE
from tq import TaskQueue, TqError
from tq.errors import (
    DatabaseUnusable,
    InvalidOption,
    NetworkFileSystem,
    PayloadError,
    SchemaTooNew,
    StorageBusy,
    StorageError,
)
from tq.storage import sqlite_file


def refusal(queue: TaskQueue, input_: Any, payload: Any = None) -> str:
    """How an input is refused, by every way there is to add one."""
    context = queue("email", payload) if payload else queue("email")
    messages = set()
    for add in (context.add, context.submit, lambda bad: context.add_many(["good", bad] if not payload else [bad])):
        with pytest.raises(PayloadError) as caught:
            add(input_)
        messages.add(str(caught.value))
    assert queue.stats()["byType"] == {}, "nothing was stored"
    assert isinstance(caught.value, TqError)
    [message] = messages
    return message


# --- payloads ----------------------------------------------------------------------------------------------------


def nested(depth: int) -> list[Any]:
    value: list[Any] = []
    for _ in range(depth):
        value = [value]
    return value


def circular() -> dict[str, Any]:
    value: dict[str, Any] = {}
    value["self"] = value
    return value


@pytest.mark.parametrize(
    ("input_", "phrase"),
    [
        (math.nan, "NaN and infinity have no place in it"),
        ({"a": [math.inf]}, "NaN and infinity have no place in it"),
        ({"a": -math.inf}, "NaN and infinity have no place in it"),
        ("a\0b", "holds a NUL character, which databases cannot keep; remove it"),
        ({"a\0b": 1}, "holds a NUL character"),
        ({"a": ["\0"]}, "holds a NUL character"),
        ("\ud800", "half a surrogate pair, which is not valid text"),
        ({"\udfff": 1}, "half a surrogate pair"),
        ({1: "a"}, "has the key 1, which is not text; JSON keys are strings"),
        ({None: "a"}, "has the key None"),
        ([{"a": {True: 1}}], "has the key True"),
        ({(1, 2): 1}, r"has the key (1, 2)"),
        (nested(5000), "nested deeper than 100 levels"),
        (circular(), "nested deeper than 100 levels"),
        ("x" * 2**21, "is 2,097,154 bytes of JSON, the limit is 1,048,576; store the data elsewhere"),
        (["日" * 400_000], "bytes of JSON, the limit is 1,048,576"),
        (object(), "is not JSON: Object of type object is not JSON serializable; use dict, list, str"),
        ({1, 2}, "Object of type set"),
        (b"bytes", "Object of type bytes"),
        (datetime(2025, 1, 1), "Object of type datetime"),
        ({"price": Decimal("1.5")}, "Object of type Decimal"),
        (Path("a"), "Object of type PosixPath"),
        (10**5000, "is not JSON"),
        (range(3), "Object of type range"),
    ],
    ids=[
        "NaN", "infinity", "minus infinity", "NUL", "NUL in a key", "NUL inside", "lone surrogate",
        "surrogate in a key", "number as key", "None as key", "bool as key", "tuple as key", "5000 deep", "circular",
        "2 MiB", "too many bytes", "object", "set", "bytes", "datetime", "Decimal", "Path", "5000 digits", "range",
    ],
)  # fmt: skip
def test_what_is_not_json_is_refused(queue: TaskQueue, input_: Any, phrase: str):
    assert phrase in refusal(queue, input_)


@pytest.mark.parametrize(
    "input_",
    [
        nested(90),
        "x" * (2**20 - 2),
        "\\u0000 as text",
        "\x01\x1f\x7f\u2028",
        "😀",
        -0.0,
        5e-324,
        2**100,
        {"": ""},
        [[], {}, None, True],
    ],
    ids=["90 deep", "1 MiB", "escaped NUL", "control", "emoji", "-0.0", "tiny", "2**100", "empty key", "mixed"],
)
def test_what_is_json_comes_back_as_it_went_in(queue: TaskQueue, input_: Any):
    handle = queue("echo").submit(input_)
    assert handle.task().input == input_
    assert queue("echo").set_worker(lambda value: value == input_).submit(input_).result(PATIENCE) is True


@dataclass
class Email:
    to: str
    tries: int = 0


@pytest.mark.parametrize(
    ("input_", "phrase"),
    [
        ({"to": 7}, "does not fit Email: to: expected str, got int"),
        ({}, "missing field 'to'"),
        ({"to": "a", "cc": "b"}, "unknown field 'cc'"),
        ("a@example.com", "expected Email or a dict, got str"),
        ({"to": "a", "tries": True}, "tries: expected int, got bool"),
        ({"to": "a\0b"}, "holds a NUL character"),
    ],
    ids=["type", "missing", "unknown", "text", "bool", "NUL"],
)
def test_a_payload_of_the_wrong_type_is_refused(queue: TaskQueue, input_: Any, phrase: str):
    assert phrase in refusal(queue, input_, Email)


def test_a_payload_that_does_not_fit_what_the_worker_expects_fails_once(queue: TaskQueue):
    """A producer without the type may store what the handler cannot take; trying again cannot help."""
    queue("email", Email).set_worker(lambda email: email.to)
    handle = queue("email").submit({"wrong": "field"})
    assert handle.wait(PATIENCE)
    assert "missing field 'to', unknown field 'wrong'" in str(handle.task().error)
    assert handle.task().attempts == 1


def test_the_two_calls_that_everybody_tries(queue: TaskQueue):
    with pytest.raises(InvalidOption, match="set_worker_count=0: give a whole number from 1 up"):
        queue("email").set_worker_count(0)
    with pytest.raises(InvalidOption, match="set_rate_limit=-1: give a finite number above 0"):
        queue("email").set_rate_limit(-1)


# --- files -------------------------------------------------------------------------------------------------------


def refused_file(path: Path | str, error: type[TqError] = DatabaseUnusable) -> str:
    with pytest.raises(error) as caught:
        TaskQueue().init(path)
    return str(caught.value)


def test_a_directory_is_refused(folder: Path):
    assert refused_file(folder) == f"{folder} is a directory; give the path of a file in it, such as {folder}/tasks.db"
    assert list(folder.iterdir()) == []


def test_a_text_file_is_refused_and_left_as_it_was(folder: Path):
    path = folder / "notes.txt"
    path.write_text("Dear diary, " * 1000)
    assert "is not a SQLite database; give another path, tq does not overwrite files" in refused_file(path)
    assert path.read_text() == "Dear diary, " * 1000


def test_a_short_text_file_is_refused_and_left_as_it_was(folder: Path):
    path = folder / "notes.txt"
    path.write_text("hi")
    assert "is not a SQLite database" in refused_file(path)
    assert path.read_text() == "hi"


def test_an_empty_file_is_fine(folder: Path):
    (folder / "tasks.db").touch()
    queue = TaskQueue().init(folder / "tasks.db")
    queue("email").add({})
    queue.stop()


def test_a_database_of_another_program_is_shared(folder: Path):
    connection = sqlite3.connect(folder / "app.db", isolation_level=None)
    connection.execute("CREATE TABLE orders (number INTEGER)")
    queue = TaskQueue().init(folder / "app.db")
    queue("email").add({})
    queue.stop()
    assert connection.execute("SELECT count(*) FROM orders").fetchall() == [(0,)]
    connection.close()


def test_a_damaged_file_is_refused(folder: Path):
    path = folder / "tasks.db"
    queue = TaskQueue().init(path)
    queue("email").add_many(["x" * 500] * 200)
    queue.stop()
    content = path.read_bytes()
    path.write_bytes(content[:100] + b"\xff" * (len(content) - 100))
    message = refused_file(path)
    assert "is damaged" in message and "restore it from a backup" in message


def test_a_newer_schema_is_refused_and_left_as_it_was(folder: Path):
    path = folder / "tasks.db"
    TaskQueue().init(path).stop()
    connection = sqlite3.connect(path, isolation_level=None)
    connection.execute("UPDATE tq_schema SET version = 999")
    message = refused_file(path, SchemaTooNew)
    assert "has schema version 999, made by a newer tq" in message and "upgrade tq-tasks" in message
    assert connection.execute("SELECT version FROM tq_schema").fetchall() == [(999,)]
    connection.close()


def test_a_pipe_and_a_device_are_refused(folder: Path):
    os.mkfifo(folder / "pipe")
    for path in (folder / "pipe", Path("/dev/null")):
        assert "is not a regular file; give the path of a file that may be created" in refused_file(path)


def test_a_folder_that_is_not_there_is_named(folder: Path):
    assert "does not exist; create it, or give another path" in refused_file(folder / "missing" / "tasks.db")
    assert list(folder.iterdir()) == []


def test_a_file_as_folder_is_refused(folder: Path):
    (folder / "file").touch()
    assert "Not a directory" in refused_file(folder / "file" / "tasks.db")


@pytest.mark.parametrize("length", [300, 255, 253])
def test_a_name_that_is_too_long_is_refused_and_nothing_is_left(folder: Path, length: int):
    """SQLite and tq add endings to the name: a name that just fits is too long as well."""
    assert "name is too long" in refused_file(folder / ("x" * length))
    assert list(folder.iterdir()) == []


def test_a_nul_in_the_path_is_refused(folder: Path):
    with pytest.raises(TqError, match="null"):
        TaskQueue().init(f"{folder}/a\0b")


def test_a_file_where_the_lock_folder_should_be_is_named(folder: Path):
    (folder / "tasks.db-tq").touch()
    message = refused_file(folder / "tasks.db", StorageError)
    assert "tasks.db-tq" in message and "File exists; " in message


@pytest.mark.parametrize(
    "name",
    ["with space", "ünïcödé 日本", "100%", "100%25", "what?", "a?mode=ro", "#1", "a&b;c", "-x", "x" * 240],
    ids=["space", "unicode", "percent", "escape", "question", "query", "hash", "shell", "dash", "240"],
)
def test_odd_names_are_names(folder: Path, name: str):
    for database in (folder / name, f"sqlite:///{folder}/{name}"):
        queue = TaskQueue().init(database)
        queue("double").set_worker(lambda number: 2 * number)
        assert queue("double").submit(4).result(PATIENCE) == 8
        queue.stop()
    assert (folder / name).is_file()
    assert {path.name.removeprefix(name) for path in folder.iterdir()} <= {"", "-tq", "-wal", "-shm"}


def test_a_long_path_of_short_names_works(folder: Path):
    deep = folder.joinpath(*["folder" * 8] * 4)
    deep.mkdir(parents=True)
    queue = TaskQueue().init(deep / "tasks.db")
    assert len(str(deep)) > 200
    assert queue("double").set_worker(lambda number: 2 * number).submit(4).result(PATIENCE) == 8
    queue.stop()


MOUNTS = """\
22 1 8:1 / / rw,relatime shared:1 - ext4 /dev/sda1 rw
40 22 0:40 / {share} rw,relatime shared:2 - {kind} server:/export rw
41 40 8:2 / {share}/local rw,relatime shared:3 - ext4 /dev/sdb1 rw
"""


@pytest.mark.parametrize("kind", ["nfs4", "cifs", "fuse.sshfs", "9p"])
def test_a_network_file_system_is_refused(folder: Path, monkeypatch: pytest.MonkeyPatch, kind: str):
    share = folder / "with space"
    (share / "local").mkdir(parents=True)
    monkeypatch.setattr(
        sqlite_file, "_mounts", lambda: MOUNTS.format(share=str(share).replace(" ", "\\040"), kind=kind)
    )
    message = refused_file(share / "tasks.db", NetworkFileSystem)
    assert f"network file system ({kind}), where SQLite loses data; put the file on a local disk" in message
    assert not (share / "tasks.db").exists()
    TaskQueue().init(share / "local" / "tasks.db").stop()


def test_a_link_into_a_network_file_system_is_refused(folder: Path, monkeypatch: pytest.MonkeyPatch):
    (folder / "share").mkdir()
    (folder / "tasks.db").symlink_to(folder / "share" / "tasks.db")
    monkeypatch.setattr(sqlite_file, "_mounts", lambda: MOUNTS.format(share=folder / "share", kind="nfs4"))
    refused_file(folder / "tasks.db", NetworkFileSystem)


def test_a_link_is_followed(folder: Path):
    (folder / "link.db").symlink_to(folder / "tasks.db")
    queue = TaskQueue().init(folder / "link.db")
    queue("email").add({})
    queue.stop()
    assert (folder / "tasks.db").is_file()


def test_a_database_that_another_program_keeps_locked_is_named(folder: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(sqlite_file, "_BUSY_SECONDS", 0.05)
    monkeypatch.setattr("tq.storage.sqlite._PATIENCE_SECONDS", 0.1)
    queue = TaskQueue().init(folder / "tasks.db")
    other = sqlite3.connect(folder / "tasks.db", isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    with pytest.raises(StorageBusy, match=r"another program keeps .* locked; end its transaction"):
        queue("email").add({})
    other.execute("ROLLBACK")
    other.close()
    queue("email").add({})
    assert queue.stats()["to-do"] == 1
    queue.stop()


# --- permissions: root may write everywhere, so the program gives that up first -----------------------------------

OPENS_WITHOUT_PRIVILEGES = """
    import ctypes, sys
    from tq import TaskQueue, TqError

    header, nothing = (ctypes.c_uint32 * 2)(0x20080522, 0), (ctypes.c_uint32 * 6)()
    assert ctypes.CDLL(None).capset(header, nothing) == 0
    try:
        TaskQueue().init(sys.argv[1])
    except TqError as error:
        print(type(error).__name__, error)
"""


@pytest.fixture
def closed(folder: Path) -> Iterator[Path]:
    """A folder in which a test may take permissions away."""
    (folder / "closed").mkdir()
    yield folder / "closed"
    (folder / "closed").chmod(0o755)


def refused_without_privileges(path: Path) -> str:
    return run(path.parent.parent, OPENS_WITHOUT_PRIVILEGES, str(path))


@pytest.mark.parametrize("mode", [0o444, 0o000], ids=oct)
def test_a_file_that_may_not_be_written_or_read_is_refused(closed: Path, mode: int):
    path = closed / "tasks.db"
    TaskQueue().init(path).stop()
    path.chmod(mode)
    assert refused_without_privileges(path) == (
        f"DatabaseUnusable {path} is read-only for this user; make it writable, or give another path\n"
    )


def test_a_read_only_folder_is_refused(closed: Path):
    closed.chmod(0o555)
    path = closed / "tasks.db"
    assert refused_without_privileges(path) == (
        f"DatabaseUnusable cannot create {path}: Permission denied; give a path that you may write to\n"
    )


def test_a_writable_file_in_a_read_only_folder_is_refused(closed: Path):
    (closed / "tasks.db").touch()
    closed.chmod(0o555)
    assert refused_without_privileges(closed / "tasks.db") == (
        f"DatabaseUnusable the folder {closed} is read-only, and SQLite keeps its log there; use another one\n"
    )


def test_a_folder_that_may_not_be_entered_is_refused(closed: Path):
    (closed / "tasks.db").touch()
    closed.chmod(0o000)
    assert "Permission denied" in refused_without_privileges(closed / "tasks.db")


def test_a_lock_folder_that_may_not_be_entered_is_refused(closed: Path):
    TaskQueue().init(closed / "tasks.db").stop()
    (closed / "tasks.db-tq").chmod(0o000)
    printed = refused_without_privileges(closed / "tasks.db")
    assert "tasks.db-tq" in printed and "Permission denied; " in printed
    (closed / "tasks.db-tq").chmod(0o700)
