"""Two machines on one PostgreSQL: processes with folders of their own, which share nothing but the database."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.postgres import new_schema, run_sql, server_url
from tq import TaskQueue

ROOT = Path(__file__).parents[1]
RATE, SECONDS, LIMIT = 50, 6, 3

WORKER = """
import json, sys, time
from tq import TaskQueue
queue = TaskQueue().init(sys.argv[1], schema=sys.argv[2])
starts = open("starts", "a", buffering=1)
def note(what, payload):
    starts.write(json.dumps([what, time.monotonic(), payload]) + "\\n")
def rated(payload):
    note("rated", payload)
def limited(payload):
    note("begin", payload)
    time.sleep(0.02)
    note("end", payload)
queue("rated").set_rate_limit(%d).set_worker_count(4).set_worker(rated)
queue("limited").set_global_limit(%d).set_worker_count(4).set_worker(limited)
queue("ordered").set_worker(lambda payload: note("ordered", payload))
print("ready", flush=True)
sys.stdin.read()
queue.stop()
""" % (RATE, LIMIT)  # noqa: UP031 (it has braces of its own)


class Machine:
    """A worker process in a folder of its own."""

    def __init__(self, folder: Path, schema: str) -> None:
        folder.mkdir()
        self._starts = folder / "starts"
        self._process = subprocess.Popen(
            [sys.executable, "-c", WORKER, server_url(), schema],
            cwd=folder,
            env={"PYTHONPATH": str(ROOT), "PATH": "/usr/bin:/bin"},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        assert self._process.stdout is not None
        assert self._process.stdout.readline() == "ready\n"

    def events(self, *what: str) -> list[tuple[str, float, int]]:
        lines = [json.loads(line) for line in self._starts.read_text().splitlines()]
        return [tuple(event) for event in lines if event[0] in what]

    def close(self) -> None:
        self._process.communicate(timeout=60)


@pytest.mark.timeout(180)
def test_two_machines_share_a_rate_a_limit_and_an_order(tmp_path: Path):
    schema = new_schema()
    queue = TaskQueue().init(server_url(), schema=schema)
    queue("rated").add_many(range(RATE * (SECONDS + 3)))
    queue("limited").add_many(range(100))
    machines = [Machine(tmp_path / name, schema) for name in ("one", "two")]
    try:
        for number in range(100):
            queue("ordered").add(number)
        time.sleep(SECONDS + 1)
    finally:
        for machine in machines:
            machine.close()
        queue.stop()
        run_sql(f"DROP SCHEMA {schema} CASCADE")
    each = [[machine.events("rated") for machine in machines], [machine.events("ordered") for machine in machines]]
    assert all(all(events) for events in each[:1]), "both machines work"
    _rate_is_kept(sorted(moment for events in each[0] for _, moment, _ in events))
    _limit_is_kept([event for machine in machines for event in machine.events("begin", "end")])
    for events in each[1]:  # what one machine starts, it starts in the producer's order
        assert [number for _, _, number in events] == sorted(number for _, _, number in events)
    assert sorted(number for events in each[1] for _, _, number in events) == list(range(100))


def _rate_is_kept(moments: list[float]) -> None:
    """Within 5 %, over all seconds but the first, in which a full bucket is emptied."""
    later = [moment for moment in moments if moment > moments[0] + 1]
    per_second = sum(moment < later[0] + SECONDS - 1 for moment in later) / (SECONDS - 1)
    assert RATE * 0.95 <= per_second <= RATE * 1.05


def _limit_is_kept(events: list[tuple[str, float, int]]) -> None:
    running = most = 0
    for what, _, _ in sorted(events, key=lambda event: event[1]):
        running += 1 if what == "begin" else -1
        most = max(most, running)
    assert most == LIMIT
    assert len(events) == 200
