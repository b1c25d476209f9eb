"""What `tq` and `tq --help` print."""

from __future__ import annotations

from tq.cli.commands import COMMANDS
from tq.cli.exit_codes import EXPLAINED

_OPTIONS = (
    ("--help", "show this, or with a command: show what it does"),
    ("--version", "show the version"),
    ("--debug", "when something goes wrong, show the whole traceback"),
)


def overview() -> str:
    commands = [(command.name, command.summary) for command in COMMANDS]
    return "\n\n".join(
        [
            "tq turns a file into a task queue.",
            "usage: tq [--help] [--version] [--debug] <command> ...",
            _section("commands", commands),
            _section("options", _OPTIONS),
            EXPLAINED,
            "`tq <command> --help` explains a command. New here? Start with `tq demo`.",
        ]
    )


def _section(title: str, rows: list[tuple[str, str]] | tuple[tuple[str, str], ...]) -> str:
    width = max(len(name) for name, _ in rows)
    return "\n".join([f"{title}:", *(f"  {name:<{width}}  {text}" for name, text in rows)])
