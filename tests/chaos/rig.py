"""Starts the programs of this folder as processes of their own, kills them, and waits for what becomes of it."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.chaos.databases import Database, address
from tests.chaos.history import History
from tq import TaskQueue

ROOT = Path(__file__).parents[2]
PATIENCE = 60.0  # what a busy machine may take for anything at all


def wait_until(condition: Callable[[], object], what: str, seconds: float = PATIENCE) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > deadline:
            raise AssertionError(f"waited {seconds:g} s in vain: {what}")
        time.sleep(0.01)


class Program:
    """A running program. What it says on standard error is kept; `kill` remembers when it died."""

    def __init__(self, rig: Rig, name: str, arguments: tuple[object, ...]) -> None:
        self.name = name
        self.errors = rig.folder / f"{name}-{len(rig.programs)}.err"
        where, options = address(rig.database)
        with self.errors.open("wb") as errors:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "tests.chaos.programs", name, where, json.dumps(options), str(rig.folder)]
                + [str(argument) for argument in arguments],
                cwd=ROOT,
                stderr=errors,
                stdin=subprocess.DEVNULL,
                start_new_session=True,  # so that its children can be ended with it, whatever a test has come to
            )
        self.pid = self._process.pid
        self.killed_at: float | None = None

    @property
    def exit_code(self) -> int | None:
        return self._process.poll()

    def send(self, number: signal.Signals) -> None:
        os.kill(self.pid, number)

    def kill(self) -> None:
        self.killed_at = time.monotonic()
        self._process.kill()

    def wait(self, seconds: float = PATIENCE) -> int:
        return self._process.wait(seconds)

    def complaints(self) -> str:
        return self.errors.read_text()


class Rig:
    def __init__(self, folder: Path, database: Database) -> None:
        self.folder = folder
        self.database = database
        self.history = History(folder / "history")
        self.programs: list[Program] = []

    def queue(self, **options: Any) -> TaskQueue:
        """A queue on the database, in the process of the test."""
        where, needed = address(self.database)
        return TaskQueue().init(where, **{"durability": "normal", **needed, **options})

    def start(self, name: str, *arguments: object) -> Program:
        program = Program(self, name, arguments)
        self.programs.append(program)
        return program

    def start_ready(self, name: str, *arguments: object) -> Program:
        """Start a program that writes `ready` into the history, and wait for that."""
        program = self.start(name, *arguments)
        self._await_ready(program)
        assert program.exit_code is None, program.complaints()
        return program

    def _await_ready(self, program: Program) -> None:
        wait_until(lambda: self.said(program, "ready") or program.exit_code is not None, "the program is ready")

    def said(self, program: Program, what: str) -> bool:
        return any(event.pid == program.pid for event in self.history.events(what))

    def finish(self, name: str, *arguments: object) -> Program:
        """Run a program to its end, which must be a good one."""
        program = self.start(name, *arguments)
        assert program.wait() == 0, program.complaints()
        return program

    def allow(self, gate: str) -> None:
        """Open a gate that handlers wait at."""
        (self.folder / gate).touch()

    def kills(self) -> dict[int, float]:
        return {program.pid: program.killed_at for program in self.programs if program.killed_at is not None}

    def stop_all(self) -> None:
        """Ask all programs to stop, and expect that they do so without a word of trouble."""
        living = [program for program in self.programs if program.exit_code is None]
        for program in living:
            self._await_ready(program)
            program.send(signal.SIGTERM)
        for program in living:
            assert program.wait() == 0, program.complaints()

    def complaints(self) -> str:
        """All that went wrong in any process: tracebacks, and whatever is logged as an error."""
        texts = (program.complaints() for program in self.programs)
        return "\n".join(text for text in texts if "Traceback" in text or "ERROR" in text)

    def close(self) -> None:
        for program in self.programs:
            if program.exit_code is None:
                program.send(signal.SIGCONT)
                program.kill()
                program.wait()
            with contextlib.suppress(ProcessLookupError):
                os.killpg(program.pid, signal.SIGKILL)
        self.history.close()
