"""The programs that the rig starts: `python -m tests.chaos.programs NAME DATABASE OPTIONS FOLDER [ARGUMENT …]`."""

from __future__ import annotations

import asyncio
import json
import logging
import multiprocessing
import os
import random
import resource
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

from tests.chaos.history import History
from tq import TaskQueue, current_task
from tq.errors import StorageFull

DATABASE, OPTIONS, FOLDER = sys.argv[2], json.loads(sys.argv[3]), Path(sys.argv[4])
ARGUMENTS = sys.argv[5:]
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
    return queue.init(DATABASE, **{"durability": "normal", **OPTIONS, **options})


def work_on(name: str, handler: Any, count: int = 1) -> None:
    queue(name).set_backoff(base=0.05, cap=0.2).set_max_attempts(50).set_worker_count(count).set_worker(handler)


def run() -> None:
    """Work until a signal comes, and say `ready` when one may come."""

    def say_when_ready() -> None:
        while signal.getsignal(signal.SIGTERM) is signal.SIG_DFL:
            time.sleep(0.001)
        history.write("ready")

    threading.Thread(target=say_when_ready, daemon=True).start()
    queue.run()


def worker() -> None:
    """Works on plain and on asynchronous tasks until it is told to stop."""
    open_queue()
    count = int(ARGUMENTS[0]) if ARGUMENTS else 2
    work_on("plain", handle, count)
    work_on("async", handle_async, 3)
    run()


def stubborn() -> None:
    open_queue()
    work_on("plain", handle_stubbornly)
    run()


def falls_off() -> None:
    """A program that adds, starts a worker, and ends."""
    open_queue()
    work_on("plain", handle)
    queue("plain").add_many([{"seconds": 0.3}, *({} for _ in range(100))])
    while not history.events("start"):
        time.sleep(0.01)


def two_queues() -> None:
    """Two queues on one file in one process, both adding and both working."""
    queues = [TaskQueue().init(DATABASE, **OPTIONS) for _ in range(2)]
    for one in queues:
        one("plain").set_worker(handle)
    for one in queues * 50:
        history.write("accepted", one("plain").submit({}).id)
    assert all(one.join(60) for one in queues)
    for one in queues:
        one.stop()


def race_to_open() -> None:
    """Two programs open one fresh database after another, each time at the same moment."""
    for number in range(int(ARGUMENTS[0])):
        (FOLDER / f"here-{number}-{os.getpid()}").touch()
        while len(list(FOLDER.glob(f"here-{number}-*"))) < 2:
            time.sleep(0.0005)
        one = TaskQueue().init(FOLDER / f"{number}.db")
        one("plain").add({"pid": os.getpid()})
        one.stop()


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


def durable() -> None:
    """Adds with full durability, and notes how long the log was when each add had returned."""
    open_queue(durability="full")
    log = Path(f"{DATABASE}-wal")
    history.write("ready")
    for number in range(int(ARGUMENTS[0])):
        task = queue("plain").submit({"text": "x" * (number % 50) * 20})
        history.write("accepted", task.id, log.stat().st_size)
    pass_gate("copied")


def full_disk() -> None:
    """Fills what a limit on the size of files leaves, goes on trying for a while, and gets the space back."""
    open_queue()
    work_on("plain", handle)
    _add_ten()
    log = Path(f"{DATABASE}-wal")
    _, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (log.stat().st_size + 200_000, hard))
    for _ in range(1000):
        try:
            add("plain", {"text": "x" * 5000})
        except StorageFull:
            break
    history.write("full")
    tried_until = time.monotonic() + float(ARGUMENTS[0])
    while time.monotonic() < tried_until:
        try:
            add("plain", {"text": "x" * 5000})
        except StorageFull:
            history.write("refused")
        time.sleep(0.05)
    resource.setrlimit(resource.RLIMIT_FSIZE, (hard, hard))
    history.write("space")
    _add_ten()
    assert queue.join(60)
    queue.stop()


def keeps_adding() -> None:
    """Adds until told that it is enough, and notes what each refusal was called."""
    open_queue()
    work_on("other", handle)
    history.write("ready")
    while not (FOLDER / "enough").exists():
        try:
            add("plain", {})
        except Exception as error:
            history.write("refused", type(error).__name__)
        time.sleep(0.01)
    queue.stop(1)


# --- programs that fork ------------------------------------------------------------------------------------------


def fork_and_add() -> None:
    """Parent and child add in turn; the parent closes the queue first, the child goes on."""
    open_queue()
    _add_ten()
    child = os.fork()
    if child:
        pass_gate("child-opened")
        _add_ten()
        queue.stop()
        (FOLDER / "parent-closed").touch()
        assert os.waitpid(child, 0)[1] == 0
        return
    _add_ten()
    (FOLDER / "child-opened").touch()
    pass_gate("parent-closed")
    _add_ten()
    history.write("visit")
    pass_gate("visited")
    _add_ten()
    history.write("done")
    pass_gate("child-may-end")
    os._exit(0)


def fork_with_threads() -> None:
    """A pre-forking server: the queue was opened before the fork, and the child uses it from many threads at once."""
    open_queue()
    add("plain", {})
    child = os.fork()
    if child:
        assert os.waitpid(child, 0)[1] == 0
        return
    together = threading.Barrier(8)

    def add_at_once() -> None:
        together.wait()
        for _ in range(5):
            add("plain", {})

    threads = [threading.Thread(target=add_at_once) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    os._exit(len(history.events("accepted")) != 41)


def fork_and_exit() -> None:
    """Children add, or do not, and end as programs do, with all that Python does then; the parent works on."""
    open_queue()
    work_on("plain", handle)
    for number in range(4):
        add("plain", {})
        child = os.fork()
        if not child:
            if number % 2:
                add("plain", {})
            sys.exit(0)
        add("plain", {})
        assert os.waitpid(child, 0)[1] == 0
        add("plain", {})
        assert queue.join(60)
    queue.stop()


def fork_while_adding() -> None:
    """Forks again and again while other threads add; each child adds too."""
    open_queue()
    stop = threading.Event()

    def keep_adding() -> None:
        while not stop.is_set():
            add("plain", {})

    threads = [threading.Thread(target=keep_adding) for _ in range(3)]
    for thread in threads:
        thread.start()
    for _ in range(int(ARGUMENTS[0])):
        child = os.fork()
        if not child:
            add("plain", {})
            os._exit(0)
        assert os.waitpid(child, 0)[1] == 0
    stop.set()
    for thread in threads:
        thread.join()
    queue.stop()


def handler_forks() -> None:
    """A handler forks: its child adds a task and exits, or (`returns`) comes back out of the handler."""
    open_queue()

    def handle_and_fork(payload: dict[str, Any]) -> None:
        note("start")
        child = os.fork() if "fork" in payload else None
        if child:
            os.waitpid(child, 0)
        elif child == 0 and ARGUMENTS[0] == "exits":
            add("other", {})
            os._exit(0)
        elif child == 0:
            return
        note("end")

    work_on("plain", handle_and_fork)
    queue("plain").add_many([{}] * 300)  # makes the worker claim ahead
    queue.join()
    queue("plain").add_many([{"fork": 1}, *({} for _ in range(100))])
    queue.join()
    queue("plain").add({"fork": 1})  # with nothing else to do
    queue.join()
    queue.stop()


def add_in_child() -> None:
    open_queue()
    for _ in range(10):
        add("plain", {})


def multiprocess() -> None:
    """Children of multiprocessing add, while the parent does."""
    open_queue()
    add("plain", {})
    context = multiprocessing.get_context(ARGUMENTS[0])
    target = _add_ten if ARGUMENTS[0] == "fork" else add_in_child
    children = [context.Process(target=target) for _ in range(3)]
    for child in children:
        child.start()
    _add_ten()
    for child in children:
        child.join()
        assert child.exitcode == 0
    queue.stop()


def _add_ten() -> None:
    for _ in range(10):
        add("plain", {})


def parent() -> None:
    """A worker with a child that outlives it, and a task that runs when it is killed."""
    open_queue()
    work_on("plain", handle)
    add("plain", {"gate": "never"})
    add("plain", {"gate": "later"})
    while not history.events("start"):
        time.sleep(0.01)
    if ARGUMENTS[0] == "popen":
        subprocess.Popen([sys.executable, "-c", f"import time; time.sleep({ARGUMENTS[1]})"])
    elif os.fork() == 0:
        time.sleep(float(ARGUMENTS[1]))
        os._exit(0)
    if ARGUMENTS[0] == "holding":
        with queue._opened()._driver._driver._lock.held():
            history.write("ready")
            time.sleep(60)
    history.write("ready")
    time.sleep(60)


# --- programs that are interrupted -------------------------------------------------------------------------------


class Interrupt(BaseException):
    """As Ctrl-C, but for a program that goes on."""


def interrupted() -> None:
    """Adds in one thread, and in the main thread too, where an exception strikes every other moment."""
    open_queue()
    work_on("plain", handle)
    chance = random.Random(int(ARGUMENTS[0]))
    stop = threading.Event()

    def keep_adding() -> None:
        while not stop.wait(0.001):
            add("plain", {})

    def strike(*_: object) -> None:
        raise Interrupt

    signal.signal(signal.SIGALRM, strike)
    other = threading.Thread(target=keep_adding)
    other.start()
    struck = 0
    while struck < int(ARGUMENTS[1]):
        try:
            signal.setitimer(signal.ITIMER_REAL, chance.uniform(0.00001, 0.002))
            while True:
                add("plain", {})
        except Interrupt:  # while it is handled, its traceback keeps alive what was interrupted
            struck += 1
            add("plain", {})
    stop.set()
    other.join()
    assert queue.join(60)
    queue.stop()
    history.write("done")


if __name__ == "__main__":
    logging.basicConfig(level=logging.INFO, format="%(levelname)s %(message)s")
    globals()[sys.argv[1]]()
