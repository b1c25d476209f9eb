"""Runs the command line as users do: as a process, in a pipe or in a terminal."""

from __future__ import annotations

import contextlib
import fcntl
import os
import pty
import re
import select
import struct
import subprocess
import sys
import termios
import time
from collections.abc import Callable, Mapping
from pathlib import Path

from typing_extensions import Self

PROGRAM = "import sys; from tq.cli import main; sys.exit(main())"
WITHOUT_RICH = "import sys; sys.modules['rich'] = None; from tq.cli import main; sys.exit(main())"
IN_ITS_TERMINAL = (
    "import fcntl, os, sys, termios; fcntl.ioctl(0, termios.TIOCSCTTY, 0); os.execv(sys.argv[1], sys.argv[1:])"
)
DEADLINE_SECONDS = 100


def command(*arguments: str, program: str = PROGRAM) -> list[str]:
    return [sys.executable, "-W", "error", "-c", program, *arguments]


def environment(folder: Path, changes: Mapping[str, str] | None = None) -> dict[str, str]:
    """The user's environment, with temporary files in a folder where a test can see them."""
    kept = {name: value for name, value in os.environ.items() if name not in ("NO_COLOR", "COLUMNS", "LINES", "TERM")}
    return {**kept, "TMPDIR": str(folder), "PYTHONPATH": os.pathsep.join(filter(None, sys.path)), **(changes or {})}


def tq(*arguments: str, folder: Path, program: str = PROGRAM, **changes: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command(*arguments, program=program),
        capture_output=True,
        text=True,
        encoding="utf-8",
        cwd=folder,
        env=environment(folder, changes),
        timeout=DEADLINE_SECONDS,
        check=False,
    )


def wait_until(reached: Callable[[], bool], what: str) -> None:
    give_up_at = time.monotonic() + DEADLINE_SECONDS
    while not reached():
        assert time.monotonic() < give_up_at, f"waited in vain for: {what}"
        time.sleep(0.02)


class Terminal:
    """A process in a terminal of its own, and what is to be read on it."""

    def __init__(
        self,
        *arguments: str,
        folder: Path,
        temporary: Path | None = None,
        columns: int = 80,
        rows: int = 40,
        program: str = PROGRAM,
    ) -> None:
        self._master, slave = pty.openpty()
        fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))
        keep_what_was_written(slave)
        self.output = ""
        self.process = subprocess.Popen(
            [sys.executable, "-c", IN_ITS_TERMINAL, *command(*arguments, program=program)],
            stdin=slave,
            stdout=slave,
            stderr=slave,
            cwd=folder,
            env=environment(temporary or folder, {"TERM": "xterm-256color"}),
            start_new_session=True,
        )
        os.close(slave)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
        os.close(self._master)

    def read_until(self, text: str | None) -> None:
        """Read until this text has been written; with None, until the process has ended."""
        give_up_at = time.monotonic() + DEADLINE_SECONDS
        while text is None or text not in self.output:
            assert time.monotonic() < give_up_at, f"waited in vain for {text!r} in {self.output!r}"
            if select.select([self._master], [], [], 0.2)[0]:
                try:
                    self.output += os.read(self._master, 65536).decode(errors="replace")
                except OSError:  # the other end is closed
                    assert text is None, f"it ended before it said {text!r}: {self.output!r}"
                    break

    def press_ctrl_c(self) -> None:
        os.write(self._master, b"\x03")

    def exit_code(self) -> int:
        return self.process.wait(timeout=DEADLINE_SECONDS)

    def lines(self) -> list[str]:
        return what_stays(self.output)


def keep_what_was_written(terminal: int) -> None:
    """On Ctrl-C the kernel throws away output that was written and not read yet: we want to see all that was written.

    Without this, 9 of 60 runs lost half a picture that the program had drawn completely; with it none of 60 (measured).
    """
    mode = termios.tcgetattr(terminal)
    mode[3] |= termios.NOFLSH
    termios.tcsetattr(terminal, termios.TCSANOW, mode)


ESCAPE = re.compile(r"\x1b\[(?P<numbers>[0-9;?]*)(?P<letter>[A-Za-z])|(?P<control>[\r\n])")


def what_stays(output: str) -> list[str]:
    """The lines on the screen after all that was drawn over: enough of a terminal for what our screens write."""
    lines, row, column, at = [""], 0, 0, 0
    for found in [*ESCAPE.finditer(output), None]:
        text = output[at : found.start() if found else len(output)]
        assert "\x1b" not in text, f"an unknown escape in {text!r}"
        lines[row] = lines[row][:column].ljust(column) + text + lines[row][column + len(text) :]
        column += len(text)
        if found is None:
            break
        at = found.end()
        match found["control"] or found["letter"]:
            case "\r":
                column = 0
            case "\n":
                row += 1
                lines += [""] * (row + 1 - len(lines))
            case "A":
                row -= int(found["numbers"] or 1)
                assert row >= 0, "drew above the top"
            case "J":
                lines[row:] = [lines[row][:column]]
            case "K":
                lines[row] = "" if found["numbers"] == "2" else lines[row][:column]
            case "m" | "h" | "l":  # colours; the cursor is shown or hidden
                pass
            case other:
                raise AssertionError(f"an unknown escape {other!r}")
    return [line.rstrip() for line in lines]


def workers_of(folder: Path) -> list[int]:
    """The demo's worker processes that live: each is told its folder, which lies in this one."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            arguments = (process / "cmdline").read_bytes().decode(errors="replace").split("\0")
            if len(arguments) > 3 and "tq.cli.demo.worker" in arguments[2] and arguments[3].startswith(str(folder)):
                found.append(int(process.name))
    return found
