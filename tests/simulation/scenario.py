"""What a seed decides before the curtain rises: the types, the tasks, how handlers behave, and which faults there are.

Each schedule has some of the faults and some of the types only: a schedule that has a bit of everything explores less
(swarm testing).
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from random import Random
from typing import Any, NamedTuple

from tq.errors import PermanentError, RetryAfter
from tq.models import TaskType
from tq.retry import Backoff
from tq.scheduler import AddOptions

FAULTS = ("crash", "error", "outage", "stop", "jump", "restart", "pause", "poison")
MOST_FAULTS = 6
LONG_SECONDS = 12.0  # of a handler that is worth cancelling
LONG = 1500  # characters: from 1,024 on an input stands in a table of its own


class Part(NamedTuple):
    """How one attempt goes."""

    seconds: float
    error: Exception | None = None
    obeys: bool = True  # stops when it is asked to
    kills: bool = False  # takes its worker with it


class Wish(NamedTuple):
    """One call of add(): when, how many tasks, with which options."""

    pause: float
    type: str
    inputs: list[Any]
    options: AddOptions


def _never_called(input_: Any) -> None:
    raise AssertionError("virtual lanes run virtual handlers")


def _catalogue(random: Random) -> list[TaskType]:
    backoff = Backoff(base=0.5, cap=3.0)
    rate = random.choice([0.8, 3.0])
    return [
        TaskType("fast", _never_called, worker_count=2, backoff=backoff),
        TaskType("slow", _never_called, timeout=2.0, backoff=backoff),
        TaskType("limited", _never_called, worker_count=2, global_limit=2, backoff=backoff),
        TaskType("rated", _never_called, worker_count=3, rate_limit=rate, backoff=backoff),
        TaskType("once", _never_called, worker_count=2, max_attempts=1, backoff=backoff),
    ]


@dataclass
class Scenario:
    seed: int
    workers: int = 3
    types: dict[str, TaskType] = field(default_factory=dict)
    wishes: list[list[Wish]] = field(default_factory=list)  # by producer
    faults: frozenset[str] = frozenset()
    fault_count: int = 0
    fault_seconds: float = 0.0  # no more faults after this time
    stickiness: float = 0.0
    step_seconds: float = 0.0
    poll_interval: float = 1.0
    batch_size: int = 100
    success: float = 0.7

    def cast(self, input_: str, timeout: float, random: Random) -> Part:
        """How an attempt with this input goes."""
        value = json.loads(input_)
        seconds = random.random() * (0.004 if value["type"] in ("fast", "once") else random.choice([0.01, 0.3, 1.5]))
        if value["poison"]:
            return Part(seconds, kills=True)
        if "meddling" in self.faults and random.random() < 0.1:
            return Part(LONG_SECONDS, obeys=random.random() < 0.7)
        if random.random() < self.success:
            return Part(seconds)
        match random.randrange(6):
            case 0:
                return Part(seconds, PermanentError("no such mailbox"))
            case 1 | 4:
                return Part(seconds, RetryAfter(random.choice([0.0, 0.0, 1.0])))
            case 2 if timeout < 10:
                return Part(timeout + random.random() * 3)
            case 3 if timeout < 10:
                return Part(timeout + random.random() * 6, obeys=False)
        return Part(seconds, ValueError("it did not work"))


def scenario(
    seed: int,
    workers: int = 3,
    *,
    only_type: str | None = None,
    only_faults: frozenset[str] | None = None,
    many_faults: int = 0,
) -> Scenario:
    """What the seed says, or a part of it: some bugs need a crowd in one place."""
    random = Random(f"scenario {seed}")
    types = {kind.name: kind for kind in random.sample(_catalogue(random), random.choice([1, 2, 3]))}
    if only_type is not None:
        types = {kind.name: kind for kind in _catalogue(random) if kind.name == only_type}
    faults = frozenset(fault for fault in FAULTS if random.random() < 0.45)
    faults = faults if only_faults is None else only_faults
    # By a die of its own: the other seeds go on telling what they told before there were operators who meddle.
    meddling = {"meddling"} if only_faults is None and Random(f"meddling {seed}").random() < 0.4 else set()
    return Scenario(
        seed,
        workers,
        types,
        [_wishes(random, sorted(types), "poison" in faults) for _ in range(random.choice([1, 2]))],
        faults | meddling,
        many_faults or (random.randint(1, MOST_FAULTS) if faults else 0),
        60.0 if many_faults else random.choice([1.0, 5.0, 15.0]),
        random.choice([0.0, 0.5, 0.8, 0.95]),
        random.choice([0.0005, 0.0005, 0.01]),
        random.choice([0.7, 2.0, 5.0]),
        random.choice([1, 3, 100]),
        random.choice([0.5, 0.8, 0.95]),
    )


def _wishes(random: Random, types: list[str], poison: bool) -> list[Wish]:
    return [_wish(random, random.choice(types), poison) for _ in range(random.randint(2, 5))]


def _wish(random: Random, type_: str, poison: bool) -> Wish:
    def input_() -> dict[str, Any]:
        text = "x" * (LONG if random.random() < 0.2 else 3)
        return {"type": type_, "text": text, "poison": poison and random.random() < 0.08}

    count = random.choice([1, 1, 2, 5])
    return Wish(random.choice([0.0, 0.003, 1.0]), type_, [input_() for _ in range(count)], _options(random, count))


def _options(random: Random, count: int) -> AddOptions:
    options: AddOptions = {}
    if random.random() < 0.2:
        options["priority"] = random.choice([-1, 1, 5])
    if random.random() < 0.15:
        options["max_attempts"] = random.choice([1, 2, 5])
    if random.random() < 0.15:
        options["timeout"] = random.choice([0.5, 3.0])
    if count == 1 and random.random() < 0.2:
        options["key"] = random.choice(["a", "b"])
    return options


def run_after(random: Random, now: float) -> float | None:
    return now + random.random() * 6 if random.random() < 0.15 else None
