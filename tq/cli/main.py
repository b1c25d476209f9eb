"""The way in: finds the command, runs it, and turns what went wrong into one sentence and an exit code.

Nothing heavy is imported before it is needed, so that `tq --version` takes no longer than Python itself.
"""

from __future__ import annotations

import os
import sys

from tq import __version__
from tq.cli.exit_codes import INTERRUPTED, OK, PIPE_CLOSED, TROUBLE, USAGE

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence


def main(argv: Sequence[str] | None = None) -> int:
    arguments = list(sys.argv[1:] if argv is None else argv)
    debug = "--debug" in arguments
    try:
        _never_fail_on_a_character()
        code = _dispatch(arguments[1:] if arguments[:1] == ["--debug"] else arguments)
        _flush()
        return code
    except KeyboardInterrupt as error:
        _leave_the_line_of_ctrl_c()
        _say(str(error) or "stopped")
        return INTERRUPTED
    except BrokenPipeError:
        _close_quietly()
        return PIPE_CLOSED
    except Exception as error:
        if debug:
            raise
        _say(_sentence(error))
        _close_quietly()
        return TROUBLE


def _dispatch(arguments: list[str]) -> int:
    match arguments:
        case ["--version" | "-V"]:
            print("tq", __version__)
            return OK
        case [] | ["--help" | "-h" | "help"]:
            from tq.cli.help import overview

            print(overview())
            return OK
        case ["help", name]:
            return _run(name, ["--help"])
        case [name, *rest] if not name.startswith("-"):
            return _run(name, rest)
    _say(f"it has no option {arguments[0]!r} before a command; `tq --help` shows what there is")
    return USAGE


def _run(name: str, arguments: list[str]) -> int:
    from tq.cli.commands import find, suggest

    command = find(name)
    if command is None:
        _say(f"there is no command {name!r}; {suggest(name)}")
        return USAGE
    from tq.cli.parser import parser_of

    try:
        parsed = parser_of(command).parse_args(arguments)
    except SystemExit as done:  # argparse has shown its help, or said what it did not understand
        return int(done.code or OK)
    code: int = parsed.run(parsed)
    return code


# --- what went wrong ---------------------------------------------------------------------------------------------


def _say(sentence: str) -> None:
    from tq.cli.safe_text import printable

    try:
        print(f"tq: {printable(sentence)}", file=sys.stderr, flush=True)
    except (OSError, ValueError):  # nobody can hear it
        return


def _leave_the_line_of_ctrl_c() -> None:
    """The terminal has written ^C where the next sentence would begin."""
    if sys.stderr is not None and sys.stderr.isatty():
        print(file=sys.stderr)


def _sentence(error: Exception) -> str:
    from tq.errors import TqError

    if isinstance(error, TqError):
        return str(error)
    if isinstance(error, OSError) and error.strerror:
        where = f"{error.filename}: " if error.filename else ""
        return f"{where}{error.strerror}; put that right and try again"
    return f"unexpected {type(error).__name__}: {error}; run it again with --debug to see where, and please report it"


# --- the streams -------------------------------------------------------------------------------------------------


def _never_fail_on_a_character() -> None:
    """A terminal that cannot show a character gets its number, not a crash."""
    for stream in (sys.stdout, sys.stderr):
        if stream is not None and hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="backslashreplace")


def _flush() -> None:
    if sys.stdout is not None:
        sys.stdout.flush()


def _close_quietly() -> None:
    """Whoever read our output has gone, or the disk is full: Python must not try again, and complain, when it ends."""
    try:
        _flush()
    except OSError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
