"""Pauses, rate limits and the settings of types: they hold at once, are shown, and it is known who set them."""

from __future__ import annotations

import pytest

from tests.web.clients import Client, client_of
from tq import TaskQueue


def test_the_queue_and_a_type_are_paused_and_resumed(api: Client, stored: TaskQueue):
    assert api.told("POST", "/tasks/pause") == {"paused": True, "types": []}
    assert api.told("POST", "/tasks/pause", json={"type": "email"}) == {"paused": True, "types": ["email"]}
    assert stored.stats()["pausedTypes"] == ["email"]
    assert api.told("POST", "/tasks/resume", json={"type": None}) == {"paused": False, "types": ["email"]}
    assert api.told("POST", "/tasks/resume", json={"type": "email"}) == {"paused": False, "types": []}


def test_a_paused_worker_goes_on_when_it_is_resumed(api: Client, stored: TaskQueue):
    api.told("POST", "/tasks/pause", json={"type": "email"})
    stored("email").set_worker(lambda number: number)
    [added] = api.add(1)
    assert api.told("GET", f"/tasks/{added}/explain")["reason"] in ("paused", "no-worker")
    api.told("POST", "/tasks/resume", json={"type": "email"})
    assert stored.handle(added).result(timeout=60) == 1


def test_a_rate_limit_is_set_and_lifted(api: Client):
    told = api.told("POST", "/tasks/rate-limit", json={"type": "email", "per_second": 2.5})
    assert told == {"type": "email", "per_second": 2.5}
    assert api.told("GET", "/types/email")["settings"]["rate_limit"] == 2.5
    api.told("POST", "/tasks/rate-limit", json={"type": "email", "per_second": None})
    assert api.told("GET", "/types/email")["settings"]["rate_limit"] is None


def test_what_holds_for_a_type_is_set_and_reset(api: Client):
    changes = {"worker_count": 3, "global_limit": 9, "rate_limit": None, "timeout": 4.5, "max_attempts": 7}
    told = api.told("PATCH", "/types/email", json={**changes, "paused": True})
    assert told["settings"] == changes
    assert told["paused"]
    assert sorted(told["overridden"]) == sorted(changes)
    told = api.told("PATCH", "/types/email", json={"reset": ["timeout"], "paused": False})
    assert sorted(told["overridden"]) == sorted(set(changes) - {"timeout"})
    assert api.told("GET", "/types")["types"] == [told]
    assert api.told("PATCH", "/types/email", json={"reset": sorted(changes)})["overridden"] == []


@pytest.mark.parametrize(
    "changes",
    [{}, {"worker_count": None}, {"worker_count": 0}, {"worker_count": 1.5}, {"timeout": 0}, {"rate_limit": 0},
     {"paused": 1}, {"reset": ["color"]}, {"colour": 1}, {"timeout": 5, "reset": ["timeout"]}, {"timeout": 5, "x": 1},
     [], None],
    ids=repr,
)  # fmt: skip
def test_settings_that_make_no_sense_change_nothing(changes: object, queue: TaskQueue):
    api = client_of(queue)
    assert api.request("PATCH", "/types/email", json=changes).status_code == 422
    assert queue.desk.types() == []
    assert queue.desk.actions() == []


@pytest.mark.parametrize("name", ["a/b", "/", "a b", "ä", "%", "..x", "stats"])
def test_a_type_may_have_any_name(name: str, queue: TaskQueue):
    from urllib.parse import quote

    api = client_of(queue)
    told = api.told("PATCH", f"/types/{quote(name, safe='')}", json={"worker_count": 2})
    assert told["name"] == name
    assert api.told("GET", f"/types/{quote(name, safe='')}") == told


def test_a_type_that_is_not_there_is_not_found(api: Client):
    api.refused("GET", "/types/nothing", 404, "type_not_found")


@pytest.mark.parametrize("body", [{"type": ""}, {"type": "\n"}, {"typ": "email"}, [], "email"], ids=repr)
@pytest.mark.parametrize("action", ["pause", "resume"])
def test_a_slip_of_the_pen_does_not_pause_the_whole_queue(action: str, body: object, queue: TaskQueue):
    api = client_of(queue)
    assert api.request("POST", f"/tasks/{action}", json=body).status_code == 422
    assert queue.desk.actions() == []


def test_every_change_is_remembered_with_who_made_it(stored: TaskQueue):
    api = client_of(stored, auth=lambda request, needs: "ada@example.com")
    [added] = api.add(1)
    api.told("POST", "/tasks/pause")
    api.told("POST", "/tasks/resume")
    api.told("PATCH", "/types/email", json={"timeout": 5, "paused": True})
    api.told("PATCH", "/types/email", json={"reset": ["timeout"]})
    api.told("POST", f"/tasks/{added}/cancel")
    api.told("POST", "/tasks/retry", json={"type": "email"})
    told = api.told("GET", "/actions")["actions"]
    assert [action["name"] for action in told] == ["retry", "cancel", "reset", "pause", "override", "resume", "pause"]
    assert {action["actor"] for action in told} == {"ada@example.com"}
    page = api.told("GET", "/actions?limit=4")
    rest = api.told("GET", "/actions", params={"after": page["next"]})
    assert page["actions"] + rest["actions"] == told
