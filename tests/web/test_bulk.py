"""All tasks that match are cancelled, retried and deleted; a dry run only counts; nothing is done without a filter."""

from __future__ import annotations

import pytest

from tests.web.clients import Client
from tq import TaskQueue


def test_a_dry_run_counts_what_the_run_then_changes(api: Client, stored: TaskQueue):
    api.add(1, 2, 3)
    api.add(4, type="sms")
    cancelled = api.add(5)[0]
    stored.cancel(cancelled)
    assert api.told("POST", "/tasks/cancel", json={"type": "email", "dry_run": True}) == {"count": 3, "dry_run": True}
    assert stored.stats()["cancelled"] == 1
    assert api.told("POST", "/tasks/cancel", json={"type": "email"}) == {"count": 3, "dry_run": False}
    assert stored.stats()["cancelled"] == 4
    assert api.told("POST", "/tasks/retry", json={"text": "5", "dry_run": True})["count"] == 1
    assert api.told("POST", "/tasks/retry", json={"text": "5"})["count"] == 1
    assert api.told("DELETE", "/tasks?type=email&dry_run=true")["count"] == 3
    assert api.told("DELETE", "/tasks?type=email")["count"] == 3
    assert api.told("DELETE", "/tasks?status=to-do&dry_run=true")["count"] == 0
    assert {task.input for task in stored.list().tasks} == {4, 5}


@pytest.mark.parametrize("dry_run", [True, False])
def test_without_a_filter_nothing_is_changed(dry_run: bool, api: Client, stored: TaskQueue):
    api.add(1)
    for path in ("/tasks/cancel", "/tasks/retry"):
        api.refused("POST", path, 422, "invalid_option", json={"dry_run": dry_run})
        api.refused("POST", path, 422, "invalid_option", json={"dry_run": dry_run, "status": [], "type": None})
    api.refused("DELETE", "/tasks", 422, "invalid_option", params={"dry_run": dry_run})
    assert stored.stats()["to-do"] == 1


def test_a_filter_with_a_slip_of_the_pen_deletes_nothing(api: Client, stored: TaskQueue):
    stored.cancel(api.add(1)[0])
    api.refused("DELETE", "/tasks?type=email&statuss=failed", 422, "invalid_request")
    api.refused("POST", "/tasks/retry", 422, "invalid_request", json={"type": "email", "statuss": ["failed"]})
    assert stored.stats()["cancelled"] == 1


def test_a_body_is_not_taken_for_the_filter_of_a_delete(api: Client, stored: TaskQueue):
    stored.cancel(api.add(1)[0])
    api.refused("DELETE", "/tasks", 422, "invalid_option", json={"type": "email"})
    assert stored.stats()["cancelled"] == 1
