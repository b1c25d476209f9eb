"""Ctrl-C, or the interruption of a handler, may strike between any two steps: nothing may be lost or hang."""

from __future__ import annotations

import pytest

from tests.chaos.checker import check
from tests.chaos.rig import Rig


def _strike(rig: Rig, seed: int, times: int) -> None:
    rig.finish("interrupted", seed, times)
    check(rig.database, rig.history, {})
    assert rig.history.events("done")
    assert rig.complaints() == ""


def test_a_program_that_survives_ctrl_c_can_go_on_adding(rig: Rig) -> None:
    _strike(rig, seed=1, times=500)


@pytest.mark.campaign
@pytest.mark.timeout(300)
def test_ten_thousand_interruptions(rig: Rig) -> None:
    _strike(rig, seed=2, times=10_000)
