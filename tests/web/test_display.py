"""Secrets are masked by the names of their keys before anything is cut; long values in lists are cut, and say so."""

from __future__ import annotations

import json

import pytest

from tests.waiting import eventually
from tests.web.clients import client_of
from tq import PermanentError, TaskQueue
from tq.web.display import MASK, PREVIEW_CHARACTERS, Display, masked, masked_text

SECRET = "hunter2"


@pytest.mark.parametrize(
    "key",
    ["password", "PASSWORD", "db_passwd", "client_secret", "token", "accessToken", "Authorization", "api_key", "apiKey",
     "API-KEY", "api key", "cookie", "Set-Cookie", "private_key", "credentials", "session_id", "jwt"],
)  # fmt: skip
@pytest.mark.parametrize("value", [SECRET, 5, None, [SECRET], {"deep": SECRET}], ids=repr)
def test_a_secret_is_masked_by_its_key(key: str, value: object):
    assert masked({"a": [{key: value}], "b": 1}) == {"a": [{key: MASK}], "b": 1}


@pytest.mark.parametrize("key", ["to", "subject", "passenger", "keyboard", "apiary", ""])
def test_other_keys_are_shown(key: str):
    assert masked({key: SECRET}) == {key: SECRET}


@pytest.mark.parametrize(
    "text",
    ["password=hunter2", "password: hunter2", "Authorization: Bearer hunter2", "Authorization: Basic hunter2",
     'bad {"api_key": "hunter2"}', "{'token': 'hunter2'}", 'token="a hunter2', "https://x/?access_token=hunter2&b=1",
     "TOKEN = hunter2"],
)  # fmt: skip
def test_a_secret_in_a_text_is_masked(text: str):
    assert SECRET not in masked_text(text)
    assert MASK in masked_text(text)


def test_no_answer_shows_a_secret(queue: TaskQueue):
    def leak(_: object) -> None:
        raise PermanentError(f"cannot log in with password={SECRET}")

    api = client_of(queue)
    [added] = api.add({"smtp": {"password": SECRET}, "note": f"token: {SECRET}"})
    queue("email").set_worker(leak)
    eventually(lambda: queue.get(added).finished)
    for path in ("/tasks", f"/tasks/{added}", f"/tasks/{added}/explain"):
        text = api.get(path).text
        assert MASK in text
        assert SECRET not in text
    assert SECRET in client_of(queue, show_secrets=True).get(f"/tasks/{added}").text


def test_a_secret_is_masked_before_the_rest_is_cut(queue: TaskQueue):
    api = client_of(queue)
    api.add({"password": SECRET * 1000, "text": "x" * 1000})
    [task] = api.told("GET", "/tasks")["tasks"]
    assert task["truncated"]
    assert SECRET not in json.dumps(task)


def test_long_values_are_cut_in_a_list_and_whole_by_themselves(queue: TaskQueue):
    api = client_of(queue)
    short, long = api.add("x" * PREVIEW_CHARACTERS, ["é" * 1000])
    shown = {task["id"]: task for task in api.told("GET", "/tasks")["tasks"]}
    assert not shown[short]["truncated"]
    assert shown[long]["truncated"]
    assert shown[long]["previews"] == ["input"]
    assert len(shown[long]["input"]) == PREVIEW_CHARACTERS + 1
    whole = api.told("GET", f"/tasks/{long}")
    assert whole["input"] == ["é" * 1000]
    assert not whole["truncated"]


@pytest.mark.parametrize(
    "value",
    [
        {"password": "x" * 5000, "b": 1},
        [{"token": 1}] * 5000,
        {"x" * 5000: 1},
        [[1] * 9] * 900,
        "x" * 5000,
        [""] * 5000,
    ],
    ids=["masked", "many", "key", "nested", "text", "empty"],
)
def test_what_was_left_out_is_never_shown_as_all(value: object):
    preview, is_cut = Display()._preview(value)
    assert is_cut
    assert isinstance(preview, str)
    assert len(preview) <= PREVIEW_CHARACTERS + 1


def test_hostile_text_stays_json(queue: TaskQueue):
    api = client_of(queue)
    api.add("<script>alert(1)</script>", type="<img src=x onerror=alert(1)>")
    answer = api.get("/tasks")
    assert answer.headers["content-type"] == "application/json"
    assert answer.headers["x-content-type-options"] == "nosniff"
