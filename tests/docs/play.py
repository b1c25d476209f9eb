"""Plays a page: runs its python blocks and its commands as a reader would, and checks what they say they print,
give and raise."""

from __future__ import annotations

import ast
import contextlib
import io
import os
import re
import signal
import subprocess
import sys
import time
import types
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import tq as package
from tests.docs.pages import Block, Page
from tests.docs.servers import Servers
from tests.docs.terminal import Terminal
from tq import TaskQueue

_GIVES = re.compile(r"#\s*->\s*(?P<text>.*)$")
_RAISES = re.compile(r"#\s*raises\s+(?P<text>.*)$")
_STOP_SECONDS = 60


class Player:
    """One page in one folder. Its blocks see the folder as the current one, and a `tq` that nobody has used."""

    def __init__(self, page: Page, folder: Path) -> None:
        self._page = page
        self._folder = folder
        self._module = types.ModuleType("page_" + re.sub(r"\W", "_", page.name))
        self._processes: list[subprocess.Popen[str]] = []
        self._queues: list[TaskQueue] = []
        self._servers = Servers()
        self._terminal = Terminal(folder)

    def play(self) -> None:
        with self._stage():
            blocks = self._page.blocks()
            for block, after in zip(blocks, [*blocks[1:], None], strict=True):
                block = block._replace(text=self._servers.real(block.text))
                if block.language == "python" and block.not_run is None:
                    self._perform(block, after.text if after is not None and after.language == "text" else None)
                for command, expected in block.commands():
                    self._type(block, command, expected)

    @contextlib.contextmanager
    def _stage(self) -> Iterator[None]:
        with pytest.MonkeyPatch.context() as patch:
            patch.chdir(self._folder)
            patch.syspath_prepend(str(self._folder))
            patch.setitem(sys.modules, self._module.__name__, self._module)
            patch.setattr(TaskQueue, "__init__", self._remembering(TaskQueue.__init__))
            patch.setattr(package, "tq", TaskQueue())
            patch.delenv("TQ_DATABASE_URL", raising=False)
            try:
                yield
                self._terminal.end()
                self._end_processes()
            finally:
                self._clear()

    def _remembering(self, initialise: Callable[..., None]) -> Callable[..., None]:
        def __init__(queue: TaskQueue, **options: Any) -> None:
            self._queues.append(queue)
            initialise(queue, **options)

        return __init__

    def _perform(self, block: Block, expected: str | None) -> None:
        if block.file is not None:
            self._write(block)
            return
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            for statement in ast.parse(block.text).body:
                self._run(block, statement)
        if expected is not None:
            said = self._servers.as_written(printed.getvalue())
            assert matches(expected.strip(), said.strip()), f"{self._where(block, 0)} printed:\n{said}"

    def _type(self, block: Block, command: str, expected: str) -> None:
        said = self._terminal.as_written(self._terminal.type(command))
        expected, said = map(self._servers.as_written, (expected, said))
        assert matches(expected.strip(), said.strip()), f"{self._where(block, 0)} `{command}` printed:\n{said}"

    # --- statements ----------------------------------------------------------------------------------------------

    def _run(self, block: Block, statement: ast.stmt) -> None:
        comment = block.text.splitlines()[(statement.end_lineno or 1) - 1]
        where = self._where(block, statement.lineno - 1)
        if raises := _RAISES.search(comment):
            with pytest.raises(BaseException) as caught:  # what it raises is compared below
                self._execute(statement, where)
            said = self._servers.as_written(f"{type(caught.value).__name__}: {caught.value}")
            assert matches(self._servers.as_written(raises["text"]), said), f"{where} raised {said}"
        elif gives := _GIVES.search(comment):
            assert isinstance(statement, ast.Expr), f"{where}: only an expression can give something"
            value = eval(compile(ast.Expression(statement.value), where, "eval"), self._module.__dict__)
            said = self._servers.as_written(repr(value))
            assert matches(self._servers.as_written(gives["text"]), said), f"{where} gave {said}"
        else:
            self._execute(statement, where)

    def _execute(self, statement: ast.stmt, where: str) -> None:
        exec(compile(ast.Module([statement], []), where, "exec"), self._module.__dict__)

    def _where(self, block: Block, line: int) -> str:
        return f"{self._page.name}:{block.line + line}"

    # --- files and processes -------------------------------------------------------------------------------------

    def _write(self, block: Block) -> None:
        assert block.file is not None
        (self._folder / block.file).write_text(block.text, encoding="utf-8")
        if "tq.run(" in block.text:
            command = [sys.executable, "-W", "error", block.file]
            environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
            started = subprocess.Popen(
                command, cwd=self._folder, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
            )
            self._processes.append(started)

    def _end_processes(self) -> None:
        for process in self._processes:
            await_handler(process)
            process.send_signal(signal.SIGTERM)
            said, _ = process.communicate(timeout=_STOP_SECONDS)
            assert process.returncode == 0, f"{process.args} ended with {process.returncode}:\n{said}"

    def _clear(self) -> None:
        for process in self._processes:
            if process.poll() is None:
                process.kill()
                process.communicate()
        self._terminal.close()
        for queue in self._queues:
            queue.stop(timeout=_STOP_SECONDS)
        self._servers.close()
        for name, module in list(sys.modules.items()):
            if str(getattr(module, "__file__", None)).startswith(str(self._folder)):
                del sys.modules[name]


def await_handler(process: subprocess.Popen[str]) -> None:
    """Wait until the process listens to SIGTERM: its tasks may be through before it has come to `tq.run()`."""
    give_up_at = time.monotonic() + _STOP_SECONDS
    while process.poll() is None and not _catches(process.pid, signal.SIGTERM):
        assert time.monotonic() < give_up_at, f"{process.args} never came to tq.run()"
        time.sleep(0.01)


def _catches(pid: int, number: int) -> bool:
    status = Path(f"/proc/{pid}/status").read_text()
    [mask] = re.findall(r"^SigCgt:\s*([0-9a-f]+)$", status, re.MULTILINE)
    return bool(int(mask, 16) >> (number - 1) & 1)


def matches(expected: str, actual: str) -> bool:
    """Whether they are the same, where `…` in what was expected stands for anything."""
    pattern = ".*".join(re.escape(part) for part in expected.split("…"))
    return re.fullmatch(pattern, actual, re.DOTALL) is not None
