"""Planted bugs. Each is one that a task queue has had, this one included; the simulator must find every one of them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from tests.simulation.sqlite_storage import STATEMENTS, SimulatedDriver
from tests.simulation.world import Engine
from tq import models, ratelimit
from tq.models import ClaimedTask, Exchange, Settlement, StoredSettings, TaskSpec, Transition, Want, WorkerRecord
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
        self,
        worker_id: str,
        settlements: Sequence[Settlement],
        wants: Sequence[Want],
        clock: Callable[[], float],
        known: StoredSettings | None = None,
    ) -> Exchange:
        self._seen = {
            want.type: [row[0] for row in self._driver.read(lambda s, w=want: s.rows("seen", (w.type, w.room)))]
            for want in wants
        }
        return super().exchange(worker_id, settlements, wants, clock, known)

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
        self,
        worker_id: str,
        settlements: Sequence[Settlement],
        wants: Sequence[Want],
        clock: Callable[[], float],
        known: StoredSettings | None = None,
    ) -> Exchange:
        now = clock()
        return super().exchange(worker_id, settlements, wants, lambda: now, known)

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


# --- operators -----------------------------------------------------------------------------------------------------


class DropsCancellations(Worker):
    def _cancel(self, task_id: str, by: str) -> None: ...


class ListensOnlyWhenItHasTo(Worker):
    """Asks what was cancelled when it has something to settle or to claim anyway."""

    def step(self) -> float:
        self._listen_at = float("inf")
        return super().step()


class ClaimsByItsOwnSettings(Store):
    """By those that the worker knew when it began, whatever has been set since."""

    def exchange(
        self,
        worker_id: str,
        settlements: Sequence[Settlement],
        wants: Sequence[Want],
        clock: Callable[[], float],
        known: StoredSettings | None = None,
    ) -> Exchange:
        return super().exchange(worker_id, settlements, wants, clock)


class LosesWhatWasCancelled(Store):
    """What may not come again because it was cancelled counts as somebody else's."""

    def _settle(
        self, session: Session, worker_id: str, settlements: Iterable[Settlement], now: float
    ) -> list[ClaimedTask]:
        given = list(settlements)
        asked = {task for row in session.rows("asked_to_stop", (worker_id,)) for task in row}
        again = [each for each in given if each.task.id in asked and each.transition.completed_at is None]
        lost = super()._settle(session, worker_id, [each for each in given if each not in again], now)
        return [*lost, *(each.task for each in again)]


_ASKED_TO_STOP = "SELECT id FROM tasks WHERE worker_id = ?1 AND status = 'in-progress' AND cancelled_by IS NOT NULL"

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
    "a settle that lets a cancelled task come again": Engine(
        statements=_without("settle", "AND (cancelled_by IS NULL OR ?7 IS NOT NULL)")
    ),
    "a settle that gives up on what was cancelled": Engine(
        store=LosesWhatWasCancelled, statements={"asked_to_stop": _ASKED_TO_STOP}
    ),
    "a worker that drops cancellations": Engine(worker=DropsCancellations),
    "a worker that hears of cancellations by chance": Engine(worker=ListensOnlyWhenItHasTo),
    "a cancellation that takes a running task from its worker": Engine(
        statements=_without("ask_to_cancel", "cancelled_by = ?2", "cancelled_by = ?2, version = version + 1")
    ),
    "a cancellation of what runs, as if it waited": Engine(
        statements=_without("cancel_waiting", "status IN ('to-do', 'failed') AND")
    ),
    "a cancellation of what has ended": Engine(statements=_without("cancel_waiting", "AND completed_at IS NULL")),
    "a retry of what succeeded": Engine(
        statements=_without("retry_ended", "status = ?3 AND status IN ('failed', 'cancelled') AND")
    ),
    "a retry that gives attempts to what waits": Engine(
        statements=_without("retry_ended", "AND completed_at IS NOT NULL", "AND ?3 = 'failed'")
    ),
    "a retry that stays cancelled": Engine(statements=_without("retry_ended", "cancelled_by = NULL,")),
    "a retry without its attempts": Engine(statements=_without("retry_ended", "attempts = 0, crashes = 0,")),
    "a retry now of what waits for nothing": Engine(statements=_without("hasten", "AND run_after IS NOT NULL")),
    "a deletion of what has not ended": Engine(
        statements=_without(
            "delete_ended", "AND status IN ('success', 'failed', 'cancelled') AND completed_at IS NOT NULL"
        )
    ),
    "a deletion of what waits for its retry": Engine(
        statements=_without("delete_ended", "AND completed_at IS NOT NULL")
    ),
    "a deletion that leaves inputs": Engine(statements={"delete_inputs": "SELECT ?1"}),
    "a deletion that leaves its history": Engine(statements={"delete_attempts": "SELECT ?1"}),
    "a count of ended tasks that only grows": Engine(
        statements=_without("count_finished", "VALUES (?1, ?2, ?3)", "VALUES (?1, ?2, max(0, ?3))")
    ),
    "a claim by settings that were changed before": Engine(store=ClaimsByItsOwnSettings),
}

# Where to look for those that need a crowd in one place.
MEDDLING: dict[str, Any] = {"only_faults": frozenset({"meddling"}), "many_faults": 40}
FOCUS: dict[str, dict[str, Any]] = {
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
    "a worker that trusts a failed commit to have failed": {"only_faults": frozenset({"error"})},
    "a worker that hears of cancellations by chance": {
        "workers": 1,
        "only_type": "limited",
        "only_faults": frozenset({"meddling"}),
    },
    "a deletion of what waits for its retry": {"only_type": "slow", **MEDDLING},
    "a retry that gives attempts to what waits": {"only_type": "slow", **MEDDLING},
    "a claim by settings that were changed before": {"only_type": "rated", **MEDDLING},
}
