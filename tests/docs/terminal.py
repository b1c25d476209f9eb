"""The terminal of a page: `tq` commands that end, `tq web … &` that goes on until the page is through, and `curl`."""

from __future__ import annotations

import os
import re
import shlex
import signal
import subprocess
from pathlib import Path

from tests.cli import commands

_ENDS_IN_THE_BACKGROUND = re.compile(r"\s*&\s*$")
_PLACE = re.compile(r"127\.0\.0\.1:\d+")
_STOP_SECONDS = 60


class Terminal:
    """What a reader has typed, in one folder. A server gets a free port; the page goes on to say its own."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._servers: list[subprocess.Popen[str]] = []
        self._places: dict[str, str] = {}  # the real ones, by those on the page

    def type(self, line: str) -> str:
        """What is printed when this is typed."""
        if _ENDS_IN_THE_BACKGROUND.search(line):
            return self._start(_ENDS_IN_THE_BACKGROUND.sub("", line))
        line = self._real(line)
        if line.startswith("curl "):
            return self._shell(line)
        words = shlex.split(line)
        done = commands.tq(*words[1:], folder=self._folder)
        return done.stdout + done.stderr

    def as_written(self, text: str) -> str:
        for on_page, real in self._places.items():
            text = text.replace(real, on_page)
        return text

    def _real(self, text: str) -> str:
        for on_page, real in self._places.items():
            text = text.replace(on_page, real)
        return text

    def _shell(self, line: str) -> str:
        """As a reader would run it, but with nothing about its progress."""
        (self._folder / ".curlrc").write_text("silent\nshow-error\nmax-time = 60\n")
        done = subprocess.run(
            ["bash", "-o", "pipefail", "-c", line],
            cwd=self._folder,
            env={**os.environ, "CURL_HOME": str(self._folder)},
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, f"`{line}` ended with {done.returncode}:\n{done.stderr}"
        return done.stdout + done.stderr

    def _start(self, line: str) -> str:
        """Start a server; what it says is read up to its first line."""
        words = shlex.split(line)
        variables = dict(word.split("=", 1) for word in words[: words.index("tq")])
        arguments = [*words[words.index("tq") + 1 :], "--port", "0"]
        server = subprocess.Popen(
            commands.command(*arguments),
            cwd=self._folder,
            env=commands.environment(self._folder, variables),
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        self._servers.append(server)
        assert server.stdout is not None
        said = server.stdout.readline()
        place = _PLACE.search(said)
        assert place, f"`{line}` did not start: {said}{server.communicate()[0]}"
        port = re.search(r"--port[ =](\d+)", line)
        self._places[f"127.0.0.1:{port[1] if port else 8787}"] = place[0]
        return said

    def end(self) -> None:
        """Stop the servers; each has to end cleanly."""
        for server in self._servers:
            server.send_signal(signal.SIGTERM)
            said, _ = server.communicate(timeout=_STOP_SECONDS)
            assert server.returncode == 0, f"{server.args} ended with {server.returncode}:\n{said}"

    def close(self) -> None:
        for server in self._servers:
            if server.poll() is None:
                os.kill(server.pid, signal.SIGKILL)
                server.communicate()
