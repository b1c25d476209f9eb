"""The demo's hand on its worker process: start it, kill it, let it end."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from tq.errors import TqError

# The child imports from where its parent does, and never from what happens to lie in the working directory.
_PROGRAM = "import sys; sys.path[:] = sys.argv[2:]; from tq.cli.demo.worker import main; main(sys.argv[1])"
_SECONDS_TO_END = 10


class WorkerProcess:
    def __init__(self, folder: Path) -> None:
        self._process = subprocess.Popen(  # noqa: S603  our own program, with our own arguments
            [sys.executable, "-c", _PROGRAM, str(folder), *sys.path],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            start_new_session=True,  # Ctrl-C is for the demo, which then ends its worker
        )
        self.pid = self._process.pid

    def check(self) -> None:
        """The worker should be running. If it is not, say why."""
        if self._process.poll() is not None:
            _, said = self._process.communicate()
            reason = said.decode(errors="replace").strip().rpartition("\n")[2] or "it did not say why"
            raise TqError(f"the demo's worker ended by itself: {reason}; is tq installed completely?")

    def kill(self) -> None:
        """kill -9."""
        self._process.kill()
        self._process.communicate()

    def end(self) -> None:
        """Let it finish what runs."""
        try:
            self._process.communicate(timeout=_SECONDS_TO_END)
        except subprocess.TimeoutExpired:
            self.kill()
