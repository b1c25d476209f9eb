"""The page on the command line has every command, every argument and every exit code of the parsers."""

from __future__ import annotations

from argparse import ArgumentParser, _SubParsersAction
from collections.abc import Iterator

import pytest

from tests.docs.pages import ROOT, read, reference_table
from tq.cli import exit_codes, help
from tq.cli.commands import COMMANDS
from tq.cli.parser import parser_of

OF_EVERY_COMMAND = {"--help", "--debug"}


def commands(parser: ArgumentParser) -> Iterator[ArgumentParser]:
    """The parsers of the commands that do something: not of those that only have others below them."""
    below = [action for action in parser._actions if isinstance(action, _SubParsersAction)]
    for action in below:
        for each in action.choices.values():
            yield from commands(each)
    if not below:
        yield parser


def arguments(parser: ArgumentParser) -> list[str]:
    names = [action.option_strings[-1] if action.option_strings else action.dest for action in parser._actions]
    return [name for name in names if name not in OF_EVERY_COMMAND]


PARSERS = [parser for command in COMMANDS for parser in commands(parser_of(command))]


def test_every_command_is_in_the_table_and_has_a_section():
    names = [parser.prog for parser in PARSERS]
    assert [row[0].partition("`")[2].partition("`")[0] for row in reference_table("command").rows] == names
    headings = [heading.code for heading in read(ROOT / "docs/reference/command-line.md").headings() if heading.code]
    assert headings == names


@pytest.mark.parametrize("parser", PARSERS, ids=lambda parser: parser.prog)
def test_every_argument_of_a_command_is_in_its_table(parser: ArgumentParser):
    expected = arguments(parser)
    documented = reference_table(f"argument of `{parser.prog}`").names() if expected else []
    assert sorted(documented) == sorted(expected)


def test_every_option_before_a_command_is_in_the_table():
    assert reference_table("option of `tq`").names() == [name for name, _ in help._OPTIONS]


def test_every_exit_code_is_in_the_table():
    codes = [value for value in vars(exit_codes).values() if isinstance(value, int)]
    assert reference_table("exit code").names() == [str(code) for code in codes]
