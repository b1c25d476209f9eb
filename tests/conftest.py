from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings

from tests import postgres
from tq import TaskQueue

# The same examples in every run, and none fails because the machine is busy.
settings.register_profile("tq", deadline=None, derandomize=True, database=None)
settings.load_profile("tq")


def pytest_configure() -> None:
    postgres.prepare()


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder that only this test has: put its databases here."""
    return tmp_path


@pytest.fixture
def make_queue(folder: Path) -> Iterator[Callable[..., TaskQueue]]:
    """Opens queues in the test's folder, and stops them after it."""
    queues: list[TaskQueue] = []

    def make(database: str = "tasks.db", **options: Any) -> TaskQueue:
        queues.append(TaskQueue())
        return queues[-1].init(folder / database, **options)

    yield make
    for queue in queues:
        queue.stop(timeout=0)


@pytest.fixture
def queue(make_queue: Callable[..., TaskQueue]) -> TaskQueue:
    """A queue on tasks.db in the test's folder."""
    return make_queue()
