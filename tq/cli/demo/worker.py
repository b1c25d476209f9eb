"""The demo's worker, which runs in a process of its own."""

from __future__ import annotations

import logging
import shutil
import sys
from pathlib import Path

from tq import TaskQueue
from tq.cli.demo.workload import register

DATABASE = "tasks.db"


def main(folder: str) -> None:
    """Work until standard input ends: the demo closes it, and so does the kernel when the demo itself is killed."""
    logging.getLogger("tq").setLevel(logging.ERROR)  # that tasks were recovered is the demo's to tell
    queue = TaskQueue()
    register(queue)
    queue.init(Path(folder) / DATABASE)
    sys.stdin.buffer.read()
    queue.stop(timeout=1)
    shutil.rmtree(folder, ignore_errors=True)
