"""Sets the demo up and clears it away: its folder, its queue, its screen, its worker."""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

from tq.cli.demo.picture import LOOKS, Pencil
from tq.cli.demo.story import Story
from tq.cli.demo.worker import DATABASE
from tq.cli.exit_codes import OK, TROUBLE
from tq.cli.interruptions import Interruptions
from tq.cli.screens import can_show, screen_for
from tq.clock import SystemClock
from tq.queue import TaskQueue


def perform() -> int:
    try:
        with Interruptions() as interruptions, tempfile.TemporaryDirectory(prefix="tq-demo-") as folder:
            lost = _play(Path(folder), interruptions)
    except KeyboardInterrupt:
        raise KeyboardInterrupt("stopped; the demo's worker has ended and its files are gone") from None
    return TROUBLE if lost else OK


def _play(folder: Path, interruptions: Interruptions) -> int:
    clock = SystemClock()
    screen = screen_for(sys.stdout, clock)
    pencil = Pencil(can_show("".join(look.character for look in LOOKS.values()), sys.stdout))
    story = Story(TaskQueue(), folder / DATABASE, screen, pencil, clock, interruptions.check)
    try:
        return story.play()
    finally:
        try:
            story.clear_away()
        finally:
            screen.close()
