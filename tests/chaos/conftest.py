from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.chaos.databases import Database, PostgresSchema, drop
from tests.chaos.rig import Rig
from tests.postgres import new_schema, server_url


@pytest.fixture
def rig(request: pytest.FixtureRequest, folder: Path) -> Iterator[Rig]:
    """On a SQLite file, unless the test asks for another database: see `tests.chaos.databases.on`."""
    rig = Rig(folder, _fresh(getattr(request, "param", "sqlite"), folder))
    yield rig
    rig.close()
    drop(rig.database)


def _fresh(kind: str, folder: Path) -> Database:
    return folder / "tasks.db" if kind == "sqlite" else PostgresSchema(server_url(), new_schema())
