"""Tasks over HTTP: added, found, shown with their story, explained, cancelled, retried and deleted, on both stores."""

from __future__ import annotations

import json
import time
from datetime import datetime, timezone

import pytest

from tests.waiting import eventually
from tests.web.clients import Client, client_of
from tq import PermanentError, TaskQueue


def fail(_: object) -> None:
    raise PermanentError("no such mailbox")


def end(queue: TaskQueue, task_id: str) -> None:
    eventually(lambda: queue.get(task_id).finished)


def test_one_task_is_added(api: Client, stored: TaskQueue):
    answer = api.told("POST", "/tasks", 201, json={"type": "email", "input": {"to": "a"}, "priority": 3, "key": "k"})
    task = stored.get(answer["ids"][0])
    assert (task.type, task.input, task.priority, task.key) == ("email", {"to": "a"}, 3, "k")


def test_many_tasks_are_added_in_their_order(api: Client, stored: TaskQueue):
    ids = api.add(1, 2, 3)
    assert [stored.get(each).input for each in ids] == [1, 2, 3]


def test_of_many_tasks_all_are_added_or_none(api: Client, stored: TaskQueue):
    tasks = [{"type": "email", "input": 1}, {"type": "email", "input": "\0"}]
    assert "NUL" in api.refused("POST", "/tasks", 422, "payload_refused", json=tasks)
    assert stored.list().tasks == ()


def test_a_second_task_with_a_key_is_not_stored(api: Client):
    assert api.add(1, key="once") == api.add(2, key="once")


@pytest.mark.parametrize("moment", [1_900_000_000, "2030-03-17T17:46:40Z", "2030-03-17T18:46:40+01:00"])
def test_a_task_waits_for_its_time(moment: object, api: Client, stored: TaskQueue):
    [added] = api.add(1, run_after=moment)
    assert stored.get(added).run_after == 1_900_000_000


def test_a_task_is_shown_with_its_story(api: Client, stored: TaskQueue):
    [added] = api.add({"to": "a"})
    stored("email").set_worker(fail)
    end(stored, added)
    told = api.told("GET", f"/tasks/{added}")
    assert (told["status"], told["state"], told["attempts"]) == ("failed", "dead", 1)
    assert told["error"] == "PermanentError: no such mailbox"
    assert [event["what"] for event in told["timeline"]] == ["added", "started", "failed for good"]


def test_a_task_is_explained(api: Client):
    [added] = api.add(1)
    told = api.told("GET", f"/tasks/{added}/explain")
    assert told["reason"] == "no-worker"
    assert told["sentence"] == "No worker is running."


def test_a_task_is_cancelled_retried_and_deleted(api: Client, stored: TaskQueue):
    [added] = api.add(1)
    assert api.told("POST", f"/tasks/{added}/cancel")["status"] == "cancelled"
    assert api.told("POST", f"/tasks/{added}/retry")["status"] == "to-do"
    assert "cancel it first" in api.refused("DELETE", f"/tasks/{added}", 409, "wrong_state")
    api.told("POST", f"/tasks/{added}/cancel")
    assert api.told("DELETE", f"/tasks/{added}") == {"count": 1, "dry_run": False}
    assert added in api.refused("GET", f"/tasks/{added}", 404, "task_not_found")
    assert {action.actor for action in stored.desk.actions()} == {"somebody at 127.0.0.1"}


@pytest.mark.parametrize(
    ("method", "path"),
    [("GET", ""), ("GET", "/explain"), ("POST", "/retry"), ("POST", "/cancel"), ("DELETE", "")],
)
def test_what_is_not_there_cannot_be_shown_or_changed(method: str, path: str, api: Client):
    api.refused(method, f"/tasks/0000-1111{path}", 404, "task_not_found")


# --- pages -------------------------------------------------------------------------------------------------------


def test_pages_are_read_one_after_the_other(api: Client):
    ids = api.add(*range(7))
    first = api.told("GET", "/tasks?limit=3")
    second = api.told("GET", "/tasks", params={"limit": 3, "after": first["next"]})
    third = api.told("GET", "/tasks", params={"limit": 3, "after": second["next"]})
    seen = [task["id"] for page in (first, second, third) for task in page["tasks"]]
    assert seen == ids[::-1]
    assert third["next"] is None


def test_an_offset_leaves_tasks_out(api: Client):
    ids = api.add(*range(7))[::-1]
    assert [task["id"] for task in api.told("GET", "/tasks?limit=3&offset=2")["tasks"]] == ids[2:5]
    assert api.told("GET", "/tasks?offset=7") == {"tasks": [], "next": None}
    assert api.told("GET", "/tasks?offset=8") == {"tasks": [], "next": None}


def test_tasks_are_found_by_type_status_text_and_time(api: Client, stored: TaskQueue):
    old = api.add("hay")[0]
    moment = datetime.fromtimestamp(stored.get(old).created_at, timezone.utc).isoformat()
    api.add("hay", type="sms")
    scheduled = api.add("needle", run_after=time.time() + 1000)[0]
    dead = api.add("x", type="bad")[0]
    stored("bad").set_worker(fail)
    end(stored, dead)

    def found(**wanted: object) -> list[str]:
        return [task["id"] for task in api.told("GET", "/tasks", params=wanted)["tasks"]]

    assert found(type="email") == [scheduled, old]
    assert found(status="scheduled") == [scheduled]
    assert found(status=["scheduled", "failed"]) == [dead, scheduled]
    assert found(text="needle") == [scheduled]
    assert found(error="PermanentError: no such mailbox") == [dead]
    assert len(found(since=moment)) == 4
    assert found(until=stored.get(old).created_at) == []


@pytest.mark.parametrize(
    "query",
    ["limit=0", "limit=201", "limit=x", "offset=-1", "statuss=failed", "status=done", "since=yesterday", "since=nan",
     "since=2030-01-01T00:00:00", "after=%00", "text=%00"],
)  # fmt: skip
def test_a_page_that_makes_no_sense_is_refused_by_name(query: str, queue: TaskQueue):
    assert query.partition("=")[0] in client_of(queue).refused("GET", f"/tasks?{query}", 422, "invalid_request")


@pytest.mark.parametrize(
    "task",
    [
        {"input": 1},
        {"type": "email"},
        {"type": "", "input": 1},
        {"type": "\n", "input": 1},
        {"type": 5, "input": 1},
        {"type": "email", "input": 1, "priorty": 1},
        {"type": "email", "input": 1, "priority": "1"},
        {"type": "email", "input": 1, "priority": True},
        {"type": "email", "input": 1, "timeout": 0},
        {"type": "email", "input": 1, "max_attempts": 0},
        {"type": "email", "input": 1, "run_after": True},
        {"type": "email", "input": 1, "run_after": "tomorrow"},
        {"type": "email", "input": 1, "run_after": -1},
        {"type": "email", "input": 1, "key": ""},
        {"type": "email", "input": 1, "key": "\ud800"},
        {"type": "email", "input": {"a": "\ud800"}},
        "email",
        None,
    ],
    ids=repr,
)
def test_a_task_that_makes_no_sense_is_refused(task: object, queue: TaskQueue):
    headers = {"Content-Type": "application/json"}
    assert client_of(queue).post("/tasks", content=json.dumps(task), headers=headers).status_code == 422
    assert queue.list().tasks == ()


def test_numbers_stay_as_they_are(queue: TaskQueue):
    api = client_of(queue)
    [added] = api.add({"big": 2**70, "small": 1e-9})
    assert api.told("GET", f"/tasks/{added}")["input"] == {"big": 2**70, "small": 1e-9}
