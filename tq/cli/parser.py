"""The argument parser of one command: it complains in one sentence, and its help ends with the exit codes."""

from __future__ import annotations

import sys
from argparse import ArgumentParser, RawDescriptionHelpFormatter
from typing import NoReturn

from tq.cli.commands import Command
from tq.cli.exit_codes import EXPLAINED, USAGE
from tq.cli.safe_text import printable


class CommandParser(ArgumentParser):
    def error(self, message: str) -> NoReturn:
        print(f"{self.prog}: {printable(message)}; see `{self.prog} --help`", file=sys.stderr)
        sys.exit(USAGE)


def parser_of(command: Command) -> CommandParser:
    parser = CommandParser(
        prog=f"tq {command.name}",
        description=f"{command.summary[0].upper()}{command.summary[1:]}.",
        epilog=EXPLAINED,
        formatter_class=RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    parser.add_argument("--debug", action="store_true", help="when something goes wrong, show the whole traceback")
    command.configure(parser)
    return parser
