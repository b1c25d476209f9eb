"""The programs that the rig starts: `python -m tests.chaos.programs NAME DATABASE FOLDER [ARGUMENT …]`."""

from __future__ import annotations

import asyncio
import logging
import os
import random
import sys
import time
from pathlib import Path
from typing import Any

from tests.chaos.history import History
from tq import TaskQueue, current_task

DATABASE, FOLDER = Path(sys.argv[2]), Path(sys.argv[3])
ARGUMENTS = sys.argv[4:]
history = History(FOLDER / "history")
queue = TaskQueue()


# --- handlers ----------------------------------------------------------------------------------------------------


def note(what: str) -> None:
    task = current_task()
    history.write(what, task.id, task.attempt)


def pass_gate(name: str) -> None:
    """Wait inside a handler until the test opens the gate, or the handler is interrupted."""
    while not (FOLDER / name).exists():
        time.sleep(0.01)


def handle(payload: dict[str, Any]) -> None:
    note("start")
    try:
        time.sleep(payload.get("seconds", 0.0))
        if "gate" in payload:
            pass_gate(payload["gate"])
        if payload.get("poison"):
            os._exit(1)
    except BaseException:
        note("interrupted")
        raise
    finally:
        note("end")


async def handle_async(payload: dict[str, Any]) -> None:
    note("start")
    try:
        await asyncio.sleep(payload["seconds"])
    finally:
        note("end")


def handle_stubbornly(payload: dict[str, Any]) -> None:
    note("start")
    while True:
        try:
            time.sleep(0.05)
        except BaseException:
            note("ignored")


# --- workers -----------------------------------------------------------------------------------------------------


def open_queue(**options: Any) -> TaskQueue:
    return queue.init(DATABASE, **{"durability": "normal", **options})


def work_on(name: str, handler: Any, count: int = 1) -> None:
    queue(name).set_backoff(base=0.05, cap=0.2).set_max_attempts(50).set_worker_count(count).set_worker(handler)


def worker() -> None:
    """Works on plain and on asynchronous tasks until it is told to stop."""
    open_queue()
    count = int(ARGUMENTS[0]) if ARGUMENTS else 2
    work_on("plain", handle, count)
    work_on("async", handle_async, 3)
    history.write("ready")
    queue.run()


def stubborn() -> None:
    open_queue()
    work_on("plain", handle_stubbornly)
    history.write("ready")
    queue.run()


def falls_off() -> None:
    """A program that adds, starts a worker, and ends."""
    open_queue()
    work_on("plain", handle)
    queue("plain").add_many([{"seconds": 0.3}, *({} for _ in range(100))])
    while not history.events("start"):
        time.sleep(0.01)


# --- producers ---------------------------------------------------------------------------------------------------


def add(name: str, payload: dict[str, Any]) -> None:
    """Add a task, and write it down once it is accepted."""
    history.write("accepted", queue(name).submit(payload).id)


def producer() -> None:
    """Adds a mix of short tasks, until it is told that there are enough."""
    open_queue()
    chance = random.Random(int(ARGUMENTS[0]))
    history.write("ready")
    while not (FOLDER / "enough").exists():
        add(chance.choice(["plain", "async"]), {"seconds": chance.uniform(0.001, 0.02)})
        time.sleep(chance.uniform(0, 0.015))


def writer() -> None:
    """Adds as fast as it can, for so many seconds."""
    open_queue()
    history.write("ready")
    deadline = time.monotonic() + float(ARGUMENTS[0])
    while time.monotonic() < deadline:
        add("plain", {})
        time.sleep(0.001)


def add_some() -> None:
    """Adds so many tasks and ends."""
    open_queue(durability="full")
    history.write("ready")
    for _ in range(int(ARGUMENTS[0])):
        add("plain", {})


if __name__ == "__main__":
    logging.basicConfig(level=logging.WARNING, format="%(levelname)s %(message)s")
    globals()[sys.argv[1]]()
