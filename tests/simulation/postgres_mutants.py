"""Planted bugs of the PostgreSQL store: some that SQLite could have too, and some that only leases and locks have."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

from tests.simulation import mutants
from tests.simulation.postgres_storage import STATEMENTS, PostgresDatabase, SimulatedDriver
from tests.simulation.world import Engine
from tq.models import ClaimedTask, Settlement, WorkerRecord
from tq.storage.driver import Autopsy, Session
from tq.storage.postgres import PostgresSession
from tq.storage.store import Store

Planted = partial(Engine, PostgresDatabase)


def _without(statement: str, guard: str, instead: str = "") -> dict[str, str]:
    text = STATEMENTS[statement]
    assert guard in text, f"{statement} has changed: plant this bug anew"
    return {statement: text.replace(guard, instead)}


class ForgetsWhatHadStarted(SimulatedDriver):
    def autopsy(self, session: PostgresSession, worker: WorkerRecord) -> Autopsy | None:
        return None if super().autopsy(session, worker) is None else Autopsy(frozenset())


class TakesAllForStarted(SimulatedDriver):
    def autopsy(self, session: PostgresSession, worker: WorkerRecord) -> Autopsy | None:
        return None if super().autopsy(session, worker) is None else Autopsy(None)


class NeverSettlesDown(SimulatedDriver):
    """Goes by the leases as soon as the server is there again."""

    def __init__(self, *parts: Any) -> None:
        super().__init__(*parts)
        self._settling_seconds = 0.0


class RecoversByAnOldAutopsy(Store):
    """What was found at the first look is believed when the tasks are taken over."""

    def _recover_one(
        self, session: Session, worker: WorkerRecord, autopsy: Autopsy, settlements: Sequence[Settlement], now: float
    ) -> list[ClaimedTask] | None:
        self._settle(session, worker.id, settlements, now)
        session.change("delete_worker", (worker.id,))
        return [settlement.task for settlement in settlements]


MUTANTS = {
    "a settle that does not ask whether the task is still its own": Planted(
        statements=_without("settle", "AND task.version = done.version AND task.status COLLATE \"C\" = 'in-progress'")
    ),
    "a settle that asks for the status alone": Planted(
        statements=_without("settle", "AND task.version = done.version")
    ),
    "a claim that takes what others are taking": Planted(
        statements={
            "claim": STATEMENTS["claim"].replace("FOR UPDATE SKIP LOCKED", "").replace("AND status = 'to-do'\nR", "\nR")
        }
    ),
    "a claim that goes by age alone": Planted(statements=_without("claim", "priority DESC, ")),
    "a claim that does not count": Planted(
        statements=_without("claim", "attempts = attempts + 1", "attempts = attempts")
    ),
    "a claim in a pause": Planted(
        statements=_without("look_around", "FROM {schema}.settings", "FROM {schema}.settings WHERE name != 'paused'")
    ),
    "a claim beyond the limit over all workers": Planted(
        statements=_without("running_of_type", "count(*)", "0 * count(*)")
    ),
    "limits that are counted by two at once": Planted(
        statements=_without(
            "lock_limits", "pg_advisory_xact_lock(hashtextextended('{schema} limits ' || $1, 0))", "$1::text"
        )
    ),
    "a recovery that gives every attempt back": Planted(driver=ForgetsWhatHadStarted),
    "a recovery that takes every attempt": Planted(driver=TakesAllForStarted),
    "a recovery right after an outage": Planted(driver=NeverSettlesDown),
    "a recovery that goes by an old autopsy": Planted(store=RecoversByAnOldAutopsy),
    "a claim for a worker that is declared dead": Planted(
        statements={"look_around": "SELECT {time}, '[]', NULL::float8, '[]' FROM (SELECT $1::text) AS anybody"}
    ),
    "a claim that does not hold its worker": Planted(statements=_without("look_around", " FOR KEY SHARE")),
    "a start that does not ask for the lease": Planted(
        statements={"mark_started": "UPDATE {schema}.tasks SET started = true WHERE id = $1 AND $2::bigint > 0"}
    ),
    "a start that does not hold its worker": Planted(statements=_without("mark_started", " FOR KEY SHARE")),
    "a worker that trusts a failed commit to have failed": Planted(worker=mutants.NeverLooksBack),
    "a worker that leaves in doubt": Planted(worker=mutants.LeavesInDoubt),
    "an add in several transactions": Planted(store=mutants.AddsOneByOne),
    "a settle that does not count what has ended": Planted(
        statements={"count_finished": "SELECT $1::text, $2::text, $3::bigint"}
    ),
    "a retry without end": Planted(scheduler=mutants.RetriesForever),
    "a settle that lets a cancelled task come again": Planted(
        statements=_without("settle", "AND (task.cancelled_by IS NULL OR done.completed_at IS NOT NULL)")
    ),
    "a worker that drops cancellations": Planted(worker=mutants.DropsCancellations),
    "a cancellation that looks twice": Planted(statements={"hold_tasks": "SELECT $1::text"}),
    "a cancellation of what runs, as if it waited": Planted(
        statements=_without("cancel_waiting", "status IN ('to-do', 'failed') AND")
    ),
    "a cancellation of what has ended": Planted(statements=_without("cancel_waiting", "AND completed_at IS NULL")),
    "a retry of what succeeded": Planted(
        statements=_without("retry_ended", "status = $3::text AND status IN ('failed', 'cancelled') AND")
    ),
    "a deletion of what has not ended": Planted(
        statements=_without(
            "delete_ended", "AND status IN ('success', 'failed', 'cancelled') AND completed_at IS NOT NULL"
        )
    ),
    "a count of ended tasks that only grows": Planted(
        statements=_without("count_finished", "VALUES ($1, $2, $3)", "VALUES ($1, $2, greatest(0, $3))")
    ),
    "a claim by settings that were changed before": Planted(store=mutants.ClaimsByItsOwnSettings),
}

# Where to look for those that need a crowd in one place.
FOCUS: dict[str, dict[str, Any]] = {
    "a settle that does not ask whether the task is still its own": {
        "only_type": "slow",
        "only_faults": frozenset({"stop"}),
    },
    "a claim that goes by age alone": {"only_type": "fast", "only_faults": frozenset()},
    "an add in several transactions": {"only_faults": frozenset({"crash"})},
    "a settle that asks for the status alone": {"only_type": "slow", "only_faults": frozenset({"stop"})},
    "a claim that takes what others are taking": {"only_faults": frozenset({"pause"})},
    "limits that are counted by two at once": {"only_type": "limited", "only_faults": frozenset({"restart"})},
    "a claim beyond the limit over all workers": {"only_type": "limited", "only_faults": frozenset({"restart"})},
    "a recovery that gives every attempt back": {"only_type": "once", "only_faults": frozenset({"crash", "poison"})},
    "a recovery that takes every attempt": {"only_type": "once", "only_faults": frozenset({"crash"})},
    "a recovery right after an outage": {"only_faults": frozenset({"outage"})},
    "a recovery that goes by an old autopsy": {
        "only_type": "slow",
        "only_faults": frozenset({"stop"}),
        "many_faults": 40,
    },
    "a claim for a worker that is declared dead": {"only_faults": frozenset({"stop"})},
    "a claim that does not hold its worker": {"only_faults": frozenset({"stop"}), "many_faults": 40},
    "a start that does not ask for the lease": {"only_type": "once", "only_faults": frozenset({"stop"})},
    "a start that does not hold its worker": {
        "only_type": "once",
        "only_faults": frozenset({"stop"}),
        "many_faults": 40,
    },
    "a worker that trusts a failed commit to have failed": {"only_faults": frozenset({"error"})},
    "a worker that leaves in doubt": {"only_faults": frozenset({"error", "restart"}), "many_faults": 40},
    "a cancellation that looks twice": {
        "workers": 6,
        "only_type": "fast",
        "only_faults": frozenset({"meddling"}),
        "many_faults": 80,
    },
    "a cancellation of what has ended": {"only_type": "once", **mutants.MEDDLING},
    "a claim by settings that were changed before": {"only_type": "slow", "only_faults": frozenset({"meddling"})},
}

# Found by minutes of schedules, not by seconds.
RARE = [
    "a cancellation that looks twice",
    "a cancellation of what has ended",
    "a start that does not ask for the lease",
    "a settle that asks for the status alone",
    "a recovery that goes by an old autopsy",
    "a claim for a worker that is declared dead",
    "a claim that does not hold its worker",
    "a start that does not hold its worker",
    "a recovery right after an outage",
    "a recovery that gives every attempt back",
    "a worker that trusts a failed commit to have failed",
    "an add in several transactions",
    "a worker that leaves in doubt",
]
