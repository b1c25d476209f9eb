from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from tests.postgres import new_schema, server_url
from tests.web.clients import Client, client_of
from tq import TaskQueue
from tq.web import events


@pytest.fixture(params=["sqlite", "postgres"])
def stored(request: pytest.FixtureRequest, make_queue: Callable[..., TaskQueue]) -> Iterator[TaskQueue]:
    """A queue on each store."""
    if request.param == "sqlite":
        yield make_queue()
        return
    queue = TaskQueue().init(server_url(), schema=new_schema())
    yield queue
    queue.stop(timeout=0)


@pytest.fixture
def api(stored: TaskQueue) -> Client:
    """The API of a queue on each store."""
    return client_of(stored)


@pytest.fixture
def short_streams(monkeypatch: pytest.MonkeyPatch) -> None:
    """A test client waits for the end of a response."""
    monkeypatch.setattr(events, "LIFETIME_SECONDS", 0.0)
