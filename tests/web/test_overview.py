"""Stats, workers, minutes and health, as JSON and for Prometheus."""

from __future__ import annotations

import sys

import pytest

from tests.waiting import eventually
from tests.web.clients import Client, client_of
from tq import TaskQueue
from tq.errors import DatabaseReplaced, StorageBusy, StorageFull


def test_the_stats_have_the_shape_of_the_document(api: Client, stored: TaskQueue):
    api.add(1, 2)
    told = api.told("GET", "/tasks/stats")
    assert told == stored.stats()
    assert list(told)[:5] == ["to-do", "in-progress", "success", "failed", "cancelled"]
    assert told["byType"] == {"email": {"to-do": 2}}


def test_workers_and_minutes_are_shown(api: Client, stored: TaskQueue):
    stored("email").set_worker(lambda number: number).set_worker_count(2)
    [added] = api.add(1)
    assert stored.handle(added).result(timeout=60) == 1
    [worker] = eventually(lambda: [each for each in api.told("GET", "/workers")["workers"] if "email" in each["types"]])
    assert worker["alive"]
    assert worker["types"]["email"]["worker_count"] == 2
    assert worker["tasks"] == []
    [minute] = api.told("GET", "/metrics?minutes=1440&type=email")["minutes"][:1]
    assert minute["added"] == 1
    assert api.told("GET", "/metrics?type=sms")["minutes"] == []


def test_prometheus_reads_the_state(api: Client):
    api.add(1, 2, type='we"ird\\\n'.strip())
    answer = api.get("/metrics/prometheus")
    assert answer.headers["content-type"].startswith("text/plain")
    assert 'tq_tasks{state="ready",type="we\\"ird\\\\"} 2.0' in answer.text
    assert 'tq_workers{type="we\\"ird\\\\"} 0.0' in answer.text


def test_without_its_package_the_metrics_say_what_to_install(queue: TaskQueue, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setitem(sys.modules, "prometheus_client", None)
    said = client_of(queue).refused("GET", "/metrics/prometheus", 501, "missing_extra")
    assert "pip install 'tq-tasks[metrics]'" in said


def test_it_is_well(api: Client):
    assert api.told("GET", "/healthz") == {"status": "ok"}


@pytest.mark.parametrize(
    ("error", "status", "code"),
    [(StorageBusy, 429, "storage_busy"), (StorageFull, 503, "storage_full"), (DatabaseReplaced, 503, "storage_error")],
)
def test_trouble_with_the_database_is_told(error, status, code, queue: TaskQueue, monkeypatch: pytest.MonkeyPatch):
    def broken(self: TaskQueue) -> None:
        raise error("/secret/tasks.db is in trouble; mend it")

    monkeypatch.setattr(TaskQueue, "_opened", broken)
    api = client_of(queue)
    assert api.refused("GET", "/tasks", status, code) == "/secret/tasks.db is in trouble; mend it"
    assert "secret" not in api.refused("GET", "/healthz", 503, "storage_error"), "anybody may ask this"


def test_a_queue_that_was_stopped_is_told(queue: TaskQueue):
    api = client_of(queue)
    queue.stop()
    api.refused("GET", "/tasks", 503, "queue_stopped")


def test_a_mistake_of_ours_tells_nothing_but_to_the_log(
    queue: TaskQueue, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
):
    def broken(self: TaskQueue) -> None:
        raise ZeroDivisionError("the secret of the day")

    monkeypatch.setattr(TaskQueue, "stats", broken)
    assert "secret" not in client_of(queue).refused("GET", "/tasks/stats", 500, "internal_error")
    assert "the secret of the day" in caplog.text
