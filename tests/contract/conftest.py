from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.contract.vocabulary import KINDS, Database
from tq.storage.store import Store


@pytest.fixture(params=sorted(KINDS))
def new_database(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Callable[[], Database]:
    """Makes empty databases of one kind."""
    opened: list[Database] = []

    def new() -> Database:
        opened.append(KINDS[request.param](tmp_path_factory.mktemp("database")))
        return opened[-1]

    request.addfinalizer(lambda: [database.close() for database in opened])
    return new


@pytest.fixture
def database(new_database: Callable[[], Database]) -> Database:
    return new_database()


@pytest.fixture
def store(database: Database) -> Store:
    return database.open()
