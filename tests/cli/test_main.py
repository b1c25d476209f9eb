"""`tq` says what it does, and says in one sentence what it cannot do."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cli.commands import DEADLINE_SECONDS, PROGRAM, command, environment, tq
from tq import __version__
from tq.cli.commands import COMMANDS

BREAKS = """if True:
    import sys
    from tq.cli import commands, main
    from tq.errors import TqError
    def configure(parser):
        parser.set_defaults(run=run)
    def run(arguments):
        raise {error}
    commands.COMMANDS = (commands.Command("broken", "break", "__main__:configure"),)
    sys.exit(main())"""


@pytest.mark.parametrize("program", [["-m", "tq"], ["-c", PROGRAM]], ids=["python -m tq", "tq"])
def test_it_tells_its_version(program: list[str], folder: Path):
    said = subprocess.run(
        [sys.executable, *program, "--version"], cwd=folder, capture_output=True, text=True, timeout=100, check=True
    )
    assert said.stdout == f"tq {__version__}\n"


def test_the_version_is_told_without_loading_the_rest(folder: Path):
    program = "import sys; from tq.cli import main; main(); print('argparse' in sys.modules, 'tq.queue' in sys.modules)"
    assert tq("--version", folder=folder, program=program).stdout.endswith("False False\n")


@pytest.mark.parametrize("arguments", [[], ["--help"], ["-h"], ["help"]], ids=" ".join)
def test_the_help_names_every_command_and_the_exit_codes(arguments: list[str], folder: Path):
    done = tq(*arguments, folder=folder)
    assert done.returncode == 0
    assert all(command.name in done.stdout and command.summary in done.stdout for command in COMMANDS)
    assert "exit codes:" in done.stdout
    assert "130  it was stopped with Ctrl-C" in done.stdout


@pytest.mark.parametrize(
    "arguments", [[], *([command.name] for command in COMMANDS)], ids=lambda names: "-".join(names)
)
def test_each_help_fits_80_columns(arguments: list[str], folder: Path):
    done = tq(*arguments, "--help", folder=folder, COLUMNS="80")
    assert done.returncode == 0
    assert "exit codes:" in done.stdout
    assert [line for line in done.stdout.splitlines() if len(line) > 80] == []


@pytest.mark.parametrize("each", COMMANDS, ids=lambda command: command.name)
def test_each_command_is_explained(each, folder: Path):
    by_option = tq(each.name, "--help", folder=folder).stdout
    assert by_option.startswith(f"usage: tq {each.name}")
    assert each.summary[1:] in " ".join(by_option.split())
    assert tq("help", each.name, folder=folder).stdout == by_option


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["dmeo"], "tq: there is no command 'dmeo'; did you mean `tq demo`?"),
        (["DEMO"], "tq: there is no command 'DEMO'; did you mean `tq demo`?"),
        (["xyz"], "tq: there is no command 'xyz'; `tq --help` lists the commands"),
        (["\x1b[2Jx"], r"tq: there is no command '\x1b[2Jx'; `tq --help` lists the commands"),
        (["--nonsense"], "tq: it has no option '--nonsense' before a command; `tq --help` shows what there is"),
        (["demo", "--nonsense"], "tq demo: unrecognized arguments: --nonsense; see `tq demo --help`"),
        (["demo", "\x1b[2J"], r"tq demo: unrecognized arguments: \x1b[2J; see `tq demo --help`"),
    ],
    ids=["near", "case", "far", "escapes", "option", "option of a command", "escapes for a command"],
)
def test_what_is_not_understood_is_said_in_a_sentence(arguments: list[str], sentence: str, folder: Path):
    done = tq(*arguments, folder=folder)
    assert (done.returncode, done.stdout, done.stderr) == (2, "", f"{sentence}\n")


@pytest.mark.parametrize(
    ("error", "sentence"),
    [
        ("TqError('the file is \\x1b[31mred; paint it')", r"tq: the file is \x1b[31mred; paint it"),
        (
            "PermissionError(13, 'Permission denied', '/a/b')",
            "tq: /a/b: Permission denied; put that right and try again",
        ),
        ("ValueError('two\\nlines')", r"tq: unexpected ValueError: two\nlines; run it again with --debug"),
        ("ValueError('\\udcff')", r"tq: unexpected ValueError: \udcff; run it again with --debug"),
    ],
    ids=["ours", "of the system", "unexpected", "unprintable"],
)
def test_trouble_is_one_sentence_and_no_traceback(error: str, sentence: str, folder: Path):
    done = tq("broken", folder=folder, program=BREAKS.format(error=error))
    assert done.returncode == 1
    assert done.stderr.startswith(sentence)
    assert len(done.stderr.splitlines()) == 1


@pytest.mark.parametrize("arguments", [["--debug", "broken"], ["broken", "--debug"]], ids=" ".join)
def test_debug_shows_the_traceback(arguments: list[str], folder: Path):
    done = tq(*arguments, folder=folder, program=BREAKS.format(error="ValueError('x')"))
    assert done.returncode == 1
    assert "Traceback" in done.stderr


def test_an_interrupted_command_ends_with_130(folder: Path):
    done = tq("broken", folder=folder, program=BREAKS.format(error="KeyboardInterrupt"))
    assert (done.returncode, done.stderr) == (130, "tq: stopped\n")


def test_a_closed_pipe_is_no_news(folder: Path):
    reader, writer = os.pipe()
    os.close(reader)
    with os.fdopen(writer, "wb") as closed:
        done = subprocess.run(
            command("--help"),
            stdout=closed,
            stderr=subprocess.PIPE,
            cwd=folder,
            env=environment(folder),
            timeout=DEADLINE_SECONDS,
            check=False,
        )
    assert (done.returncode, done.stderr) == (141, b"")


def test_a_full_disk_is_said_in_a_sentence(folder: Path):
    with Path("/dev/full").open("wb") as full:
        done = subprocess.run(
            command("--help"),
            stdout=full,
            stderr=subprocess.PIPE,
            cwd=folder,
            env=environment(folder),
            timeout=DEADLINE_SECONDS,
            check=False,
        )
    assert (done.returncode, done.stderr) == (1, b"tq: No space left on device; put that right and try again\n")
