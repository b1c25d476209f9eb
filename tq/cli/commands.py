"""The table of commands. A new command is a row here and a function in the file of its group.

The row is all that is read until the command is used: its file is imported then, and not before.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from argparse import ArgumentParser


class Command(NamedTuple):
    name: str
    summary: str  # one line of help, as in "show tasks"
    place: str  # module:function; the function adds the arguments, and says with set_defaults(run=…) what to run

    def configure(self, parser: ArgumentParser) -> None:
        module, _, function = self.place.partition(":")
        configure: Callable[[ArgumentParser], None] = getattr(import_module(module), function)
        configure(parser)


COMMANDS = (
    Command("demo", "watch a queue at work, and see that a kill -9 loses nothing", "tq.cli.demo:configure"),
    Command("web", "serve the REST API of a queue: see it and steer it over HTTP", "tq.cli.web:configure"),
    Command("move", "take a queue from a SQLite file to PostgreSQL while it works", "tq.cli.move:configure"),
    Command("db", "see to the database: print the statements that make its tables", "tq.cli.database:configure"),
)


def find(name: str) -> Command | None:
    return next((command for command in COMMANDS if command.name == name), None)


def suggest(name: str) -> str:
    """What to try instead of a command that does not exist."""
    from difflib import get_close_matches

    close = get_close_matches(name.lower(), [command.name for command in COMMANDS], n=1, cutoff=0.5)
    return f"did you mean `tq {close[0]}`?" if close else "`tq --help` lists the commands"
