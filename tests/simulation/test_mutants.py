"""A simulator that finds nothing proves nothing: here it must find what was planted."""

from __future__ import annotations

from functools import partial

import pytest

from tests.simulation.campaign import first_bad_schedule
from tests.simulation.mutants import FOCUS, MUTANTS
from tests.simulation.scenario import scenario

MOST_SCHEDULES = 500


@pytest.mark.parametrize("planted", MUTANTS)
def test_a_planted_bug_is_found(planted: str):
    found = first_bad_schedule(range(MOST_SCHEDULES), MUTANTS[planted], partial(scenario, **FOCUS.get(planted, {})))
    assert found is not None, f"{MOST_SCHEDULES} schedules did not show {planted}"


@pytest.mark.parametrize("planted", FOCUS)
def test_the_engine_keeps_its_promises_where_we_look_closer(planted: str):
    """The same schedules find nothing where nothing was planted."""
    found = first_bad_schedule(range(20), make_scenario=partial(scenario, **FOCUS[planted]))
    assert found is None, found[2]
