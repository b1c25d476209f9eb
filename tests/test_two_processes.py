"""A producer and a worker in processes of their own, on one file."""

from __future__ import annotations

import os
import sqlite3
import threading
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path

import pytest

from tests.programs import Program, run
from tests.waiting import PATIENCE, eventually
from tq import TaskQueue

MakeQueue = Callable[..., TaskQueue]

WORKER = """
    import sys
    from tq import tq
    tq.init("tasks.db", poll_interval=float(sys.argv[1]))
    tq("double").set_worker(lambda number: 2 * number)
    tq("first").set_worker(lambda _: "first")
    tq("first").submit(None).result(60)  # from here on it is idle
    print("idle", flush=True)
    sys.stdin.readline()
    assert tq.stop()
    print("ended")
"""
SLOW_POLL = "600"  # so slow that only the doorbell can explain what happens in time


def test_a_task_of_another_process_starts_by_the_doorbell(queue: TaskQueue, folder: Path):
    with Program(folder, WORKER, SLOW_POLL) as worker:
        assert worker.line() == "idle"
        for number in range(5):
            assert queue("double").submit(number).result(PATIENCE) == 2 * number
        worker.say("stop")
        assert worker.ends()[0] == "ended\n"


def test_a_program_that_adds_and_ends_has_rung_the_bell(queue: TaskQueue, folder: Path):
    with Program(folder, WORKER, SLOW_POLL) as worker:
        assert worker.line() == "idle"
        task_id = run(
            folder,
            """
            from tq import tq
            tq.init("tasks.db")
            print(tq("double").submit(21).id)
            """,
        ).strip()
        assert queue.handle(task_id).result(PATIENCE) == 42


def test_a_scheduled_task_of_another_process_is_not_slept_through(queue: TaskQueue, folder: Path):
    with Program(folder, WORKER, SLOW_POLL) as worker:
        assert worker.line() == "idle"
        assert queue("double").submit(4, run_after=timedelta(seconds=0.5)).result(PATIENCE) == 8


def test_a_worker_that_starts_after_the_adds_finds_them(queue: TaskQueue, folder: Path):
    handles = [queue("double").submit(number) for number in range(50)]
    with Program(folder, WORKER, SLOW_POLL) as worker:
        assert worker.line() == "idle"
        assert [handle.result(PATIENCE) for handle in handles] == [2 * number for number in range(50)]


def test_a_pause_holds_in_another_process_and_resume_rings(queue: TaskQueue, folder: Path):
    with Program(folder, WORKER, SLOW_POLL) as worker:
        assert worker.line() == "idle"
        queue.pause()
        handle = queue("double").submit(4)
        assert not handle.wait(0.5)
        queue.resume()
        assert handle.result(PATIENCE) == 8
        queue("double").pause()
        handle = queue("double").submit(5)
        assert not handle.wait(0.5)
        queue("double").resume()
        assert handle.result(PATIENCE) == 10


def test_a_free_place_under_a_global_limit_rings_for_other_processes(queue: TaskQueue, folder: Path):
    """The limit is held by this process; when it lets go, and takes nothing itself, the other must hear of it."""
    running, go = threading.Event(), threading.Event()

    def hold(_: int) -> str:
        running.set()
        assert go.wait(PATIENCE)
        return "held"

    source = """
        import sys
        from tq import tq
        tq.init("tasks.db", poll_interval=600)
        tq("slow").set_global_limit(1).set_worker(lambda _: "the other")
        tq("first").set_worker(lambda _: "first").submit(None).result(60)
        print("idle", flush=True)
        sys.stdin.readline()
    """
    queue("slow").set_global_limit(1).set_worker(hold)
    first = queue("slow").submit(1)
    assert running.wait(PATIENCE)
    with Program(folder, source) as other:
        assert other.line() == "idle"
        second = queue("slow").submit(2)
        threading.Timer(0.3, go.set).start()
        queue.stop(PATIENCE)
        again = TaskQueue().init(folder / "tasks.db")
        assert again.handle(second.id).result(PATIENCE) == "the other"
        assert again.handle(first.id).task().output == "held"
        again.stop()


def footprint(folder: Path) -> dict[str, tuple[int, int]]:
    files = {path.name: path.stat() for path in folder.iterdir() if path.is_file() and not path.name.endswith("-shm")}
    return {name: (status.st_size, status.st_mtime_ns) for name, status in files.items()}


def test_an_idle_worker_writes_nothing(make_queue: MakeQueue, folder: Path):
    queue = make_queue(poll_interval=0.05)
    queue("double").set_worker(lambda number: 2 * number).set_rate_limit(100).set_global_limit(5)
    queue("double").submit(4).result(PATIENCE)
    eventually(lambda: queue.stats()["in-progress"] == 0)
    before = footprint(folder)
    connection = sqlite3.connect(folder / "tasks.db")
    version = connection.execute("PRAGMA data_version").fetchall()
    threading.Event().wait(0.5)  # about ten polls: that nothing happens can only be seen by waiting
    assert connection.execute("PRAGMA data_version").fetchall() == version
    connection.close()
    assert footprint(folder) == before
    assert queue("double").submit(5).result(PATIENCE) == 10
    assert footprint(folder) != before, "this test can see a write"


def test_many_producers_and_workers_lose_and_repeat_nothing(queue: TaskQueue, folder: Path):
    producer = """
        import sys
        from tq import tq
        tq.init("tasks.db")
        for number in range(50):
            tq("append").add([sys.argv[1], number])
    """
    worker = """
        import os, sys
        from tq import tq
        tq.init("tasks.db")
        out = os.open("ran.txt", os.O_WRONLY | os.O_APPEND | os.O_CREAT)
        tq("append").set_worker_count(2)
        tq("append").set_worker(lambda input: os.write(out, f"{input[0]} {input[1]}\\n".encode()))
        print("ready", flush=True)
        sys.stdin.readline()
        assert tq.stop()
    """
    with Program(folder, worker) as one, Program(folder, worker) as two:
        assert (one.line(), two.line()) == ("ready", "ready")
        with Program(folder, producer, "a") as a, Program(folder, producer, "b") as b:
            a.ends()
            b.ends()
        assert queue.join(PATIENCE)
        for program in (one, two):
            program.say("stop")
            program.ends()
    lines = (folder / "ran.txt").read_text().split("\n")[:-1]
    assert sorted(lines) == sorted(f"{who} {number}" for who in "ab" for number in range(50))


def test_a_child_that_outlives_its_killed_parent_keeps_nothing_locked(queue: TaskQueue, folder: Path):
    source = """
        import os, time, warnings
        from tq import tq
        warnings.simplefilter("ignore", DeprecationWarning)
        tq.init("tasks.db")

        def handler(_):
            child = os.fork()
            if child == 0:
                os.closerange(0, 3)  # the test reads from these until all have gone
                time.sleep(600)
                os._exit(0)
            print(child, flush=True)
            time.sleep(600)

        tq("slow").set_worker(handler)
        tq.run()
    """
    handle = queue("slow").submit(None)
    with Program(folder, source) as parent:
        child = int(parent.line())
    try:
        queue("slow").set_backoff(base=0).set_worker(lambda _: "taken over")
        assert handle.result(PATIENCE) == "taken over"
    finally:
        os.kill(child, 9)


def test_what_a_child_adds_after_its_parent_has_stopped_is_kept(folder: Path):
    """A parent that believed to be the last on the file would delete the log under the child."""
    printed = run(
        folder,
        """
        import os, warnings
        from tq import tq
        warnings.simplefilter("ignore", DeprecationWarning)
        tq.init("tasks.db")
        tq("email").add("of the parent")
        opened, has_opened = os.pipe()
        stopped, has_stopped = os.pipe()
        if os.fork() == 0:
            tq("email").add("of the child")
            os.write(has_opened, b"!")
            os.read(stopped, 1)
            tq("email").add("accepted, and so kept")
            os._exit(0)
        os.read(opened, 1)
        tq.stop()
        os.write(has_stopped, b"!")
        os.wait()
        tq.init("tasks.db")
        print(tq.stats()["to-do"])
        """,
    )
    assert printed == "3\n"


@pytest.mark.parametrize("durability", ["full", "normal"])
def test_producers_and_workers_may_differ_in_durability(make_queue: MakeQueue, folder: Path, durability: str):
    queue = make_queue(durability=durability)
    with Program(folder, WORKER, SLOW_POLL) as worker:
        assert worker.line() == "idle"
        assert queue("double").submit(4).result(PATIENCE) == 8
