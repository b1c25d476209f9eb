"""Ctrl-C between any two lines: real interrupts arrive anywhere, and a test must meet all of those places."""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterable
from functools import cache
from pathlib import Path
from types import FrameType
from typing import Any


class InterruptAt:
    """Raises KeyboardInterrupt in the calling thread before the n-th line that it executes in some files.

    Python itself never interrupts between the end of a `with` block and its exit, nor at a bare `try:`: it looks for
    signals after calls, at jumps back and where functions begin. So neither does this.
    """

    def __init__(self, files: Iterable[str], line: int) -> None:
        self._files = set(files)
        self._left = line
        self._entered: set[tuple[FrameType, int]] = set()
        self.struck = False

    def __enter__(self) -> InterruptAt:
        sys.settrace(self._trace)
        return self

    def __exit__(self, *_: object) -> None:
        sys.settrace(None)
        self._entered.clear()

    def _trace(self, frame: FrameType, event: str, _: object) -> Any:
        if frame.f_code.co_filename not in self._files:
            return None
        if event == "line" and not self.struck and not self._is_safe(frame):
            self._left -= 1
            if self._left == 0:
                self.struck = True
                raise KeyboardInterrupt
        return self._trace

    def _is_safe(self, frame: FrameType) -> bool:
        kind = _statements(frame.f_code.co_filename).get(frame.f_lineno)
        if kind is not ast.With:
            return kind is ast.Try
        place = (frame, frame.f_lineno)
        left = place in self._entered
        self._entered ^= {place}
        return left


@cache
def _statements(file: str) -> dict[int, type[ast.stmt]]:
    tree = ast.parse(Path(file).read_text(encoding="utf-8"))
    return {node.lineno: type(node) for node in ast.walk(tree) if isinstance(node, (ast.With, ast.Try))}
