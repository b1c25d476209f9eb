"""Ctrl-C and its like, kept until a command comes to a place where it can stop.

An exception in the middle of drawing leaves half a picture, and one in the middle of cleaning up leaves files.
"""

from __future__ import annotations

import signal
import sys
from types import FrameType, TracebackType

from typing_extensions import Self

_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class Interruptions:
    def __init__(self) -> None:
        self._number: int | None = None
        self._before: dict[int, signal.Handlers | object] = {}

    def __enter__(self) -> Self:
        for number in _SIGNALS:
            if signal.getsignal(number) not in (signal.SIG_IGN, None):  # nohup, or a shell, wants it ignored
                self._before[number] = signal.signal(number, self._keep)
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)  # type: ignore[arg-type]  # it is what signal.signal gave us

    def _keep(self, number: int, _: FrameType | None) -> None:
        self._number = number

    def check(self) -> None:
        """Stop here, if anybody has asked for it."""
        if self._number == signal.SIGINT:
            raise KeyboardInterrupt
        if self._number is not None:
            sys.exit(128 + self._number)
