"""Any sequence of adds, claims, settlements, crashes, recoveries, pauses, and of what operators do, ends where a simple
model of it ends."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from tests.contract.vocabulary import NOW, Database, FixedClock, enlist, ids, rules, settlement, task_id
from tq.models import (
    EVERY_TYPE,
    MAX_CRASHES,
    Action,
    Cancelled,
    ClaimedTask,
    Failed,
    Outcome,
    Released,
    Retry,
    Succeeded,
    TaskSpec,
    Want,
)
from tq.storage.driver import Presence
from tq.storage.store import Store

TYPES = ["email", "sms"]
MAX_ATTEMPTS = 5
OUTCOMES: list[Outcome] = [
    Succeeded("1"),
    Retry("again"),
    Retry("soon", delay=1),
    Failed("never"),
    Cancelled("no"),
    Released(),
]


@dataclass
class Expected:
    """A task as the model sees it."""

    id: str
    type: str
    priority: int
    run_after: float | None
    status: str = "to-do"
    attempts: int = 0
    crashes: int = 0
    owner: str | None = None
    started: bool = False
    cancelled: bool = False  # or to be cancelled

    @property
    def ended(self) -> bool:
        return self.status in ("success", "cancelled") or (self.status == "failed" and self.run_after is None)

    def end_attempt(self, status: str, run_after: float | None = None) -> None:
        self.status, self.run_after, self.owner, self.started = status, run_after, None, False

    def retry(self, now: float, delay: float | None = None) -> None:
        wait = 10 * 2 ** (self.attempts - 1) if delay is None else delay
        self.end_attempt("failed", now + wait if self.attempts < MAX_ATTEMPTS else None)

    def settle(self, outcome: Outcome, now: float) -> None:
        self.apply(outcome, now)
        self.heed_cancellation(self.crashes)

    def heed_cancellation(self, crashes: int) -> None:
        if self.cancelled and not self.ended:
            self.crashes = crashes
            self.end_attempt("cancelled")

    def apply(self, outcome: Outcome, now: float) -> None:
        match outcome:
            case Succeeded():
                self.end_attempt("success")
            case Failed():
                self.end_attempt("failed")
            case Cancelled():
                self.end_attempt("cancelled")
            case Retry(_, delay):
                self.retry(now, delay)
            case Released():
                self.attempts -= 1
                self.end_attempt("to-do")

    def crash(self, now: float, exact: bool) -> None:
        affordable = self.attempts < MAX_ATTEMPTS and self.crashes + 1 < MAX_CRASHES
        if not self.started and (exact or not affordable):
            self.settle(Released(), now)
            return
        crashes = self.crashes
        self.crashes += 1
        if self.crashes >= MAX_CRASHES:
            self.end_attempt("failed")
        else:
            self.retry(now)
        self.heed_cancellation(crashes)

    def cancel(self) -> bool:
        if self.ended or self.cancelled:
            return False
        self.cancelled = True
        if self.owner is None:
            self.end_attempt("cancelled")
        return True

    def run_again(self) -> bool:
        if self.ended and self.status != "success":
            self.attempts = self.crashes = 0
        elif self.run_after is None:
            return False
        self.cancelled = False
        self.end_attempt("to-do")
        return True


class StoreAgainstModel(RuleBasedStateMachine):
    def __init__(self, database: Database) -> None:
        super().__init__()
        self.database = database
        self.store: Store = database.open()
        self.clock = FixedClock(NOW)
        self.tasks: dict[str, Expected] = {}
        self.keys: dict[tuple[str, str], str] = {}
        self.paused: set[str] = set()
        self.workers: dict[str, Presence] = {}
        self.dead: set[str] = set()
        self.claims: list[tuple[str, ClaimedTask]] = []  # every claim ever made, with its worker
        self.added = self.acted = 0

    @initialize()
    def two_workers_and_some_work(self) -> None:
        for _ in range(2):
            self.hire()
        self.add(TYPES * 3, 0, None, None)

    def hire(self) -> None:
        worker, presence = enlist(self.store)
        self.workers[worker] = presence

    def worker(self, choice: int) -> str:
        return sorted(self.workers)[choice % len(self.workers)]

    # --- what can happen -----------------------------------------------------------------------------------------

    @rule(
        types=st.lists(st.sampled_from(TYPES), min_size=1, max_size=6),
        priority=st.integers(-1, 1),
        delay=st.sampled_from([None, None, None, 5.0]),
        key=st.sampled_from([None, None, None, "a"]),
    )
    def add(self, types: list[str], priority: int, delay: float | None, key: str | None) -> None:
        specs, answers = [], []
        for type_ in types:
            self.added += 1
            run_after = None if delay is None else self.clock.time + delay
            spec = TaskSpec(task_id(self.added), type_, "{}", self.clock.time, run_after, priority, key)
            specs.append(spec)
            answers.append(self.expect(spec))
        assert self.store.add(specs) == answers

    def expect(self, spec: TaskSpec) -> str:
        if spec.key is not None:
            holder = self.keys.setdefault((spec.type, spec.key), spec.id)
            if holder != spec.id:
                return holder
        self.tasks[spec.id] = Expected(spec.id, spec.type, spec.priority, spec.run_after)
        return spec.id

    @rule(choice=st.integers(0, 9))
    def claim_all_that_is_ready(self, choice: int) -> None:
        self.claim(choice, dict.fromkeys(TYPES, 100))

    @rule(choice=st.integers(0, 9), rooms=st.dictionaries(st.sampled_from(TYPES), st.integers(0, 4), min_size=1))
    def claim(self, choice: int, rooms: dict[str, int]) -> None:
        worker = self.worker(choice)
        answer = self.store.exchange(
            worker, [], [Want(type_, room, MAX_ATTEMPTS) for type_, room in rooms.items()], self.clock.now
        )
        assert ids(answer.claimed) == self.expect_claim(worker, rooms)
        assert answer.settings.paused == self.paused
        self.claims += [(worker, task) for task in answer.claimed]

    def expect_claim(self, worker: str, rooms: dict[str, int]) -> list[str]:
        free = {type_: room for type_, room in rooms.items() if not self.paused & {type_, EVERY_TYPE}}
        if free:
            self.promote()
        claimed = [task for type_, room in free.items() for task in self.ready(type_)[:room]]
        for task in claimed:
            task.status, task.owner, task.attempts = "in-progress", worker, task.attempts + 1
        return [task.id for task in claimed]

    def promote(self) -> None:
        for task in self.tasks.values():
            if task.run_after is not None and task.run_after <= self.clock.time:
                task.status, task.run_after = "to-do", None

    def ready(self, type_: str) -> list[Expected]:
        ready = [
            task
            for task in self.tasks.values()
            if task.type == type_ and task.status == "to-do" and task.run_after is None
        ]
        return sorted(ready, key=lambda task: (-task.priority, task.id))

    @precondition(lambda self: self.owned())
    @rule(choice=st.integers(0, 99))
    def start_a_handler(self, choice: int) -> None:
        worker, task = self.pick(choice)
        self.workers[worker].started(task)
        self.tasks[task.id].started = True

    @precondition(lambda self: self.owned())
    @rule(choice=st.integers(0, 99), outcome=st.sampled_from(OUTCOMES))
    def settle(self, choice: int, outcome: Outcome) -> None:
        worker, task = self.pick(choice)
        answer = self.store.exchange(worker, [settlement(task, outcome, self.clock.time)], [], self.clock.now)
        assert answer.lost == []
        self.workers[worker].settled(task.id)
        self.tasks[task.id].settle(outcome, self.clock.time)

    def owned(self) -> list[tuple[str, ClaimedTask]]:
        """The claims that hold, of workers that live."""
        latest = {task.id: (worker, task) for worker, task in self.claims}
        return [(worker, task) for worker, task in latest.values() if self.owner(task) == worker in self.workers]

    def owner(self, task: ClaimedTask) -> str | None:
        return self.tasks[task.id].owner if task.id in self.tasks else None

    def pick(self, choice: int) -> tuple[str, ClaimedTask]:
        owned = self.owned()
        return owned[choice % len(owned)]

    @precondition(lambda self: self.claims)
    @rule(choice=st.integers(0, 99), outcome=st.sampled_from(OUTCOMES))
    def settle_what_is_long_gone(self, choice: int, outcome: Outcome) -> None:
        held = {task for _, task in self.owned()}
        worker, task = self.claims[choice % len(self.claims)]
        if task not in held and self.owner(task) != worker:
            answer = self.store.exchange(worker, [settlement(task, outcome, self.clock.time)], [], self.clock.now)
            assert answer.lost == [task]

    @rule(choice=st.integers(0, 99))
    def die(self, choice: int) -> None:
        """Rather one that has something to lose."""
        worker = self.pick(choice)[0] if self.owned() else self.worker(choice)
        self.database.kill(self.workers.pop(worker))
        self.dead.add(worker)
        self.hire()

    @rule(choice=st.integers(0, 9))
    def recover(self, choice: int) -> None:
        recovered = self.store.recover(self.worker(choice), rules(self.clock).decide, self.clock.time)
        orphans = [task for task in self.tasks.values() if task.owner in self.dead]
        assert sorted(ids(recovered)) == sorted(task.id for task in orphans)
        for task in orphans:
            task.crash(self.clock.time, self.database.exact)
        self.dead.clear()

    @rule(choices=st.lists(st.integers(0, 99), min_size=1, max_size=4))
    def cancel(self, choices: list[int]) -> None:
        asked = self.some(choices)
        changed = self.store.operators.cancel(asked, self.action("cancel"))
        assert sorted(changed) == [id_ for id_ in asked if self.tasks[id_].cancel()]

    @rule(choices=st.lists(st.integers(0, 99), min_size=1, max_size=4))
    def run_again(self, choices: list[int]) -> None:
        asked = self.some(choices)
        changed = self.store.operators.retry(asked, self.action("retry"))
        assert sorted(changed) == [id_ for id_ in asked if self.tasks[id_].run_again()]

    @rule(choices=st.lists(st.integers(0, 99), min_size=1, max_size=4))
    def delete(self, choices: list[int]) -> None:
        asked = self.some(choices)
        changed = self.store.operators.delete(asked, self.action("delete"))
        assert sorted(changed) == [id_ for id_ in asked if self.tasks[id_].ended]
        for id_ in changed:
            del self.tasks[id_]
        self.keys = {key: id_ for key, id_ in self.keys.items() if id_ in self.tasks}

    def some(self, choices: list[int]) -> list[str]:
        known = sorted(self.tasks)
        return sorted({known[choice % len(known)] for choice in choices}) if known else []

    def action(self, name: str) -> Action:
        self.acted += 1
        return Action(task_id(self.acted), self.clock.time, "ann", name, "some")

    @rule(type_=st.sampled_from([*TYPES, EVERY_TYPE]))
    def pause_or_resume(self, type_: str) -> None:
        if self.paused:  # rather this: while much is paused nothing happens
            type_ = min(self.paused)
            self.store.resume(type_)
        else:
            self.store.pause(type_)
        self.paused ^= {type_}

    @rule()
    def pause_all_of_it_for_a_moment(self) -> None:
        """A type that was paused by itself stays so when the whole queue resumes."""
        self.store.pause(EVERY_TYPE)
        paused, self.paused = self.paused, self.paused | {EVERY_TYPE}
        self.claim_all_that_is_ready(0)
        self.store.resume(EVERY_TYPE)
        self.paused = paused - {EVERY_TYPE}

    @rule(seconds=st.sampled_from([0.0, 0.5, 1.0, 10.0, 60.0]))
    def advance_the_clock(self, seconds: float) -> None:
        self.clock.time += seconds

    # --- what must hold at any time ------------------------------------------------------------------------------

    @invariant()
    def the_counts_agree(self) -> None:
        stats = self.store.stats()
        expected = Counter((task.type, task.status) for task in self.tasks.values())
        counted = {(type_, status): n for type_, found in stats["byType"].items() for status, n in found.items()}
        assert counted == dict(expected)
        assert self.store.unfinished() == any(not task.ended for task in self.tasks.values())
        assert {worker.id for worker in self.store.workers()} == set(self.workers) | self.dead

    def teardown(self) -> None:
        for task in self.tasks.values():
            kept = self.store.get(task.id)
            assert kept is not None
            assert (kept.status, kept.attempts, kept.crashes) == (task.status, task.attempts, task.crashes)
            assert (kept.run_after, kept.finished) == (task.run_after, task.ended)
        self.database.close()


def test_the_store_does_what_the_model_does(new_database: Callable[[], Database]):
    run_state_machine_as_test(
        lambda: StoreAgainstModel(new_database()),
        settings=settings(
            max_examples=60, stateful_step_count=40, deadline=None, suppress_health_check=list(HealthCheck)
        ),
    )
