from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import settings

# The same examples in every run, and none fails because the machine is busy.
settings.register_profile("tq", deadline=None, derandomize=True, database=None)
settings.load_profile("tq")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder that only this test has: put its databases here."""
    return tmp_path
