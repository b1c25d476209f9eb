"""The state of the queue in the format of Prometheus, read when it is asked for."""

from __future__ import annotations

import importlib
from collections.abc import Iterator
from types import ModuleType
from typing import Any

from tq.clock import Clock, SystemClock
from tq.errors import MissingExtra
from tq.queue import TaskQueue
from tq.tally import MINUTE


def exposition(queue: TaskQueue, clock: Clock | None = None) -> tuple[bytes, str]:
    """The text, and its content type."""
    client, core = _module("prometheus_client"), _module("prometheus_client.core")
    registry = client.CollectorRegistry()
    registry.register(_Collector(queue, core.GaugeMetricFamily, clock or SystemClock()))
    return client.generate_latest(registry), client.CONTENT_TYPE_LATEST


class _Collector:
    def __init__(self, queue: TaskQueue, gauge: Any, clock: Clock) -> None:
        self._queue = queue
        self._gauge = gauge
        self._clock = clock

    def describe(self) -> list[Any]:
        return []  # or registering would already collect

    def collect(self) -> Iterator[Any]:
        yield from self._types()
        yield from self._workers()
        yield from self._last_minute()

    def _types(self) -> Iterator[Any]:
        tasks = self._gauge("tq_tasks", "Tasks by state; counts of what waits end at 10,000.", labels=["type", "state"])
        waiting = self._gauge("tq_next_task_wait_seconds", "How long the next ready task has waited.", labels=["type"])
        paused = self._gauge("tq_paused", "1 where nothing is started.", labels=["type"])
        workers = self._gauge("tq_workers", "Living worker processes that work on a type.", labels=["type"])
        for view in self._queue.desk.types():
            for state, count in view.counts.items():
                tasks.add_metric([view.name, state], count)
            since = view.next_since
            waiting.add_metric([view.name], 0 if since is None else max(0.0, self._clock.now() - since))
            paused.add_metric([view.name], int(view.paused))
            workers.add_metric([view.name], view.workers)
        yield from (tasks, waiting, paused, workers)

    def _workers(self) -> Iterator[Any]:
        overdue = self._gauge("tq_overdue_handlers", "Handlers that were given up and still run.", labels=["worker"])
        for view in self._queue.desk.workers():
            overdue.add_metric([view.name], view.overdue)
        yield overdue

    def _last_minute(self) -> Iterator[Any]:
        ended = self._gauge("tq_last_minute_tasks", "What happened in the last full minute.", labels=["type", "what"])
        spans = self._gauge("tq_last_minute_seconds", "Waits and runs in it.", labels=["type", "span", "quantile"])
        last_full = int(self._clock.now() // MINUTE - 1) * MINUTE
        for view in self._queue.desk.metrics(2):
            if view.at == last_full:
                for what in ("added", "succeeded", "failed", "cancelled", "retried"):
                    ended.add_metric([view.type, what], getattr(view, what))
                for span in ("wait", "run"):
                    for quantile, name in (("0.5", "p50"), ("0.95", "p95")):
                        seconds = getattr(view, f"{span}_{name}")
                        if seconds is not None:
                            spans.add_metric([view.type, span, quantile], seconds)
        yield from (ended, spans)


def _module(name: str) -> ModuleType:
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        raise MissingExtra(
            f"Prometheus metrics need a package that is not installed ({error.name}): pip install 'tq-tasks[metrics]'"
        ) from error
