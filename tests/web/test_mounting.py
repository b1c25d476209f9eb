"""The ways in: a router in FastAPI, an app that is mounted, and WSGI in Flask and Django, each below some prefix."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import flask
import pytest
from fastapi import Depends, FastAPI, HTTPException
from starlette.applications import Starlette
from starlette.routing import Mount
from starlette.testclient import TestClient

import tq as package
from tests.web.clients import client_of
from tq import TaskQueue, web
from tq.web.access import PREFIX

HERE = ("127.0.0.1", 50000)


def walk(call: Callable[..., tuple[int, Any]]) -> None:
    """What works by itself works in another application too."""
    status, added = call("POST", "/tasks", {"type": "email", "input": {"to": "a"}})
    assert status == 201
    [task_id] = added["ids"]
    assert call("GET", f"/tasks/{task_id}")[1]["input"] == {"to": "a"}
    assert call("GET", "/tasks?status=to-do&limit=1")[1]["tasks"][0]["id"] == task_id
    assert call("PATCH", "/types/a%2Fb", {"worker_count": 2})[1]["name"] == "a/b"
    assert call("POST", f"/tasks/{task_id}/cancel")[1]["status"] == "cancelled"
    assert call("DELETE", f"/tasks/{task_id}") == (200, {"count": 1, "dry_run": False})
    assert call("GET", f"/tasks/{task_id}")[1]["error"]["code"] == "task_not_found"
    assert call("GET", "/nothing")[1]["error"]["code"] == "no_such_route"
    assert call("PUT", "/tasks")[1]["error"]["code"] == "method_not_allowed"
    assert call("POST", "/tasks", {"type": 5})[1]["error"]["code"] == "invalid_request"


def through(client: TestClient, under: str) -> Callable[..., tuple[int, Any]]:
    def call(method: str, path: str, body: Any = None) -> tuple[int, Any]:
        answer = client.request(method, under + PREFIX + path, **({} if body is None else {"json": body}))
        return answer.status_code, answer.json()

    return call


def site(application: Any) -> TestClient:
    return TestClient(application, base_url="http://localhost", client=HERE)


# --- FastAPI and Starlette -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("prefix", ["", "/internal", "/api", "/a/b"])
def test_a_router_is_included(prefix: str, queue: TaskQueue):
    host = FastAPI()
    host.include_router(web.router(queue), prefix=prefix)
    walk(through(site(host), prefix))


@pytest.mark.parametrize("prefix", ["/internal", "/api", "/api/task-queue"])
@pytest.mark.parametrize("framework", [FastAPI, Starlette])
def test_an_app_is_mounted(framework: type[Starlette], prefix: str, queue: TaskQueue):
    host = framework(routes=[Mount(prefix, web.app(queue))])
    walk(through(site(host), prefix))


def test_a_mounted_app_opens_its_queue_with_the_first_request(folder, monkeypatch: pytest.MonkeyPatch):
    """The lifespan of a mounted app does not run."""
    monkeypatch.setenv("TQ_DATABASE_URL", str(folder / "later.db"))
    queue = TaskQueue()
    host = Starlette(routes=[Mount("/x", web.app(queue))])
    with site(host) as client:
        assert not (folder / "later.db").exists()
        assert client.get(f"/x{PREFIX}/tasks").json() == {"tasks": [], "next": None}
    queue.stop()


def test_without_a_queue_it_is_the_one_that_all_share(queue: TaskQueue, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(package, "tq", queue)
    queue("email").add(1)
    assert len(site(web.app()).get(f"{PREFIX}/tasks").json()["tasks"]) == 1


def test_the_host_keeps_its_own_errors_and_pages(queue: TaskQueue):
    host = FastAPI()
    host.include_router(web.router(queue))
    host.get("/own")(lambda: {"mine": True})
    client = site(host)
    assert client.get("/own").json() == {"mine": True}
    assert client.get("/elsewhere").json() == {"detail": "Not Found"}
    assert "add_tasks" in client.get("/openapi.json").text


def refuse() -> None:
    raise HTTPException(418, "only teapots may", {"X-Kind": "teapot"})


def test_what_the_host_asks_of_its_routes_holds_for_ours(queue: TaskQueue):
    host = FastAPI()
    host.include_router(web.router(queue), dependencies=[Depends(refuse)])
    answer = site(host).post(f"{PREFIX}/tasks/pause")
    assert (answer.status_code, answer.headers["x-kind"]) == (418, "teapot")
    assert answer.json()["error"]["message"] == "only teapots may"
    assert queue.desk.actions() == []


def test_the_gate_holds_in_an_included_router(queue: TaskQueue):
    host = FastAPI()
    host.include_router(web.router(queue, read_only=True))
    client = site(host)
    assert client.post(f"{PREFIX}/tasks/pause").json()["error"]["code"] == "read_only"
    assert client.get(f"{PREFIX}/tasks", headers={"host": "a.b"}).json()["error"]["code"] == "host_not_allowed"


def test_the_description_says_where_it_is(queue: TaskQueue):
    host = Starlette(routes=[Mount("/x", web.app(queue))])
    api = client_of(queue, host, under="/x")
    assert api.told("GET", "/openapi.json")["servers"] == [{"url": "/x"}]
    assert client_of(queue).told("GET", "/openapi.json")["servers"] == [{"url": "/"}]


# --- WSGI ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("prefix", ["", "/internal", "/api"])
def test_it_answers_beside_a_flask_application(prefix: str, queue: TaskQueue):
    host = flask.Flask("site")
    host.route("/own")(lambda: {"mine": True})
    host.wsgi_app = web.wsgi(queue, beside=host.wsgi_app, prefix=prefix)  # type: ignore[method-assign]
    client = host.test_client()

    def call(method: str, path: str, body: Any = None) -> tuple[int, Any]:
        answer = client.open(prefix + PREFIX + path, method=method, **({} if body is None else {"json": body}))
        return answer.status_code, answer.get_json()

    walk(call)
    assert client.get("/own").get_json() == {"mine": True}
    assert client.get(f"{prefix}{PREFIX}x").status_code == 404
    assert client.get(f"{prefix}{PREFIX}/tasks", headers={"Host": "a.b"}).get_json()["error"]["code"] == (
        "host_not_allowed"
    )


def test_under_wsgi_a_stream_is_one_event_long(queue: TaskQueue):
    host = flask.Flask("site")
    host.wsgi_app = web.wsgi(queue, beside=host.wsgi_app)  # type: ignore[method-assign]
    answer = host.test_client().get(f"{PREFIX}/events")
    assert answer.get_data(as_text=True).count("event: stats") == 1


def test_under_wsgi_others_need_a_token_too(queue: TaskQueue):
    host = flask.Flask("site")
    host.wsgi_app = web.wsgi(queue, beside=host.wsgi_app)  # type: ignore[method-assign]
    answer = host.test_client().get(f"{PREFIX}/tasks", environ_base={"REMOTE_ADDR": "10.0.0.5"})
    assert answer.get_json()["error"]["code"] == "unauthenticated"


@pytest.mark.parametrize("prefix", ["internal", "/internal/"])
def test_a_prefix_begins_with_a_slash_and_ends_without_one(prefix: str, queue: TaskQueue):
    with pytest.raises(ValueError, match="begin it with a slash"):
        web.wsgi(queue, prefix=prefix)
