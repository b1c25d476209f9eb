"""The stream of events, from a real server: a snapshot when it changes, a sign of life when not, and an end."""

from __future__ import annotations

import http.client
import json
import urllib.request
from urllib.parse import urlsplit

import pytest

from tests.waiting import eventually
from tests.web.clients import client_of
from tests.web.servers import serving
from tq import TaskQueue, web
from tq.web import events
from tq.web.access import PREFIX


class Stream:
    """An open stream of events."""

    def __init__(self, address: str) -> None:
        self._connection = http.client.HTTPConnection(urlsplit(address).netloc, timeout=60)
        self._connection.request("GET", f"{PREFIX}/events")
        self.answer = self._connection.getresponse()

    def line(self) -> str:
        return self.answer.readline().decode()

    def next(self) -> dict:
        """The data of the next event."""
        while not (line := self.line()).startswith("data: "):
            assert line, "the stream has ended"
        return json.loads(line.removeprefix("data: "))

    def close(self) -> None:
        self.answer.close()
        self._connection.close()


def answer_of(url: str) -> bytes:
    with urllib.request.urlopen(url, timeout=60) as answer:
        return bytes(answer.read())


@pytest.fixture(autouse=True)
def fast(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(events, "SNAPSHOT_SECONDS", 0.02)


def test_a_snapshot_comes_at_once_and_whenever_it_changes(stored: TaskQueue):
    with serving(web.app(stored)) as address:
        stream = Stream(address)
        assert stream.answer.status == 200
        assert stream.answer.headers["content-type"].startswith("text/event-stream")
        assert stream.answer.headers["cache-control"] == "no-store"
        assert stream.line() == f"retry: {events.RETRY_MILLISECONDS}\n"
        assert stream.next()["to-do"] == 0
        stored("email").add(1)
        assert stream.next() == {**stored.stats()}
        stored.pause()
        assert stream.next()["paused"]
        stream.close()


def test_a_stream_shows_that_it_lives(queue: TaskQueue, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(events, "HEARTBEAT_SECONDS", 0.05)
    with serving(web.app(queue)) as address:
        stream = Stream(address)
        stream.next()
        assert stream.line() == "\n"
        assert stream.line() == ": still here\n"
        stream.close()


def test_a_stream_ends_after_its_time(queue: TaskQueue, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(events, "LIFETIME_SECONDS", 0.1)
    with serving(web.app(queue)) as address:
        stream = Stream(address)
        assert stream.answer.read().endswith(b"\n\n")
        stream.close()


def test_a_stream_ends_when_its_client_goes(queue: TaskQueue):
    application = web.app(queue)
    with serving(application) as address:
        streams = [Stream(address) for _ in range(3)]
        for stream in streams:
            stream.next()
        for stream in streams:
            stream.close()
        eventually(lambda: application.state.events.streams == 0)


def test_the_loop_goes_on_while_clients_listen(queue: TaskQueue):
    with serving(web.app(queue)) as address:
        streams = [Stream(address) for _ in range(60)]  # more than there are threads for handlers
        for stream in streams:
            stream.next()
        assert answer_of(f"{address}{PREFIX}/healthz") == b'{"status":"ok"}'
        for stream in streams:
            stream.close()


def test_there_are_not_too_many_streams(queue: TaskQueue, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(events, "MOST_STREAMS", 0)
    client_of(queue).refused("GET", "/events", 429, "too_many_streams")


def test_many_streams_share_a_look_at_the_database(queue: TaskQueue, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(events, "SNAPSHOT_SECONDS", 1000.0)
    looks = []
    monkeypatch.setattr(TaskQueue, "stats", lambda self: looks.append(1) or {"to-do": 0})
    handlers = events.EventHandlers(queue)
    assert {handlers.snapshot() for _ in range(9)} == {'{"to-do": 0}'}
    assert len(looks) == 1
