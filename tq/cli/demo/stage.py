"""Sets the demo up and clears it away: its folder, its queue, its screen, its worker."""

from __future__ import annotations

import signal
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from types import FrameType

from tq.cli.demo.picture import LOOKS, Pencil
from tq.cli.demo.story import Story
from tq.cli.demo.worker import DATABASE
from tq.cli.exit_codes import OK, TROUBLE
from tq.cli.screens import can_show, screen_for
from tq.clock import SystemClock
from tq.queue import TaskQueue


def perform() -> int:
    clock = SystemClock()
    screen = screen_for(sys.stdout, clock)
    pencil = Pencil(can_show("".join(look.character for look in LOOKS.values()), sys.stdout))
    try:
        with _endings_that_clean_up(), _folder() as folder:
            story = Story(TaskQueue(), folder / DATABASE, screen, pencil, clock)
            try:
                lost = story.play()
            finally:
                screen.close()
                with _uninterrupted():
                    story.clear_away()
    except KeyboardInterrupt:
        raise KeyboardInterrupt("stopped; the demo's worker has ended and its files are gone") from None
    return TROUBLE if lost else OK


@contextmanager
def _folder() -> Iterator[Path]:
    folder = tempfile.TemporaryDirectory(prefix="tq-demo-")
    try:
        yield Path(folder.name)
    finally:
        with _uninterrupted():
            folder.cleanup()


@contextmanager
def _uninterrupted() -> Iterator[None]:
    """A second Ctrl-C must not stop the cleaning up."""
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


@contextmanager
def _endings_that_clean_up() -> Iterator[None]:
    """SIGTERM, and a terminal that is closed, end the demo like an exit: what it made is cleared away."""
    before = {number: signal.signal(number, _exit) for number in (signal.SIGTERM, signal.SIGHUP)}
    try:
        yield
    finally:
        for number, handler in before.items():
            with suppress(TypeError):  # a handler that was not set from Python cannot be put back
                signal.signal(number, handler)


def _exit(number: int, _: FrameType | None) -> None:
    sys.exit(128 + number)
