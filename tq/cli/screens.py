"""Where a live view is shown: by rich where it is installed, by plain escape codes where not, or as lines in a pipe.

A view is told in two ways: `say` adds a line that stays, `show` replaces the picture below those lines.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Sequence
from typing import Literal, NamedTuple, Protocol, TextIO

from tq.clock import Clock

Style = Literal["", "bold", "dim", "green", "cyan", "yellow", "red"]

_CODES: dict[Style, str] = {"bold": "1", "dim": "2", "green": "32", "cyan": "36", "yellow": "33", "red": "31"}
_SUMMARY_SECONDS = 2.0
_SMALLEST_HEIGHT = 20


class Span(NamedTuple):
    text: str
    style: Style = ""


Line = Sequence[Span]


class Screen(Protocol):
    def width(self) -> int: ...

    def say(self, line: Line) -> None:
        """Add a line that stays."""

    def show(self, picture: Sequence[Line], summary: str) -> None:
        """Replace the picture; where nothing can be replaced, say its summary now and then."""

    def close(self) -> None: ...


def screen_for(out: TextIO, clock: Clock) -> Screen:
    """The best screen that this output allows."""
    if not out.isatty() or os.environ.get("TERM", "dumb") == "dumb" or _height() < _SMALLEST_HEIGHT:
        return LineScreen(out, clock)
    try:
        return RichScreen(out)
    except ImportError:
        return TerminalScreen(out, colour=not os.environ.get("NO_COLOR"))


def can_show(characters: str, out: TextIO) -> bool:
    try:
        characters.encode(out.encoding or "ascii")
    except (UnicodeEncodeError, LookupError):
        return False
    return True


def plain(line: Line) -> str:
    return "".join(span.text for span in line).rstrip()


def _width() -> int:
    return max(20, shutil.get_terminal_size().columns)


def _height() -> int:
    return shutil.get_terminal_size().lines


class LineScreen:
    """For pipes, files and simple terminals: nothing is ever drawn over."""

    def __init__(self, out: TextIO, clock: Clock) -> None:
        self._out = out
        self._clock = clock
        self._next_summary_at = clock.monotonic() + _SUMMARY_SECONDS

    def width(self) -> int:
        return _width()

    def say(self, line: Line) -> None:
        print(plain(line), file=self._out, flush=True)

    def show(self, picture: Sequence[Line], summary: str) -> None:
        if self._clock.monotonic() >= self._next_summary_at:
            self._next_summary_at = self._clock.monotonic() + _SUMMARY_SECONDS
            self.say([Span(summary)])

    def close(self) -> None:
        self._out.flush()


class TerminalScreen:
    """For terminals without rich: the picture is erased and drawn again, each time in one write."""

    def __init__(self, out: TextIO, colour: bool) -> None:
        self._out = out
        self._colour = colour
        self._picture: Sequence[Line] = ()

    def width(self) -> int:
        return _width()

    def say(self, line: Line) -> None:
        self._write(self._erase() + self._text([line, *self._picture]))

    def show(self, picture: Sequence[Line], summary: str) -> None:
        if picture != self._picture:
            erase, self._picture = self._erase(), picture
            self._write(erase + self._text(picture))

    def close(self) -> None:
        self._picture = ()
        self._out.flush()

    def _erase(self) -> str:
        return f"\x1b[{len(self._picture)}A\r\x1b[J" if self._picture else ""

    def _text(self, lines: Sequence[Line]) -> str:
        return "".join("".join(map(self._span, line)) + "\n" for line in lines)

    def _span(self, span: Span) -> str:
        code = _CODES.get(span.style) if self._colour else None
        return f"\x1b[{code}m{span.text}\x1b[0m" if code else span.text

    def _write(self, text: str) -> None:
        self._out.write(text)
        self._out.flush()


class RichScreen:
    def __init__(self, out: TextIO) -> None:
        from rich.console import Console
        from rich.live import Live
        from rich.text import Text

        self._text_class = Text
        self._console = Console(file=out, highlight=False)
        self._live = Live(console=self._console, auto_refresh=False)
        self._picture: Sequence[Line] = ()

    def width(self) -> int:
        return max(20, self._console.width)

    def say(self, line: Line) -> None:
        self._console.print(self._text([line]))

    def show(self, picture: Sequence[Line], summary: str) -> None:
        if not self._live.is_started:
            self._live.start()
        if picture != self._picture:
            self._picture = picture
            self._live.update(self._text(picture), refresh=True)

    def close(self) -> None:
        if self._live.is_started:
            self._live.stop()

    def _text(self, lines: Sequence[Line]):  # type: ignore[no-untyped-def]  # rich is not there for all who read this
        parts = [part for line in lines for part in (*line, Span("\n"))]
        return self._text_class.assemble(*parts[:-1])
