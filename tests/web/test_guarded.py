"""Bodies: JSON alone, and not too much of it, whatever their headers say; and one shape of errors everywhere."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest

from tests.web.clients import Client, client_of
from tq import TaskQueue, web
from tq.web.guarded import MAX_BODY

JSON = {"Content-Type": "application/json"}
TASK = json.dumps({"type": "email", "input": 1})


@pytest.fixture
def local(queue: TaskQueue) -> Client:
    return client_of(queue)


@pytest.mark.parametrize(
    "kind",
    ["application/x-www-form-urlencoded", "multipart/form-data; boundary=x", "text/plain", "text/json",
     "application/json-seq", "application/vnd.api+json", "", "json"],
)  # fmt: skip
def test_a_body_that_a_form_could_send_is_refused(kind: str, local: Client, queue: TaskQueue):
    for path in ("/tasks", "/tasks/pause"):
        headers = {"Content-Type": kind}
        local.refused("POST", path, 415, "unsupported_media_type", content=TASK, headers=headers)
        local.refused("POST", path, 415, "unsupported_media_type", headers=headers)
    local.refused("POST", "/tasks", 415, "unsupported_media_type", content=TASK)
    assert queue.list().tasks == ()
    assert queue.desk.actions() == []


@pytest.mark.parametrize("kind", ["application/json; charset=utf-8", "Application/JSON"])
def test_json_may_say_more_of_itself(kind: str, local: Client):
    local.told("POST", "/tasks", 201, content=TASK, headers={"Content-Type": kind})


@pytest.mark.parametrize("body", ["{", "", "nul", '{"a":1}x', "\xff", "[" * 100_000, "1" * 10_000], ids=len)
def test_what_is_no_json_is_refused(body: str, local: Client):
    answer = local.post("/tasks", content=body.encode("latin-1"), headers=JSON)
    assert answer.status_code in (400, 422)
    assert set(answer.json()) == {"error"}


def test_an_input_may_be_as_large_as_tq_takes_it(local: Client, queue: TaskQueue):
    largest = "x" * (2**20 - 2)
    [added] = local.add(largest)
    assert queue.get(added).input == largest
    task = json.dumps({"type": "email", "input": largest + "x"})
    said = local.refused("POST", "/tasks", 422, "payload_refused", content=task, headers=JSON)
    assert "the limit is 1,048,576" in said


def test_a_body_that_is_too_large_is_refused(local: Client, queue: TaskQueue):
    body = json.dumps({"type": "email", "input": "x" * MAX_BODY})
    local.refused("POST", "/tasks", 413, "body_too_large", content=body, headers=JSON)


@pytest.mark.parametrize("method", ["POST", "GET", "DELETE"])
def test_a_body_is_counted_while_it_comes(method: str, local: Client):
    read = 0

    def endless() -> Iterator[bytes]:
        nonlocal read
        for _ in range(1000):
            read += 65536
            yield b" " * 65536

    local.refused(method, "/tasks", 413, "body_too_large", content=endless(), headers=JSON)


def test_what_is_nested_too_deep_is_refused(local: Client):
    deep = "[" * 200 + "]" * 200
    body = f'{{"type": "email", "input": {deep}}}'
    assert "nested deeper" in local.refused("POST", "/tasks", 422, "payload_refused", content=body, headers=JSON)


@pytest.mark.parametrize("value", ["NaN", "Infinity", "-Infinity", "1e999"])
def test_what_is_no_number_is_refused(value: str, local: Client):
    for body in (f'{{"type": "email", "input": {value}}}', f'{{"type": "email", "input": 1, "timeout": {value}}}'):
        assert local.post("/tasks", content=body, headers=JSON).status_code == 422


def test_a_wrong_method_is_told_the_right_ones(local: Client):
    answer = local.put("/tasks")
    assert answer.headers["allow"] == "DELETE, GET, POST"
    assert "this takes DELETE and GET and POST, not PUT" in local.refused("PUT", "/tasks", 405, "method_not_allowed")
    assert local.head("/tasks").status_code == 405
    local.refused("BREW", "/tasks", 405, "method_not_allowed")


@pytest.mark.parametrize("path", ["", "/", "/nothing", "/tasks/", "/tasks/a/b/c", "/docs", "/redoc"])
def test_where_nothing_is_an_error_says_so(path: str, local: Client):
    local.refused("GET", path, 404, "no_such_route")


@pytest.mark.parametrize("path", ["/", "/docs", "/openapi.json", "/api", "/favicon.ico"])
def test_outside_of_its_prefix_the_app_has_nothing(path: str, queue: TaskQueue):
    client = Client(web.app(queue), base_url="http://localhost", client=("127.0.0.1", 1))
    client.refused("GET", path, 404, "no_such_route")
    client.refused("GET", path, 403, "host_not_allowed", headers={"host": "evil.example.com"})


def test_an_error_that_repeats_what_was_sent_is_no_page(local: Client):
    answer = local.get("/types/<script>alert(1)</script>")
    assert answer.status_code == 404
    assert answer.headers["content-type"] == "application/json"
    assert answer.headers["x-content-type-options"] == "nosniff"
