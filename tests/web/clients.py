"""Clients of the API: in process, as a program on the same machine would call it."""

from __future__ import annotations

from typing import Any

from fastapi.testclient import TestClient

from tq import TaskQueue, web
from tq.web.access import PREFIX

TOKEN = "a-token-of-the-tests"


class Client(TestClient):
    """Calls paths below the prefix; `told` answers with what came as JSON, of the status that is expected."""

    def told(self, method: str, path: str, status: int = 200, **options: Any) -> Any:
        answer = self.request(method, path, **options)
        assert answer.status_code == status, answer.text
        return answer.json()

    def refused(self, method: str, path: str, status: int, code: str, **options: Any) -> str:
        """What is said of an error, which has the one shape that all errors have."""
        answer = self.told(method, path, status, **options)
        assert set(answer) == {"error"}
        assert set(answer["error"]) == {"code", "message", "hint"}
        assert all(isinstance(text, str) and text for text in answer["error"].values())
        assert answer["error"]["code"] == code
        return str(answer["error"]["message"])

    def add(self, *inputs: Any, type: str = "email", **options: Any) -> list[str]:
        ids = self.told("POST", "/tasks", 201, json=[{"type": type, "input": each, **options} for each in inputs])
        return list(ids["ids"])


def client_of(queue: TaskQueue, application: Any = None, under: str = "", **options: Any) -> Client:
    """A client on this machine; `under` is the path at which the API is mounted."""
    application = application or web.app(queue, **options)
    here = ("127.0.0.1", 50000)
    return Client(application, base_url=f"http://localhost{under}{PREFIX}", client=here, raise_server_exceptions=False)
