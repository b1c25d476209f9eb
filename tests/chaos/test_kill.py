"""Workers and producers are killed at random moments; nothing that was accepted may be lost or completed twice."""

from __future__ import annotations

import random
import time

import pytest

from tests.chaos.checker import check, unfinished
from tests.chaos.databases import rows
from tests.chaos.rig import Program, Rig, wait_until

WORKERS, PRODUCERS = 4, 2


class Wake:
    """Measures how long the tasks of killed workers stay claimed."""

    def __init__(self, rig: Rig) -> None:
        self._rig = rig
        self._waiting: dict[str, float] = {}  # killed worker -> when
        self.seconds: list[float] = []

    def kill(self, program: Program) -> None:
        ids = [row[0] for row in rows(self._rig.database, "SELECT id FROM workers WHERE pid = ?", program.pid)]
        program.kill()
        assert program.killed_at is not None
        self._waiting.update(dict.fromkeys(ids, program.killed_at))

    def look(self) -> bool:
        owners = {row[0] for row in rows(self._rig.database, _OWNERS)}
        for worker in [worker for worker in self._waiting if worker not in owners]:
            self.seconds.append(time.monotonic() - self._waiting.pop(worker))
        return not self._waiting

    def watch_for(self, seconds: float) -> None:
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            self.look()
            time.sleep(0.01)


_OWNERS = "SELECT DISTINCT worker_id FROM tasks WHERE status = 'in-progress'"


def _campaign(rig: Rig, tasks: int, kills: int, seed: int) -> list[float]:
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
    rig.stop_all()
    check(rig.database, rig.history, rig.kills())
    assert rig.complaints() == ""
    assert rows(rig.database, "SELECT id FROM workers") == []
    return sorted(wake.seconds)


def _percentile(values: list[float], share: float) -> float:
    return values[min(len(values) - 1, int(len(values) * share))]


def test_killed_workers_and_producers_lose_nothing_and_repeat_nothing(rig: Rig) -> None:
    _campaign(rig, tasks=500, kills=10, seed=1)


@pytest.mark.campaign
@pytest.mark.timeout(600)
def test_a_hundred_kills_over_five_thousand_tasks(rig: Rig) -> None:
    seconds = _campaign(rig, tasks=5000, kills=100, seed=2)
    median, late, worst = (_percentile(seconds, share) for share in (0.5, 0.95, 1.0))
    print(f"\nrecovery after {len(seconds)} kills of workers: median {median:.2f} s, p95 {late:.2f}, worst {worst:.2f}")
    # The promise is 2 s. The machine that runs this may be busy, so the very worst may have been our own waiting.
    assert late <= 2.0
