"""Worker processes as the programs see them: start one, wait until it is ready, talk to it in lines, end it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from types import TracebackType

from typing_extensions import Self

ROOT = Path(__file__).parents[2]
_END_SECONDS = 30.0


class WorkerProcess:
    """Runs a module that says `ready`. It ends when its input does, and so never outlives the program."""

    def __init__(self, module: str, *options: str) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", f"tests.bench.{module}", *options],
            cwd=ROOT,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        self.hear()

    @property
    def pid(self) -> int:
        return self._process.pid

    def say(self, line: str = "go") -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(line + "\n")
        self._process.stdin.flush()

    def hear(self) -> str:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            raise RuntimeError(f"the worker process ended unexpectedly, with code {self._process.wait()}")
        return line.rstrip("\n")

    def running(self) -> bool:
        return self._process.poll() is None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            self._process.communicate(timeout=_END_SECONDS)  # closes its input
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.communicate()
