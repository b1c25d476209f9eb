"""What must hold at every moment of a schedule, checked by playing its history again, event by event.

A rule is a method with a sentence; it reports against itself. The rules know nothing of how tq works, only what it
promises: they read rows as they were committed, and what the virtual handlers did.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from typing import NamedTuple

from tests.simulation.database import Database
from tests.simulation.history import Event, Row
from tests.simulation.lanes import output_of
from tests.simulation.meddling import Meddling
from tests.simulation.scenario import Scenario
from tests.simulation.silences import Silences
from tests.simulation.steering import Steering
from tests.simulation.world import World
from tq.models import MAX_CRASHES, TaskSpec, TaskType
from tq.ratelimit import capacity

Attempt = tuple[str, int]  # a task and the version that its claim gave it


class Violation(NamedTuple):
    rule: str
    task: str | None
    what: str


class Replay:
    """The state of the queue as the history tells it, and the rules that each event must keep."""

    def __init__(self, scenario: Scenario, database: Database) -> None:
        self.violations: list[Violation] = []
        self._scenario = scenario
        self._exact, self._one_writer = database.exact, database.one_writer
        self._hurry = database.hurry
        self._silences = Silences(database.lease_seconds)
        self._steering = Steering(scenario.types, database.one_writer)
        self._rows: dict[str, Row] = {}
        self._specs: dict[str, TaskSpec] = {}
        self._paused: set[str] = set()
        self._ended_workers: set[str] = set()
        self._meddling = Meddling(self._check, self._rows, self._ended_workers)
        self._marked: set[Attempt] = set()
        self._begun: set[Attempt] = set()
        self._struck: set[Attempt] = set()
        self._outcomes: dict[Attempt, str] = {}
        self._running: dict[str, tuple[str, int]] = {}  # by task: who runs it now, and which claim
        self._kinds: dict[Attempt, TaskType] = {}  # as they were to be run when they were claimed
        self._starts: Counter[str] = Counter()
        self._allowed: Counter[str] = Counter()  # the most attempts that any claim allowed
        self._retried: dict[str, int] = {}  # the version from which on a task has all of its attempts anew
        self._taken_over: set[Attempt] = set()  # from workers that live, but were silent for too long
        self._given_back: set[Attempt] = set()
        self._seen_paused: dict[str, set[str]] = {}  # by process, when it looked
        self._seen_ready: dict[tuple[str, str], dict[str, Row]] = {}  # by process and type, where nobody else was there
        self._claimed: list[str] = []  # in the transaction that is being read
        self._claim_moments: dict[str, list[tuple[float, float | None]]] = defaultdict(list)  # by type, with the rate
        self._failures: dict[str, list[float]] = defaultdict(list)  # by process
        self._latest_wall = 0.0
        self._event: Event | None = None

    def play(self, events: list[Event]) -> list[Violation]:
        for event in events:
            self._event = event
            self._latest_wall = event.latest_wall
            for listener in (self._silences, self._steering, self._meddling):
                listener.hear(event)
            rule: Callable[[Event], None] | None = getattr(self, "_on_" + event.what.replace(" ", "_"), None)
            if rule is not None:
                rule(event)
        self._check_rates()
        return self.violations

    def _check(self, holds: bool, rule: str, task: str | None, what: str = "") -> None:
        if not holds:
            at = f"at {self._event.at:.4f}, by {self._event.who}" if self._event else ""
            self.violations.append(Violation(rule, task, f"{what} {at}".strip()))

    # --- what actors did -----------------------------------------------------------------------------------------

    def _on_adding(self, event: Event) -> None:
        for spec in event.facts.get("specs", ()):
            self._specs[spec.id] = spec

    def _on_paused(self, event: Event) -> None:
        self._paused.add(event.facts["type"])

    def _on_resumed(self, event: Event) -> None:
        self._paused.discard(event.facts["type"])

    def _on_killed(self, event: Event) -> None:
        self._ended_workers.add(event.facts["worker"])
        for task in [task for task, (who, _) in self._running.items() if who == event.who]:
            del self._running[task]

    _on_left = _on_killed

    def _on_failed(self, event: Event) -> None:
        moments = self._failures[event.who]
        moments.append(event.at)
        hurried = len(moments) > self._hurry and event.at - moments[-1 - self._hurry] < 1.0
        self._check(not hurried, "a failing disk is left alone for a while", None)

    def _on_handed(self, event: Event) -> None:
        order = [self._place(task) for task in event.facts["ids"] if task in self._rows]
        self._check(order == sorted(order), "a batch starts in the order of its tasks", None, str(event.facts["ids"]))

    def _on_asked(self, event: Event) -> None:
        """Somebody looks at what others may change before it commits: it goes by what it has seen."""
        if event.facts["statement"] == "look_around":
            self._seen_paused[event.who] = set(self._paused)
        else:
            type_ = event.facts["asked"][3]
            ready = {task: row for task, row in self._rows.items() if row.type == type_ and row.ready}
            self._seen_ready[event.who, type_] = ready if event.facts["alone"] else {}

    # --- attempts ------------------------------------------------------------------------------------------------

    def _on_marked(self, event: Event) -> None:
        self._marked.add(_attempt(event))

    def _on_began(self, event: Event) -> None:
        task, attempt, spec = event.task, _attempt(event), self._specs[event.task or ""]
        row = self._rows.get(spec.id)
        self._starts[spec.id] += attempt[1] > self._retried.get(spec.id, 0)
        self._check(attempt not in self._begun, "a claim starts once", task)
        owned = row is not None and row.running and row.version == attempt[1]
        self._check(owned or attempt in self._taken_over, "a handler starts only what its worker owns", task)
        self._check(attempt not in self._given_back, "what was given back does not start", task)
        self._check(task not in self._running, "attempts never overlap", task, f"{self._running.get(spec.id)} runs it")
        self._check(self._starts[spec.id] <= self._allowed[spec.id], "no more starts than attempts are allowed", task)
        self._check(event.facts["input"] == spec.input, "a handler gets the input that was accepted", task)
        started_early = spec.run_after is not None and spec.run_after > self._latest_wall
        hastened = spec.id in self._retried
        self._check(not started_early or hastened, "nothing starts before its time", task)
        self._meddling.check_start(event, spec.id)
        self._begun.add(attempt)
        self._running[spec.id] = (event.who, attempt[1])
        self._check_places(event.who, attempt)

    def _check_places(self, who: str, attempt: Attempt) -> None:
        type_ = self._specs[attempt[0]].type
        places = self._kinds.get(attempt, self._scenario.types[type_]).worker_count
        running = sum(runs == who and self._specs[task].type == type_ for task, (runs, _) in self._running.items())
        self._check(running <= places, "a worker runs no more than its places", attempt[0], f"{running} in {places}")

    def _on_struck(self, event: Event) -> None:
        self._struck.add(_attempt(event))

    def _on_ended(self, event: Event) -> None:
        attempt, outcome = _attempt(event), event.facts["outcome"]
        self._outcomes[attempt] = outcome
        stopped = attempt in self._struck
        self._check(not stopped or outcome != "Succeeded", "what was stopped does not succeed", event.task)
        self._on_gave_up(event)

    def _on_gave_up(self, event: Event) -> None:
        """Given up on: its slot is replaced, it may be retried, and nobody can make its thread stop."""
        if self._running.get(event.task or "") == (event.who, event.facts["version"]):
            del self._running[event.task or ""]

    # --- committed changes ---------------------------------------------------------------------------------------

    def _on_deleted(self, event: Event) -> None:
        assert event.task is not None
        self._meddling.check_deleted(event, event.task, event.facts["old"])
        del self._rows[event.task]

    def _on_changed(self, event: Event) -> None:
        old, new, task = event.facts["old"], event.facts["new"], event.task
        assert task is not None
        if old is None:
            self._check(new.status == "to-do" and not new.attempts, "a task begins as to-do", task)
        elif self._meddling.did(event):
            self._meddling.check_change(event, task, old, new)
            self._note_retry(task, old, new)
        else:
            self._meddling.check_others(event, task, old, new)
            self._check_worked(event, task, old, new)
        self._check(old is None or old == self._rows[task], "the history is whole", task)
        self._check(new.crashes <= MAX_CRASHES, "three crashes set a task aside", task)
        self._rows[task] = new

    def _note_retry(self, task: str, old: Row, new: Row) -> None:
        if old.ended and new.ready:
            self._starts[task] = self._allowed[task] = 0
        if new.ready:
            self._retried[task] = new.version if old.ended else self._retried.get(task, 0)

    def _check_worked(self, event: Event, task: str, old: Row, new: Row) -> None:
        if old.running:
            self._check_settled(event, task, old, new)
        elif new.running:
            self._check_claimed(event, task, old, new)
        else:
            self._check_promoted(task, old, new)

    def _check_claimed(self, event: Event, task: str, old: Row, new: Row) -> None:
        worker = event.facts["worker"]
        self._claimed.append(task)
        kind = self._kinds[task, new.version] = self._steering.kind(event.who, new.type)
        # Who read the clock and then had to wait for its turn claims no earlier than whoever had it before.
        before = max((moment for moment, _ in self._claim_moments[new.type][-1:]), default=0.0)
        self._claim_moments[new.type].append((max(new.last_attempt_at or 0.0, before), kind.rate_limit))
        self._check(old.ready, "only what is ready is claimed", task)
        self._check(new.attempts == old.attempts + 1, "a claim counts as an attempt", task)
        allowed = self._specs[task].max_attempts or kind.max_attempts
        self._check(new.attempts_allowed == allowed, "a claim goes by the settings that hold", task, str(kind))
        self._allowed[task] = max(self._allowed[task], allowed)  # who lowers it takes back nothing that was promised
        self._check(new.attempts <= self._allowed[task], "attempts stay within their limit", task)
        living = self._silences.enlisted(worker) if self._silences.count else worker not in self._ended_workers
        self._check(new.worker_id == worker and living, "claimed by who lives", task)
        paused = self._paused if self._one_writer else self._seen_paused.get(event.who, set())
        self._check(not paused & {"", new.type}, "nothing is claimed while paused", task)

    def _check_promoted(self, task: str, old: Row, new: Row) -> None:
        self._check(new.ready and old.run_after is not None, "only waiting tasks become ready", task)
        self._check((old.run_after or 0.0) <= self._latest_wall, "nothing is ready before its time", task)
        self._check(new.attempts == old.attempts, "waiting costs no attempt", task)

    def _check_settled(self, event: Event, task: str, old: Row, new: Row) -> None:
        attempt = (task, old.version)
        mine = event.facts["worker"] == old.worker_id
        if not mine and old.worker_id not in self._ended_workers:
            self._take_over(event, attempt, old.worker_id or "")
        if new.status == "success":
            returned = f'"{output_of(*attempt)}"'
            self._check(mine and self._outcomes.get(attempt) == "Succeeded", "success is what a handler said", task)
            self._check(new.output == returned, "the output is that of the attempt which was settled", task)
        elif new.ready:
            self._given_back.add(attempt)
            self._check(attempt not in self._begun, "what has started is not given back", task)
            self._check(new.attempts == old.attempts - 1, "what never started gets its attempt back", task)
        elif new.status == "cancelled":
            self._check_stopped(attempt, old, new)
        else:
            self._check(new.status == "failed", "no other way out of a claim", task, new.status)
            spent = attempt in self._marked or (not self._exact and _affordable(old))
            self._check(spent, "what never started gets its attempt back", task)
            self._check(new.attempts == old.attempts, "what has started costs an attempt", task)
            self._check(new.crashes == old.crashes + (not mine), "a crash is counted as one", task)
        if new.status == "failed" and not new.ended:
            self._check(new.attempts < (new.attempts_allowed or 0), "only what may be tried again waits for it", task)

    def _check_stopped(self, attempt: Attempt, old: Row, new: Row) -> None:
        self._check(old.cancelled_by is not None, "only what somebody cancelled ends as cancelled", attempt[0])
        spent = old.attempts - new.attempts in ((0,) if attempt in self._begun else (0, 1))
        self._check(spent, "what has started costs an attempt", attempt[0])
        self._check(new.crashes == old.crashes, "a cancelled task is not blamed for a crash", attempt[0])

    def _take_over(self, event: Event, attempt: Attempt, worker: str) -> None:
        """From a worker that lives: only where it was silent for too long, and for a reason."""
        self._check(self._silences.count, "a living worker is not robbed", attempt[0])
        if self._silences.count:
            excuse = self._silences.excuse(worker, event)
            self._check(excuse is None, "a living worker is not robbed", attempt[0], excuse or "")
        self._taken_over.add(attempt)
        if self._running.get(attempt[0], ("", -1))[1] == attempt[1]:
            del self._running[attempt[0]]

    def _on_committed(self, event: Event) -> None:
        """At the end of a transaction: what was claimed was first in line, and within the limit over all workers."""
        for type_ in {self._rows[task].type for task in self._claimed}:
            claimed = [self._place(task) for task in self._claimed if self._rows[task].type == type_]
            ready = [self._place(task) for task, row in self._rows.items() if row.type == type_ and row.ready]
            if not self._one_writer:
                seen = self._seen_ready.get((event.who, type_), {})
                ready = [self._place(task) for task, row in seen.items() if self._rows.get(task) == row]
            in_turn = max(claimed) < min(ready, default=(2**40, ""))
            self._check(in_turn, "higher priority first, oldest first among equals", max(claimed)[1])
            limit = self._steering.kind(event.who, type_).global_limit
            running = sum(row.type == type_ and row.running for row in self._rows.values())
            self._check(limit is None or running <= limit, "no more run than the limit over all workers", None, type_)
        self._claimed.clear()

    def _place(self, task: str) -> tuple[int, str]:
        return -self._rows[task].priority, task

    def _check_rates(self) -> None:
        if "jump" in self._scenario.faults:  # a window has no length then
            return
        for type_, moments in self._claim_moments.items():
            for first, last, count, rate in _windows(moments):
                most = capacity(rate) + rate * (last - first) + 1e-3
                self._check(count <= most, "a rate is never exceeded", None, f"{type_}: {count} from {first}")


def _attempt(event: Event) -> Attempt:
    assert event.task is not None
    return event.task, event.facts["version"]


def _affordable(claimed: Row) -> bool:
    """Whether a crash leaves the task another chance: it may be blamed for one then before it has started."""
    return claimed.attempts < (claimed.attempts_allowed or 0) and claimed.crashes + 1 < MAX_CRASHES


def _windows(claims: list[tuple[float, float | None]]) -> Iterator[tuple[float, float, int, float]]:
    """All spans between two claims, with the highest rate that held in them; without those in which none held."""
    for first, (begin, _) in enumerate(claims):
        highest = 0.0
        for last, (end, rate) in enumerate(claims[first:]):
            if rate is None:
                break
            highest = max(highest, rate)
            yield begin, end, last + 1, highest


def violations(world: World) -> list[Violation]:
    """Everything that was wrong with a schedule, at any moment or at its end. Call it while the database is there."""
    from tests.simulation.ending import check_ending

    trouble = [
        Violation("nothing unexpected is raised", None, f"{who}: {error!r}") for who, error in world.stage.trouble
    ]
    return [*trouble, *Replay(world.scenario, world.database).play(world.history.events), *check_ending(world)]
