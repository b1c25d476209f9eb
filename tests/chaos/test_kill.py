"""Workers and producers are killed at random moments; nothing that was accepted may be lost or completed twice."""

from __future__ import annotations

import random
import time

import pytest

from tests.chaos.checker import check, unfinished
from tests.chaos.databases import PostgresSchema, on, rows
from tests.chaos.rig import Program, Rig, wait_until

WORKERS, PRODUCERS = 4, 2
LOOKS_EVERY = 1.0  # seconds: how often a worker looks for dead ones


class Wake:
    """Measures how long the tasks of killed workers stay claimed."""

    def __init__(self, rig: Rig) -> None:
        self._rig = rig
        self._waiting: dict[str, float] = {}  # killed worker -> when
        self.takeovers: list[tuple[float, float]] = []  # killed when, taken over when

    def kill(self, program: Program) -> None:
        ids = [row[0] for row in rows(self._rig.database, _BUSY, program.pid)]  # who owns nothing is not waited for
        program.kill()
        assert program.killed_at is not None
        self._waiting.update(dict.fromkeys(ids, program.killed_at))

    def look(self) -> bool:
        owners = {row[0] for row in rows(self._rig.database, _OWNERS)}
        for worker in [worker for worker in self._waiting if worker not in owners]:
            self.takeovers.append((self._waiting.pop(worker), time.monotonic()))
        return not self._waiting

    def watch_for(self, seconds: float) -> None:
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            self.look()
            time.sleep(0.01)


_BUSY = (
    "SELECT id FROM workers WHERE pid = ? "
    "AND EXISTS (SELECT 1 FROM tasks WHERE status = 'in-progress' AND worker_id = workers.id)"
)
_OWNERS = "SELECT DISTINCT worker_id FROM tasks WHERE status = 'in-progress'"


def _campaign(rig: Rig, tasks: int, kills: int, seed: int) -> list[tuple[float, float]]:
    chance = random.Random(seed)
    wake = Wake(rig)
    crew = [rig.start_ready("producer", seed + number) for number in range(PRODUCERS)]
    crew += [rig.start_ready("worker") for _ in range(WORKERS)]
    for number in range(kills):
        wake.watch_for(chance.uniform(0.02, 0.4))
        index = chance.randrange(len(crew))
        wake.kill(crew[index])
        crew[index].wait()
        crew[index] = rig.start("producer", 100 + number) if index < PRODUCERS else rig.start("worker")
    wait_until(lambda: wake.look() and len(rig.history.tasks("accepted")) >= tasks, "enough tasks", 120)
    rig.allow("enough")
    for program in crew[:PRODUCERS]:
        assert program.wait() == 0
    wait_until(lambda: unfinished(rig.database) == 0, "every task has ended", 120)
    wait_until(lambda: len(rows(rig.database, "SELECT id FROM workers")) <= WORKERS, "the dead were all found", 120)
    rig.stop_all()
    check(rig.database, rig.history, rig.kills())
    assert rig.complaints() == ""
    assert rows(rig.database, "SELECT id FROM workers") == []
    return wake.takeovers


def _due(rig: Rig, killed_at: float) -> float:
    """When the tasks of a worker that was killed at this moment may be taken over, at the latest.

    The lock of a dead process is free at once. A lease has to run out, and whoever notices must have lived for one
    lease itself: of those who did, the first one counts.
    """
    if not isinstance(rig.database, PostgresSchema):
        return killed_at
    lease, kills = rig.database.lease, rig.kills()
    begun = {event.pid: event.at for event in rig.history.events("ready") if event.pid in _workers(rig)}
    moments = ((max(killed_at, at) + lease + LOOKS_EVERY, kills.get(pid)) for pid, at in begun.items())
    return min(moment for moment, killed in moments if killed is None or killed > moment)


def _workers(rig: Rig) -> set[int]:
    return {program.pid for program in rig.programs if program.name == "worker"}


def _show(rig: Rig, what: str, seconds: list[float]) -> None:
    median, late, worst = (_percentile(seconds, share) for share in (0.5, 0.95, 1.0))
    print(f"\n{type(rig.database).__name__}: {what}: median {median:.2f} s, p95 {late:.2f}, worst {worst:.2f}")


def _percentile(values: list[float], share: float) -> float:
    return sorted(values)[min(len(values) - 1, int(len(values) * share))]


@on("sqlite", "postgres")
def test_killed_workers_and_producers_lose_nothing_and_repeat_nothing(rig: Rig) -> None:
    _campaign(rig, tasks=500, kills=10, seed=1)


@on("sqlite", "postgres")
@pytest.mark.campaign
@pytest.mark.timeout(600)
def test_a_hundred_kills_over_five_thousand_tasks(rig: Rig) -> None:
    takeovers = _campaign(rig, tasks=5000, kills=100, seed=2)
    _show(rig, f"recovery after {len(takeovers)} kills of workers", [freed - killed for killed, freed in takeovers])
    late = [freed - _due(rig, killed) for killed, freed in takeovers]
    _show(rig, "of that beyond what the lease explains", late)
    # The promise is 2 s. The machine that runs this may be busy, so the very worst may have been our own waiting.
    assert _percentile(late, 0.95) <= 2.0
