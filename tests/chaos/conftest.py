from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.chaos.rig import Rig


@pytest.fixture
def rig(folder: Path) -> Iterator[Rig]:
    rig = Rig(folder)
    yield rig
    rig.close()
