"""Users' programs, each in a process of its own, on the queue in its folder."""

from __future__ import annotations

import subprocess
import sys
import textwrap
from pathlib import Path
from types import TracebackType

from typing_extensions import Self

PATIENCE = 90.0


class Program:
    """A Python program that runs in a folder; leaving the `with` block ends it."""

    def __init__(self, folder: Path, source: str, *arguments: str) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-W", "error", "-c", textwrap.dedent(source), *arguments],
            cwd=folder,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._process.kill()
        self._process.communicate()

    @property
    def pid(self) -> int:
        return self._process.pid

    def line(self) -> str:
        """The next line that the program prints."""
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        assert line, f"the program ended without a word: {self._process.communicate()[1]}"
        return line.rstrip("\n")

    def say(self, line: str) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(line + "\n")
        self._process.stdin.flush()

    def signal(self, number: int) -> None:
        self._process.send_signal(number)

    def ends(self, code: int = 0) -> tuple[str, str]:
        """Wait until it has ended; what it printed, and what it complained about."""
        out, err = self._process.communicate(timeout=PATIENCE)
        assert self._process.returncode == code, f"exit code {self._process.returncode}:\n{out}{err}"
        return out, err


def run(folder: Path, source: str, *arguments: str, code: int = 0) -> str:
    """Run a program to its end; what it printed."""
    with Program(folder, source, *arguments) as program:
        return program.ends(code)[0]
