"""One good call of every route, for the tests that look at all of them."""

from __future__ import annotations

from typing import Any

from tq.web.access import Declared

_BODIES: dict[str, Any] = {
    "add_tasks": {"type": "added", "input": 1},
    "retry_tasks": {"status": ["cancelled"]},
    "cancel_tasks": {"type": "email"},
    "pause": {"type": "email"},
    "rate_limit": {"type": "email", "per_second": 5},
    "change_type": {"worker_count": 2},
}


def call_of(route: Declared, task_id: str) -> dict[str, Any]:
    """What a client has to send, as the arguments of its `request`."""
    path = route.path.replace("{id}", task_id).replace("{type}", "email")
    query = {"params": {"status": "cancelled"}} if route.name == "delete_tasks" else {}
    body = {"json": _BODIES[route.name]} if route.name in _BODIES else {}
    return {"method": route.method, "url": path, **query, **body}
