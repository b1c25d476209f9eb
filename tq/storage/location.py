"""Where a queue lives: what may be given to `init`, what each refusal says, and which driver opens it."""

from __future__ import annotations

import os
import sqlite3
from pathlib import Path
from typing import Any, NamedTuple

from tq.errors import InvalidOption, MissingExtra
from tq.storage import address
from tq.storage.driver import Driver
from tq.storage.following import FollowingDriver
from tq.storage.store import Store

DEFAULT_DATABASE = "tq.db"
_POSTGRES = ("postgresql://", "postgres://")


class Location(NamedTuple):
    """A database, by its path or address, and the options that only PostgreSQL has."""

    address: str
    durability: str
    options: tuple[tuple[str, Any], ...] = ()

    @property
    def is_postgres(self) -> bool:
        return self.address.startswith(_POSTGRES)

    @property
    def shown(self) -> str:
        """As messages and logs may show it: without a password."""
        return address.shown(self.address) if self.is_postgres else self.address

    def opened(self) -> Store:
        if self.is_postgres:
            return Store(self._open_postgres(self.address, **dict(self.options)))
        from tq.storage.sqlite import SqliteDriver  # opened late: importing tq loads no database

        path = Path(self.address)
        return Store(FollowingDriver(lambda: SqliteDriver(path, self.durability), self._open_postgres))

    def _open_postgres(self, url: str, **options: Any) -> Driver:
        driver: Driver = postgres().PostgresDriver(url, self.durability, **options)
        return driver


def locate(database: str | os.PathLike[str] | sqlite3.Connection | None, durability: str, **options: Any) -> Location:
    """Check what was given; `options` that are None were not."""
    given = tuple((name, value) for name, value in options.items() if value is not None)
    location = Location(_address_of(database), durability, given)
    if given and not location.is_postgres:
        name = given[0][0].removesuffix("_seconds")
        raise InvalidOption(f"{name}= is for PostgreSQL; a SQLite file has no such thing")
    return location


def _address_of(database: str | os.PathLike[str] | sqlite3.Connection | None) -> str:
    if isinstance(database, sqlite3.Connection):
        from tq.storage import sqlite_file

        return str(sqlite_file.file_of(database))
    if database is None:
        database = os.environ.get("TQ_DATABASE_URL") or DEFAULT_DATABASE
    text = os.fspath(database) if isinstance(database, os.PathLike) else database
    if not isinstance(text, str):
        raise InvalidOption(
            f"init({database!r}): give a path, sqlite:///path, postgresql://…, or an open sqlite3 connection"
        )
    if "\0" in text:
        raise InvalidOption(f"init({text!r}): a path cannot hold a null character")
    if text.startswith(_POSTGRES):
        return text
    if text.startswith("sqlite:///"):
        text = text[len("sqlite:///") :]
    elif "://" in text:
        raise InvalidOption(
            f"cannot open {text.partition('://')[0]}:// databases; give a path, sqlite:///path or postgresql://…"
        )
    if text in ("", ":memory:"):
        raise InvalidOption("a queue needs a file that its workers can share; give a path, such as tasks.db")
    return str(Path(text).expanduser())


def postgres() -> Any:
    """The module of the PostgreSQL driver, or an error that says what to install."""
    try:
        from tq.storage import postgres as driver
    except ImportError as error:
        raise MissingExtra(
            f"PostgreSQL needs a package that is not installed ({error.name}): pip install 'tq-tasks[postgres]'"
        ) from error
    return driver
