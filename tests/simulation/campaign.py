"""Many schedules, one after the other: what was wrong with the first bad one, and how to see it again."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable

from tests.simulation.invariants import Violation, violations
from tests.simulation.scenario import Scenario, scenario
from tests.simulation.world import Engine, World, played

_EVENTS_SHOWN = 60


def first_bad_schedule(
    seeds: Iterable[int], engine: Engine | None = None, make_scenario: Callable[[int], Scenario] = scenario
) -> tuple[int, list[Violation], str] | None:
    """The first seed whose schedule breaks a promise, which ones, and the story."""
    for seed in seeds:
        with played(make_scenario(seed), engine) as world:
            found = violations(world)
            if found:
                return seed, found, story(world, found)
    return None


def story(world: World, found: list[Violation]) -> str:
    """A failure as a reader needs it: the command that repeats it, the broken promises, the task's history."""
    task = next((violation.task for violation in found if violation.task is not None), None)
    events = world.history.of_task(task) if task is not None else world.history.events
    store = type(world.database).__name__.removesuffix("Database").lower()
    return "\n".join(
        [
            f"seed {world.scenario.seed} breaks a promise; to see it again:",
            f"TQ_SIM_SEED={world.scenario.seed} pytest tests/simulation/test_schedules.py -k 'keeps and {store}'",
            *(f"- {violation.rule}: {violation.what} (task {violation.task})" for violation in found[:10]),
            f"the history of task {task}:" if task is not None else "the end of the history:",
            *(str(event)[:240] for event in events[-_EVENTS_SHOWN:]),
        ]
    )


def seeds(first: int, count: int) -> list[int]:
    """`TQ_SIM_SEED` repeats one schedule, `TQ_SIM_SCHEDULES` asks for another number of them."""
    if "TQ_SIM_SEED" in os.environ:
        return [int(os.environ["TQ_SIM_SEED"])]
    return list(range(first, first + int(os.environ.get("TQ_SIM_SCHEDULES", count))))
