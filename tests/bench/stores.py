"""The databases that the programs run on: where a new one is, what its figures are called, how its reference works."""

from __future__ import annotations

import argparse
import sqlite3
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Protocol

from tests.bench.raw import Raw


class BenchStore(Protocol):
    modes: Mapping[str, str]  # how durable commits are, by the word that figures have for it; the first is the usual

    def named(self, what: str, *words: str) -> str:
        """The name of a figure."""

    def new_database(self) -> AbstractContextManager[str]:
        """The address of an empty database, which is gone after the block."""

    def raw(self, address: str, durability: str) -> Raw: ...

    def about(self) -> dict[str, str]:
        """What a reader of the figures should know of the database."""


class SqliteStore:
    modes: Mapping[str, str] = {"normal": "normal", "full": "full"}

    def named(self, what: str, *words: str) -> str:
        return "_".join([what, *words])

    @contextmanager
    def new_database(self) -> Iterator[str]:
        """In a folder of its own. $TMPDIR chooses the disk."""
        with tempfile.TemporaryDirectory(prefix="tq-bench-") as folder:
            yield str(Path(folder) / "tasks.db")

    def raw(self, address: str, durability: str) -> Raw:
        from tests.bench.raw_sqlite import RawSqlite

        return RawSqlite(address, durability)

    def about(self) -> dict[str, str]:
        return {"sqlite": sqlite3.sqlite_version}


class PostgresStore:
    """Needs psycopg, and a server: the one that TQ_TEST_POSTGRES_URL names, or one from pip."""

    modes: Mapping[str, str] = {"": "full"}

    def named(self, what: str, *words: str) -> str:
        return "_".join([what, "postgres", *filter(None, words)])

    def new_database(self) -> AbstractContextManager[str]:
        from tests import postgres

        return postgres.new_database()

    def raw(self, address: str, durability: str) -> Raw:
        from tests.bench.raw_postgres import RawPostgres

        return RawPostgres(address, durability)

    def about(self) -> dict[str, str]:
        """Among others whether a commit waits for the disk: without that, its cost is not in the figures."""
        from tests import postgres

        settings = ("server_version", "fsync", "synchronous_commit", "full_page_writes", "shared_buffers")
        shown = postgres.run_sql(
            "SELECT name, current_setting(name) FROM unnest(%s::text[]) AS name", (list(settings),)
        )
        return {f"postgres_{name}": value for name, value in shown}


STORES: Mapping[str, BenchStore] = {"sqlite": SqliteStore(), "postgres": PostgresStore()}


def usual_mode(store: BenchStore) -> str:
    return next(iter(store.modes.values()))


def store_of(address: str) -> BenchStore:
    return STORES["postgres" if address.startswith("postgresql://") else "sqlite"]


def add_store_option(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--store", choices=STORES, default="sqlite", help="the database that is measured (sqlite)")
