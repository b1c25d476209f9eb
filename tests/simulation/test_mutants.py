"""A simulator that finds nothing proves nothing: here it must find what was planted."""

from __future__ import annotations

from functools import partial
from typing import Any

import pytest

from tests.simulation import mutants, postgres_mutants
from tests.simulation.campaign import first_bad_schedule
from tests.simulation.postgres_storage import PostgresDatabase
from tests.simulation.scenario import scenario
from tests.simulation.world import Engine

MOST_SCHEDULES = 500


def _search(planted: str, engine: Engine, focus: dict[str, Any]) -> None:
    found = first_bad_schedule(range(MOST_SCHEDULES), engine, partial(scenario, **focus))
    assert found is not None, f"{MOST_SCHEDULES} schedules did not show {planted}"


@pytest.mark.parametrize("planted", mutants.MUTANTS)
def test_a_planted_bug_is_found(planted: str):
    _search(planted, mutants.MUTANTS[planted], mutants.FOCUS.get(planted, {}))


@pytest.mark.parametrize("planted", [name for name in postgres_mutants.MUTANTS if name not in postgres_mutants.RARE])
def test_a_planted_bug_is_found_on_postgres(planted: str):
    _search(planted, postgres_mutants.MUTANTS[planted], postgres_mutants.FOCUS.get(planted, {}))


@pytest.mark.campaign
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("planted", postgres_mutants.RARE)
def test_a_planted_bug_that_shows_seldom_is_found_on_postgres(planted: str):
    _search(planted, postgres_mutants.MUTANTS[planted], postgres_mutants.FOCUS.get(planted, {}))


@pytest.mark.parametrize("planted", mutants.FOCUS)
def test_the_engine_keeps_its_promises_where_we_look_closer(planted: str):
    """The same schedules find nothing where nothing was planted."""
    found = first_bad_schedule(range(20), make_scenario=partial(scenario, **mutants.FOCUS[planted]))
    assert found is None, found[2]


@pytest.mark.campaign
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("planted", postgres_mutants.FOCUS)
def test_the_engine_keeps_its_promises_on_postgres_where_we_look_closer(planted: str):
    focus = postgres_mutants.FOCUS[planted]
    found = first_bad_schedule(range(3), Engine(PostgresDatabase), partial(scenario, **focus))
    assert found is None, found[2]
