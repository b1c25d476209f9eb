"""The stats whenever they change, as server-sent events: one look at the database a second, however many listen."""

from __future__ import annotations

import asyncio
import json
import logging
import threading
from collections.abc import AsyncIterator

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import StreamingResponse

from tq.clock import Clock, SystemClock
from tq.errors import TqError
from tq.queue import TaskQueue
from tq.web.problems import refusal

log = logging.getLogger("tq")

SNAPSHOT_SECONDS = 1.0
HEARTBEAT_SECONDS = 15.0
LIFETIME_SECONDS = 600.0  # then the client comes again by itself, and shows its right to it again
RETRY_MILLISECONDS = 3000
MOST_STREAMS = 100


class EventHandlers:
    def __init__(self, queue: TaskQueue, clock: Clock | None = None) -> None:
        self._queue = queue
        self._clock: Clock = clock or SystemClock()
        self._guard = threading.Lock()
        self._snapshot = ""
        self._taken_at = float("-inf")
        self.streams = 0
        self._closing = False

    async def events(self, request: Request) -> StreamingResponse:
        if self.streams >= MOST_STREAMS:
            message = f"{MOST_STREAMS} clients listen already"
            raise refusal(429, "too_many_streams", message, "Close some, or GET /tasks/stats.", {"Retry-After": "5"})
        first = await run_in_threadpool(self.snapshot)
        # A WSGI server gives up a whole thread, or process, to each response: there a stream is one event long, and the
        # client comes again after a few seconds.
        lifetime = 0.0 if "wsgi_environ" in request.scope else LIFETIME_SECONDS
        return StreamingResponse(self._stream(first, lifetime), media_type="text/event-stream")

    def snapshot(self) -> str:
        """The stats as JSON, a second old at most."""
        with self._guard:
            if self._clock.monotonic() >= self._taken_at + SNAPSHOT_SECONDS:
                self._snapshot = json.dumps(self._queue.stats())
                self._taken_at = self._clock.monotonic()
            return self._snapshot

    def close(self) -> None:
        """Let all streams end within a second: a server that stops waits for them."""
        self._closing = True

    async def _stream(self, snapshot: str, lifetime: float) -> AsyncIterator[str]:
        counts = int(lifetime > 0)  # a2wsgi forgets the stream of a client that has gone
        self.streams += counts
        try:
            yield f"retry: {RETRY_MILLISECONDS}\n{_event(snapshot)}"
            async for piece in self._changes(snapshot, lifetime):
                yield piece
        except TqError as error:  # the client comes again, and is told with a status
            log.warning("a stream of events ends: %s", error)
        finally:
            self.streams -= counts

    async def _changes(self, told: str, lifetime: float) -> AsyncIterator[str]:
        begun = heard = self._clock.monotonic()
        while not self._closing and self._clock.monotonic() < begun + lifetime:
            await asyncio.sleep(SNAPSHOT_SECONDS)
            snapshot = await run_in_threadpool(self.snapshot)
            if snapshot != told:
                told, heard = snapshot, self._clock.monotonic()
                yield _event(snapshot)
            elif self._clock.monotonic() >= heard + HEARTBEAT_SECONDS:
                heard = self._clock.monotonic()
                yield ": still here\n\n"


def _event(snapshot: str) -> str:
    return f"event: stats\ndata: {snapshot}\n\n"
