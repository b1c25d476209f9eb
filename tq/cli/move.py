"""`tq move`: takes a queue from a SQLite file to PostgreSQL while programs work on it."""

from __future__ import annotations

import sys
import time
from argparse import ArgumentParser, Namespace
from collections.abc import Sequence
from pathlib import Path

from tq.cli.exit_codes import OK
from tq.errors import InvalidOption, StorageError, TqError

_EXPLAINED = """
Programs go on working while tasks are copied. At the end the queue stands
still for a moment, both sides are compared, and programs that still point at
the file follow to the new address by themselves.

It may be killed at any time: run the same command again, and it goes on. The
address, with its password if it has one, is kept in the old file, so that
programs can follow; leave it to PGPASSWORD or ~/.pgpass if you mind.

  tq move tasks.db postgresql://me@db.example.com/app"""

_LINES = {
    "copy": "copying tasks, with their history, while the queue works",
    "catch up": "following what changed meanwhile",
    "hold": "holding new starts for a moment",
    "fence": "closing the old file",
    "verify": "comparing counts and checksums of both sides",
    "open": "opening the queue in its new place",
    "finish": "telling the programs",
}


def configure(parser: ArgumentParser) -> None:
    parser.description = f"{parser.description}\n{_EXPLAINED}"
    parser.add_argument("source", help="the SQLite file, or sqlite:///path")
    parser.add_argument("target", help="postgresql://user@host/database")
    parser.add_argument("--schema", default="tq", help="the schema that will hold the queue (default: tq)")
    parser.add_argument("--cancel", action="store_true", help="forget a move that was interrupted; the queue stays")
    parser.set_defaults(run=run)


def run(arguments: Namespace) -> int:
    from tq.ids import IdFactory
    from tq.storage.location import postgres

    source, target = _addresses(arguments.source, arguments.target)
    postgres()  # or it says what to install
    from tq.storage.move import Move

    progress = _Progress()
    move = Move(source, target, arguments.schema, IdFactory().new, progress.tell)
    if arguments.cancel:
        move.cancel()
        print(f"The move is forgotten; the queue stays in {source}.")
        return OK
    try:
        groups = move.run()
    except KeyboardInterrupt:
        rest = "; run it again to go on, or with --cancel to forget it" if move.begun else ""
        raise KeyboardInterrupt(f"stopped{rest}") from None
    except StorageError as error:
        if not move.begun:
            raise
        raise TqError(f"{error}; the move can go on: run it again, or with --cancel to forget it") from error
    progress.end()
    _tell_the_end(arguments, groups)
    return OK


def _addresses(source: str, target: str) -> tuple[Path, str]:
    from tq.storage.location import locate

    if not target.startswith(("postgresql://", "postgres://")) or source.startswith(("postgresql://", "postgres://")):
        raise InvalidOption("tq move goes from a SQLite file to PostgreSQL: tq move tasks.db postgresql://…")
    old, new = locate(source, "full"), locate(target, "full")
    return Path(old.address), new.address


def _tell_the_end(arguments: Namespace, groups: Sequence[tuple[str, str, int, str]]) -> None:
    from tq.cli.safe_text import printable
    from tq.storage.address import shown

    tasks = [group for group in groups if group[0] != "(attempts)"]
    if groups:
        print(f"{sum(size for _, _, size, _ in tasks):,} tasks agree on both sides, in count and checksum:")
    for name, status, size, checksum in groups:
        print(f"  {printable(name):<24} {status:<12} {size:>10,}  {int(checksum) % 16**8:08x}")
    print(f"The queue lives in {shown(arguments.target)}, schema {arguments.schema}.")
    print(f"Programs that point at {arguments.source} follow by themselves; give them the new address when you can.")


class _Progress:
    """One line for each step; in a terminal the last one moves."""

    def __init__(self) -> None:
        self._step = ""
        self._drawn_at = 0.0
        self._live = sys.stdout.isatty()

    def tell(self, step: str, done: int, of: int) -> None:
        if step not in _LINES:
            return
        if step != self._step:
            self.end()
            self._step = step
        elif not self._live or time.monotonic() < self._drawn_at + 0.1:
            return
        self._drawn_at = time.monotonic()
        amount = f" {done:,} of {of:,}" if step == "copy" else f" {done:,}" if step == "catch up" else ""
        print(f"\r{_LINES[step]}{amount}" if self._live else _LINES[step], end="" if self._live else "\n", flush=True)

    def end(self) -> None:
        if self._live and self._step:
            print(flush=True)
