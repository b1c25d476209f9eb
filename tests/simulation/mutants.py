"""Planted bugs. Each is one that a task queue has had, this one included; the simulator must find every one of them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from tests.simulation.sqlite_storage import STATEMENTS, SimulatedDriver
from tests.simulation.world import Engine
from tq import models, ratelimit
from tq.models import ClaimedTask, Exchange, Settlement, TaskSpec, Transition, Want, WorkerRecord
from tq.scheduler import Scheduler
from tq.storage import presence
from tq.storage.driver import Autopsy, Session
from tq.storage.presence import LockFilePresence
from tq.storage.sqlite import SqliteSession
from tq.storage.store import Store
from tq.worker import Worker


def _without(statement: str, guard: str, instead: str = "") -> dict[str, str]:
    text = STATEMENTS[statement]
    assert guard in text, f"{statement} has changed: plant this bug anew"
    return {statement: text.replace(guard, instead)}


# --- claims ------------------------------------------------------------------------------------------------------


class ClaimsWhatItSawBefore(Store):
    """Looks for ready tasks in one transaction, and takes them in another."""

    def exchange(
        self, worker_id: str, settlements: Sequence[Settlement], wants: Sequence[Want], clock: Callable[[], float]
    ) -> Exchange:
        self._seen = {
            want.type: [row[0] for row in self._driver.read(lambda s, w=want: s.rows("seen", (w.type, w.room)))]
            for want in wants
        }
        return super().exchange(worker_id, settlements, wants, clock)

    def _take(self, session: Session, worker_id: str, want: Want, count: int, now: float) -> list[ClaimedTask]:
        claimed: list[ClaimedTask] = []
        for task in self._seen[want.type][:count]:
            claimed += map(ClaimedTask._make, session.rows("take", (worker_id, now, want.max_attempts, task)))
        return claimed


_SEEN = """SELECT id FROM tasks WHERE type = ?1 AND status = 'to-do' AND run_after IS NULL
    ORDER BY priority DESC, id LIMIT ?2"""
_CLAIM_HEAD, _CLAIM_TAIL = STATEMENTS["claim"].partition("WHERE")[0], STATEMENTS["claim"].partition("RETURNING")[2]
_TAKE = f"{_CLAIM_HEAD} WHERE id = ?4 RETURNING {_CLAIM_TAIL}"


class StartsInAnyOrder(Store):
    @staticmethod
    def _take(session: Session, worker_id: str, want: Want, count: int, now: float) -> list[ClaimedTask]:
        return sorted(Store._take(session, worker_id, want, count, now), key=lambda task: task.id[::-1])


# --- deaths ------------------------------------------------------------------------------------------------------


class TakesTheLivingForDead(SimulatedDriver):
    def autopsy(self, session: SqliteSession, worker: WorkerRecord) -> Autopsy | None:
        return super().autopsy(session, worker) or Autopsy(frozenset())


class ForgetsWhatHadStarted(SimulatedDriver):
    def autopsy(self, session: SqliteSession, worker: WorkerRecord) -> Autopsy | None:
        return None if super().autopsy(session, worker) is None else Autopsy(frozenset())


class TakesAllForStarted(SimulatedDriver):
    def autopsy(self, session: SqliteSession, worker: WorkerRecord) -> Autopsy | None:
        return None if super().autopsy(session, worker) is None else Autopsy(None)


class SweepsByAnOldList(SimulatedDriver):
    """Reads which workers there are, waits for the write lock, and removes the files of all others."""

    def enlist(self, worker: WorkerRecord) -> LockFilePresence:
        known = {row[0] for row in self.read(lambda session: session.rows("list_workers"))}
        with self._lock.held():
            presence.sweep(self.folder, known)
        return super().enlist(worker)


class _AnyVersion(frozenset[Any]):
    def __contains__(self, claim: object) -> bool:
        assert isinstance(claim, tuple)
        return any(task == claim[0] for task, _ in self)


class ListsTasksNotClaims(SimulatedDriver):
    def autopsy(self, session: SqliteSession, worker: WorkerRecord) -> Autopsy | None:
        found = super().autopsy(session, worker)
        return found if found is None or found.started is None else Autopsy(_AnyVersion(found.started))


class StrikesOffBeforeTheCommit(Worker):
    def _exchange(self, wants: list[Want]) -> None:
        for job, _ in self._unsettled:
            self._presence.settled(job.task.id)
        super()._exchange(wants)


# --- commits of unknown fate -------------------------------------------------------------------------------------


class NeverLooksBack(Worker):
    def _reconcile(self) -> None:
        self._in_doubt = False


class LeavesInDoubt(Worker):
    """Goes home as soon as it knows of nothing more to do."""

    def _guarded_step(self) -> float:
        seconds = super()._guarded_step()
        if self.stopping and not self._jobs:
            self._in_doubt = self.in_trouble = False
        return seconds


class HurriesWhileTheDiskFails(Worker):
    def _guarded_step(self) -> float:
        patience, self._presence.wait = self._presence.wait, lambda seconds: False
        try:
            return super()._guarded_step()
        finally:
            self._presence.wait = patience


# --- side tables, limits, retries --------------------------------------------------------------------------------


class AddsOneByOne(Store):
    def add(self, specs: Sequence[TaskSpec]) -> list[str]:
        return [Store.add(self, [spec])[0] for spec in specs]


class AddsInputsLater(Store):
    def _insert(self, session: Session, specs: Sequence[TaskSpec]) -> list[str]:
        self._late = [(spec.id, spec.input) for spec in specs]
        session.change_each("insert_task", [spec._replace(input=None) for spec in specs])  # type: ignore[arg-type]
        return [spec.id for spec in specs]

    def add(self, specs: Sequence[TaskSpec]) -> list[str]:
        ids = super().add(specs)
        late, self._late = self._late, []
        self._driver.write(lambda session: [session.change("insert_input", row) for row in late])
        return ids


class RefillsTwice(Store):
    """A worker reads the clock, waits for the write lock, turns the bucket's time back, and the same seconds flow in
    again."""

    def exchange(
        self, worker_id: str, settlements: Sequence[Settlement], wants: Sequence[Want], clock: Callable[[], float]
    ) -> Exchange:
        now = clock()
        return super().exchange(worker_id, settlements, wants, lambda: now)

    @staticmethod
    def _bucket(session: Session, type_: str, rate: float, now: float) -> ratelimit.Bucket:
        bucket = Store._bucket(session, type_, rate, now)
        return bucket._replace(filled_at=min(now, bucket.filled_at))


class WaitsForTheOldTime(Store):
    """After the clock was set back, an empty bucket fills when it is as late again."""

    @staticmethod
    def _bucket(session: Session, type_: str, rate: float, now: float) -> ratelimit.Bucket:
        kept = session.rows("read_bucket", (type_,))
        return ratelimit.refill(ratelimit.Bucket(*kept[0]), rate, now) if kept else ratelimit.full(rate, now)


class RetriesForever(Scheduler):
    def _retry(self, task: ClaimedTask, error: str, delay: float | None, now: float) -> Transition:
        return models.to_retry(task, error, now + 1.0)


MUTANTS = {
    "a settle that does not ask whether the task is still its own": Engine(
        statements=_without("settle", "AND version = ?10 AND status = 'in-progress'", "AND ?10 IS NOT NULL")
    ),
    "a settle that asks for the status alone": Engine(
        statements=_without("settle", "AND version = ?10", "AND ?10 IS NOT NULL")
    ),
    "a claim outside its transaction": Engine(store=ClaimsWhatItSawBefore, statements={"seen": _SEEN, "take": _TAKE}),
    "a claim that goes by age alone": Engine(statements=_without("claim", "priority DESC, ")),
    "a batch that starts in any order": Engine(store=StartsInAnyOrder),
    "a claim that does not count": Engine(
        statements=_without("claim", "attempts = attempts + 1", "attempts = attempts")
    ),
    "a claim in a pause": Engine(
        statements=_without("look_around", "name != 'moving'", "name NOT IN ('moving', 'paused')")
    ),
    "a claim beyond the limit over all workers": Engine(
        statements=_without("running_of_type", "count(*)", "0 * count(*)")
    ),
    "a promotion before its time": Engine(
        statements={
            "promote_due": STATEMENTS["promote_due"].replace("run_after <= ?1", "run_after <= ?1 + 1.0"),
        }
    ),
    "a recovery that does not ask whether the owner lives": Engine(driver=TakesTheLivingForDead),
    "a recovery that gives every attempt back": Engine(driver=ForgetsWhatHadStarted),
    "a recovery that takes every attempt": Engine(driver=TakesAllForStarted),
    "a sweep that goes by an old list of workers": Engine(driver=SweepsByAnOldList),
    "a list of started tasks, not claims": Engine(driver=ListsTasksNotClaims),
    "a start that is struck off before its end is committed": Engine(worker=StrikesOffBeforeTheCommit),
    "a worker that trusts a failed commit to have failed": Engine(worker=NeverLooksBack),
    "a worker that leaves in doubt": Engine(worker=LeavesInDoubt),
    "a worker that hurries while the disk fails": Engine(worker=HurriesWhileTheDiskFails),
    "an add in several transactions": Engine(store=AddsOneByOne),
    "an input that comes after its task": Engine(store=AddsInputsLater),
    "a settle that does not count what has ended": Engine(statements={"count_finished": "SELECT ?1, ?2, ?3"}),
    "a failure that is not told": Engine(statements={"record_attempt": "SELECT ?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8"}),
    "a rate that counts a moment twice": Engine(store=RefillsTwice),
    "a rate that stands still when the clock is set back": Engine(store=WaitsForTheOldTime),
    "a retry without end": Engine(scheduler=RetriesForever),
}

# Where to look for those that need a crowd in one place.
FOCUS = {
    "a settle that asks for the status alone": {"only_type": "slow", "only_faults": frozenset({"error"})},
    "a rate that counts a moment twice": {"only_type": "rated", "only_faults": frozenset({"stop"})},
    "a rate that stands still when the clock is set back": {"only_type": "rated", "only_faults": frozenset({"jump"})},
    "a worker that leaves in doubt": {"only_faults": frozenset({"error", "restart"})},
    "a list of started tasks, not claims": {
        "workers": 4,
        "only_type": "fast",
        "only_faults": frozenset({"crash", "poison"}),
        "many_faults": 30,
    },
    "a sweep that goes by an old list of workers": {
        "workers": 6,
        "only_type": "once",
        "only_faults": frozenset({"crash"}),
    },
}
