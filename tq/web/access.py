"""The table of routes: which there are, and what each asks of whoever calls it. No other route can be made."""

from __future__ import annotations

from enum import Enum
from typing import NamedTuple

from tq.errors import InvalidOption, shown

PREFIX = "/api/task-queue"
ANYTHING_ELSE = "anything_else"


class Needs(str, Enum):
    """What a route asks of whoever calls it."""

    READ = "read"  # may look
    ACT = "act"  # may change something
    OPEN = "open"  # anybody; it tells nothing


READ, ACT, OPEN = Needs.READ, Needs.ACT, Needs.OPEN


class Declared(NamedTuple):
    method: str
    path: str
    needs: Needs
    name: str  # of the function that answers
    summary: str


ROUTES = (
    Declared("POST", "/tasks", ACT, "add_tasks", "Add one task or many: all of them or, if one is refused, none"),
    Declared("GET", "/tasks", READ, "list_tasks", "A page of tasks, the newest first"),
    Declared("DELETE", "/tasks", ACT, "delete_tasks", "Delete all that match and have ended"),
    Declared("GET", "/tasks/stats", READ, "stats", "How many tasks are in which status, in all and by type"),
    Declared("POST", "/tasks/retry", ACT, "retry_tasks", "Run again all that match and have failed or wait"),
    Declared("POST", "/tasks/cancel", ACT, "cancel_tasks", "Cancel all that match and have not ended"),
    Declared("POST", "/tasks/pause", ACT, "pause", "Start nothing, or nothing of a type, until it is resumed"),
    Declared("POST", "/tasks/resume", ACT, "resume", "End a pause"),
    Declared("POST", "/tasks/rate-limit", ACT, "rate_limit", "Set how many tasks of a type may start in a second"),
    Declared("GET", "/tasks/{id}", READ, "get_task", "A task as it stands, with what has happened to it"),
    Declared("DELETE", "/tasks/{id}", ACT, "delete_task", "Delete a task that has ended"),
    Declared("POST", "/tasks/{id}/retry", ACT, "retry_task", "Run a task again, or now"),
    Declared("POST", "/tasks/{id}/cancel", ACT, "cancel_task", "Cancel a task; one that runs is asked to stop"),
    Declared("GET", "/tasks/{id}/explain", READ, "explain_task", "Why a task is not running"),
    Declared("GET", "/types", READ, "list_types", "All types, with their tasks, settings and workers"),
    Declared("GET", "/types/{type}", READ, "get_type", "One type"),
    Declared("PATCH", "/types/{type}", ACT, "change_type", "Set what holds for a type in every process"),
    Declared("GET", "/workers", READ, "list_workers", "All worker processes, and what they run"),
    Declared("GET", "/actions", READ, "list_actions", "What operators have done, the newest first"),
    Declared("GET", "/metrics", READ, "metrics", "What happened in each of the last minutes, by type"),
    Declared("GET", "/metrics/prometheus", READ, "prometheus", "The state of the queue for Prometheus"),
    Declared("GET", "/events", READ, "events", "The stats whenever they change, as server-sent events"),
    Declared("GET", "/openapi.json", READ, "openapi", "This description"),
    Declared("GET", "/healthz", OPEN, "healthz", "Whether the database can be reached"),
)

_NEEDS = {route.name: route.needs for route in ROUTES} | {ANYTHING_ELSE: READ}


def needs_of(name: str) -> Needs:
    """What the route with this name asks for; without an answer there is no application."""
    try:
        return _NEEDS[name]
    except KeyError:
        raise InvalidOption(f"the route {shown(name)} does not say who may call it; give it a row in ROUTES") from None
