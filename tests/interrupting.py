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

    Python itself never interrupts between `with` and its block, nor between the block and its end, nor at a bare
    `try:`: it looks for signals after calls, at jumps back and where functions begin. So neither does this.
    """

    def __init__(self, files: Iterable[str], line: int) -> None:
        self._files = set(files)
        self._left = line
        self.struck = False

    def __enter__(self) -> InterruptAt:
        sys.settrace(self._trace)
        return self

    def __exit__(self, *_: object) -> None:
        sys.settrace(None)

    def _trace(self, frame: FrameType, event: str, _: object) -> Any:
        file = frame.f_code.co_filename
        if file not in self._files:
            return None
        if event == "line" and not self.struck and frame.f_lineno not in _safe_lines(file):
            self._left -= 1
            if self._left == 0:
                self.struck = True
                raise KeyboardInterrupt
        return self._trace


@cache
def _safe_lines(file: str) -> frozenset[int]:
    tree = ast.parse(Path(file).read_text(encoding="utf-8"))
    blocks = [node for node in ast.walk(tree) if isinstance(node, (ast.With, ast.Try))]
    entries = [block.body[0] for block in blocks if isinstance(block, ast.With)]
    return frozenset(node.lineno for node in [*blocks, *entries])
