"""The store's verbs, written once over named statements: every change of a task that programs and workers make."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from functools import partial

from tq import ratelimit
from tq.models import (
    ClaimedTask,
    Crashed,
    Exchange,
    Outcome,
    QueueStats,
    Released,
    Settlement,
    StoredSettings,
    Task,
    TaskSpec,
    Transition,
    Want,
    WorkerRecord,
    to_cancelled,
)
from tq.storage.driver import Autopsy, Driver, Presence, Row, Session
from tq.storage.minutes import Minutes
from tq.storage.observer import Observer
from tq.storage.operators import OperatorStore
from tq.storage.rows import task_of
from tq.storage.settings import read_settings

_PROMOTED_AT_ONCE = 1000
_LONG_INPUT = 1024  # from here on a side table pays off: 0.8 × at 200 bytes, 2 × at 4 kB (measured)

Decide = Callable[[ClaimedTask, Outcome], Transition]


class Store:
    def __init__(self, driver: Driver) -> None:
        self._driver = driver
        self.operators = OperatorStore(driver)
        self.observer = Observer(driver)
        self.minutes = Minutes(driver)

    # --- accepting -----------------------------------------------------------------------------------------------

    def add(self, specs: Sequence[TaskSpec]) -> list[str]:
        """Accept tasks, all or none; when it returns they are safe. Answers with their ids, or with the id of the
        task that already holds the same key."""

        def operation(session: Session) -> list[str]:
            session.rings = True
            return self._insert(session, specs)

        return self._driver.write(operation, repeatable=True, alone=len(specs) == 1 and not _is_long(specs[0]))

    def _insert(self, session: Session, specs: Sequence[TaskSpec]) -> list[str]:
        accepted = session.change_each("insert_task", [_without_long_input(spec) for spec in specs])
        inputs = [(specs[at].id, specs[at].input) for at in sorted(accepted) if _is_long(specs[at])]
        if inputs:
            session.change_each("insert_input", inputs)
        return [spec.id if at in accepted else self._holder(session, spec) for at, spec in enumerate(specs)]

    def _holder(self, session: Session, spec: TaskSpec) -> str:
        """The id under which a task that was not inserted exists: another's with its key, or its own."""
        if spec.key is None:
            return spec.id
        existing = session.rows("find_key", (spec.type, spec.key))
        # Where several write at once, whoever held the key may have been deleted since.
        return str(existing[0][0]) if existing else self._insert(session, [spec])[0]

    # --- the worker's one transaction ----------------------------------------------------------------------------

    def exchange(
        self,
        worker_id: str,
        settlements: Sequence[Settlement],
        wants: Sequence[Want],
        clock: Callable[[], float],
        known: StoredSettings | None = None,
    ) -> Exchange:
        """Settle what has ended and claim what comes next, together or not at all; but claim nothing if the settings
        are others than those `known` to whoever wants it.

        The time is told inside the transaction, where nobody counts it twice who had to wait: by the database, where
        several machines share it, else by our clock.
        """

        def operation(session: Session) -> Exchange:
            enlisted = session.rows("look_around", (worker_id,))
            time, stored, next_due, to_cancel = enlisted[0] if enlisted else (None, "[]", None, "[]")
            now = clock() if time is None else time
            lost = self._settle(session, worker_id, settlements, now)
            settings = read_settings(stored)
            open_ = enlisted and (known is None or known == settings)
            free = [want for want in wants if not settings.holds_back(want.type)] if open_ else []
            dues = [due for due in (next_due, *(each.transition.run_after for each in settlements)) if due is not None]
            claimed, next_at = self._claim(session, worker_id, free, now, dues, clock) if free else ([], None)
            session.hungry |= len(claimed) < sum(want.room for want in wants)
            session.rings |= any(settlement.frees_place for settlement in settlements)
            cancelled = dict(json.loads(to_cancel)) if to_cancel != "[]" else {}
            again_in = None if next_at is None else next_at - now
            return Exchange(claimed, lost, again_in, settings, cancelled, bool(enlisted))

        return self._driver.write(operation)

    def _settle(
        self, session: Session, worker_id: str, settlements: Iterable[Settlement], now: float
    ) -> list[ClaimedTask]:
        """Settle each task that is still ours; answer with those that were not."""
        given = sorted(settlements, key=_id)  # in one order, so that no two wait for each other
        rows = [(*transition, now, task.id, task.version) for task, transition, _, _ in given]
        still_ours = session.change_each("settle", rows) if rows else set()
        settled = [given[at] for at in sorted(still_ours)]
        ended = Counter(
            (task.type, transition.status) for task, transition, _, _ in settled if transition.completed_at is not None
        )
        session.rings |= any(transition.completed_at is None for _, transition, _, _ in settled)
        attempts = [_attempt(settlement, worker_id, now) for settlement in settled if _worth_telling(settlement)]
        if attempts:
            session.change_each("record_attempt", attempts)
        for (type_, status), count in sorted(ended.items()):  # in one order, so that no two wait for each other
            session.change("count_finished", (type_, status, count))
        refused = [settlement for at, settlement in enumerate(given) if at not in still_ours]
        again = [settlement for settlement in refused if settlement.transition.completed_at is None]
        if again:  # it may still be ours, and not come again because it is to be cancelled
            lost = set(self._settle(session, worker_id, [_cancelled(each, now) for each in again], now))
            return [each.task for each in refused if each.transition.completed_at is not None or each.task in lost]
        return [settlement.task for settlement in refused]

    def _claim(
        self,
        session: Session,
        worker_id: str,
        wants: Sequence[Want],
        now: float,
        moments: list[float],
        clock: Callable[[], float],
    ) -> tuple[list[ClaimedTask], float | None]:
        """Claim what is wanted and ready, and before that promote what is due, if one of the moments has come. Answers
        also with the next moment at which there may be more."""
        if moments and min(moments) <= now:
            session.change("promote_due", (now, _PROMOTED_AT_ONCE))
            moments = [due for (due,) in session.rows("next_due") if due is not None]
        claimed: list[ClaimedTask] = []
        for want in sorted(wants, key=_shared):
            if _shared(want):  # counted and spent by one worker at a time
                ((time,),) = session.rows("lock_limits", (want.type,))
                now = clock() if time is None else time
            claimed += self._claim_type(session, worker_id, want, now, moments)
        return claimed, min(moments, default=None)

    def _claim_type(
        self, session: Session, worker_id: str, want: Want, now: float, moments: list[float]
    ) -> list[ClaimedTask]:
        """Claim one type within its shared limits; note in `moments` when a token is due."""
        count = want.room
        if want.global_limit is not None:
            count = min(count, want.global_limit - session.rows("running_of_type", (want.type,))[0][0])
        bucket = None
        if want.rate_limit is not None:
            bucket = self._bucket(session, want.type, want.rate_limit, now)
            count = min(count, ratelimit.available(bucket))
        rows = self._take(session, worker_id, want, count, now) if count > 0 else []
        if bucket is not None and want.rate_limit is not None:
            bucket = ratelimit.take(bucket, len(rows))
            if rows:
                session.change("write_bucket", (want.type, *bucket))
            if len(rows) < want.room and not ratelimit.available(bucket):
                moments.append(ratelimit.next_token_at(bucket, want.rate_limit))
        return rows

    @staticmethod
    def _bucket(session: Session, type_: str, rate: float, now: float) -> ratelimit.Bucket:
        rows = session.rows("read_bucket", (type_,))
        if not rows:
            return ratelimit.full(rate, now)
        kept = ratelimit.Bucket(*rows[0])
        bucket = ratelimit.refill(kept, rate, now)
        if bucket.filled_at < kept.filled_at:  # the clock was set back: without this no token comes until it is there
            session.change("write_bucket", (type_, *bucket))
        return bucket

    @staticmethod
    def _take(session: Session, worker_id: str, want: Want, count: int, now: float) -> list[ClaimedTask]:
        rows = session.rows("claim", (worker_id, now, want.max_attempts, want.type, count))
        claimed = [ClaimedTask._make(row) for row in rows]
        # RETURNING promises no order, and SQLite keeps none: without this FIFO is lost inside a batch (measured).
        claimed.sort(key=lambda task: (-task.priority, task.id))
        return claimed

    # --- workers and their deaths --------------------------------------------------------------------------------

    def enlist(self, worker: WorkerRecord) -> Presence:
        """Show that this worker lives, before it owns anything."""
        presence = self._driver.enlist(worker)
        try:
            self.enlist_again(worker)
        except BaseException:
            presence.leave()
            raise
        return presence

    def enlist_again(self, worker: WorkerRecord) -> None:
        """For a worker that others took for dead: it may claim from here on."""
        self._driver.write(lambda session: session.change("insert_worker", worker), repeatable=True)

    def retire(self, worker_id: str) -> None:
        self._driver.write(lambda session: session.change("delete_worker", (worker_id,)), repeatable=True)

    def workers(self) -> list[WorkerRecord]:
        return [WorkerRecord._make(row) for row in self._driver.read(lambda session: session.rows("list_workers"))]

    def owned_by(self, worker_id: str) -> list[ClaimedTask]:
        """What a worker has claimed and not settled, once no exchange of it is under way any more: one whose answer was
        lost may still be on its way in the database."""

        def operation(session: Session) -> list[Row]:
            session.rows("hold_worker", (worker_id,))
            return session.rows("owned_by", (worker_id,))

        return [ClaimedTask._make(row) for row in self._driver.write(operation)]

    def recover(self, my_id: str, decide: Decide, now: float) -> list[ClaimedTask]:
        """Take over from workers that have died. A task whose handler never started gets its attempt back."""
        recovered: list[ClaimedTask] = []
        for worker, autopsy, tasks in self._driver.read(partial(self._dead_workers, my_id=my_id), False):
            # Decided here, and not in the transaction: a rule of set_backoff() is the program's own code.
            settlements = [Settlement(task, decide(task, _end_of(task, worker, autopsy))) for task in tasks]
            taken_over = self._driver.write(
                partial(self._recover_one, worker=worker, autopsy=autopsy, settlements=settlements, now=now)
            )
            if taken_over is not None:
                self._driver.bury(worker)
                recovered += taken_over
        return recovered

    def _dead_workers(self, session: Session, my_id: str) -> list[tuple[WorkerRecord, Autopsy, list[ClaimedTask]]]:
        found = []
        for worker in map(WorkerRecord._make, session.rows("list_workers")):
            autopsy = self._driver.autopsy(session, worker) if worker.id != my_id else None
            if autopsy is not None:
                owned = session.rows("owned_by", (worker.id,))
                found.append((worker, autopsy, [ClaimedTask._make(row) for row in owned]))
        return found

    def _recover_one(
        self, session: Session, worker: WorkerRecord, autopsy: Autopsy, settlements: Sequence[Settlement], now: float
    ) -> list[ClaimedTask] | None:
        """None where something has changed since the look: another one has recovered the worker, or it lives after all,
        or it claimed, started or settled something before it died. What it left is needed for another look."""
        held = session.rows("hold_worker", (worker.id,))
        owned = {ClaimedTask._make(row) for row in session.rows("owned_by", (worker.id,))}
        tasks = [settlement.task for settlement in settlements]
        if not held or owned != set(tasks) or self._driver.autopsy(session, worker) != autopsy:
            return None
        self._settle(session, worker.id, settlements, now)
        session.change("delete_worker", (worker.id,))
        return tasks

    # --- looking -------------------------------------------------------------------------------------------------

    def get(self, task_id: str) -> Task | None:
        rows = self._driver.read(lambda session: session.rows("get_task", (task_id,)))
        return task_of(rows[0]) if rows else None

    def attempts(self, task_id: str) -> list[Row]:
        return self._driver.read(lambda session: session.rows("get_attempts", (task_id,)))

    def status(self, task_id: str) -> tuple[str, bool] | None:
        """The status and whether it is final; None where there is no such task."""
        rows = self._driver.read(lambda session: session.rows("get_status", (task_id,)))
        return (rows[0][0], rows[0][1] is not None) if rows else None

    def unfinished(self) -> bool:
        return bool(self._driver.read(lambda session: session.rows("count_unfinished")))

    def stats(self) -> QueueStats:
        return self._driver.read(_count)

    # --- steering ------------------------------------------------------------------------------------------------

    def pause(self, type_: str) -> None:
        self._driver.write(lambda session: session.change("pause_type", (type_,)), repeatable=True)

    def resume(self, type_: str) -> None:
        def operation(session: Session) -> None:
            session.rings = True
            session.change("resume_type", (type_,))

        self._driver.write(operation, repeatable=True)

    def settings(self) -> StoredSettings:
        return read_settings(self._driver.read(lambda session: session.rows("stored_settings"))[0][0])

    def describe_worker(self, worker_id: str, about: str) -> None:
        """Keep what a worker says of itself, for those who look."""
        self._driver.write(lambda session: session.change("describe_worker", (worker_id, about)))

    def close(self) -> None:
        self._driver.close()


def _is_long(spec: TaskSpec) -> bool:
    return len(spec.input) > _LONG_INPUT


def _without_long_input(spec: TaskSpec) -> TaskSpec:
    return spec._replace(input=None) if _is_long(spec) else spec  # type: ignore[arg-type]


def _shared(want: Want) -> str:
    """The type of a want whose limits hold over all workers; '' where it has none. Those with limits come last, in one
    order for everybody: whoever holds the limits of one type waits only for types behind it."""
    return want.type if want.rate_limit is not None or want.global_limit is not None else ""


def _id(settlement: Settlement) -> str:
    return settlement.task.id


def _cancelled(settlement: Settlement, now: float) -> Settlement:
    attempts = settlement.transition.attempts  # one that never started has its attempt back
    transition = to_cancelled(settlement.task, "cancelled before it came again", now)._replace(attempts=attempts)
    return settlement._replace(transition=transition, details=None)


def _worth_telling(settlement: Settlement) -> bool:
    return settlement.transition.status not in ("success", "to-do")  # given back: nothing happened


def _attempt(settlement: Settlement, worker_id: str, now: float) -> Row:
    task, transition, details, _ = settlement
    outcome = "retry" if transition.completed_at is None else transition.status
    error = details or transition.error
    return task.id, task.version, task.attempts, outcome, error, task.claimed_at, now, worker_id


def _end_of(task: ClaimedTask, worker: WorkerRecord, autopsy: Autopsy) -> Outcome:
    """What became of a task whose worker has died."""
    if autopsy.started is None or (task.id, task.version) in autopsy.started:
        return Crashed(f"worker {worker.pid} on {worker.host} died while it ran this task")
    return Released()


def _count(session: Session) -> QueueStats:
    by_type: dict[str, Counter[str]] = {}
    totals: Counter[str] = Counter()
    rows: list[Row] = [(type_, "to-do", count) for type_, count in session.rows("count_ready")]
    rows += [(type_, "in-progress", count) for type_, count in session.rows("count_running")]
    rows += session.rows("count_waiting")
    rows += session.rows("count_ended")
    for type_, status, count in rows:
        totals[status] += count
        by_type.setdefault(type_, Counter())[status] += count
    statuses = ("to-do", "in-progress", "success", "failed", "cancelled")
    return {
        **{status: totals[status] for status in statuses},
        "byType": {type_: dict(counts) for type_, counts in sorted(by_type.items())},
    }
