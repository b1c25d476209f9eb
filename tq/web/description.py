"""What the API says of itself: its OpenAPI document, made from the table of routes and the models."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from fastapi.openapi.utils import get_openapi
from fastapi.routing import APIRoute
from starlette.requests import Request
from starlette.responses import JSONResponse

from tq import __version__
from tq.web.access import OPEN, PREFIX, Declared
from tq.web.answers import Problem

_BODY = (400, 413, 415)
_MEANS = {
    400: "The body is not JSON.",
    401: "Who asks has not shown who they are.",
    403: "Not from here, not under this name, or not this person; or all is read-only.",
    404: "There is none.",
    409: "It is in a state in which this cannot be done.",
    413: "The body is too large.",
    415: "The body is not of the type application/json.",
    422: "The request says something that makes no sense, or that is not known.",
    429: "Too much at once; try again.",
    500: "A mistake in tq; its log says more.",
    501: "A package is missing where this runs.",
    503: "The database is in trouble.",
}
_EVENT = {
    "type": "object",
    "properties": {
        "event": {"type": "string", "const": "stats"},
        "data": {"type": "string", "description": "The stats, as JSON."},
        "retry": {"type": "integer", "description": "After how many milliseconds to come again."},
    },
    "required": ["event", "data"],
}
_OTHER_CONTENT: dict[str, dict[str, Any]] = {
    "prometheus": {"text/plain": {"schema": {"type": "string"}}},
    "events": {"text/event-stream": {"schema": _EVENT}},
}


def documented(row: Declared) -> dict[str, Any]:
    """What the description says of a route, as `add_api_route` takes it."""
    statuses = {403, 422, 429, 500, 503} | (set() if row.needs is OPEN else {401})
    statuses |= {*_BODY} if row.method in ("POST", "PATCH", "DELETE") else {413, 415}
    statuses |= {404} if "{" in row.path else set()
    statuses |= {409} if "{id}" in row.path and row.method != "GET" else set()
    statuses |= {501} if row.name == "prometheus" else set()
    responses: dict[int | str, Any] = {
        status: {"model": Problem, "description": _MEANS[status]} for status in sorted(statuses)
    }
    if row.name in _OTHER_CONTENT:
        responses[200] = {"content": _OTHER_CONTENT[row.name]}
    extra: dict[str, Any] = {"x-needs": row.needs.value}
    if row.needs is not OPEN:
        extra["security"] = [{"token": []}]
    return {"summary": row.summary, "operation_id": row.name, "responses": responses, "openapi_extra": extra}


def described(routes: Sequence[APIRoute]) -> dict[str, Any]:
    """The OpenAPI document of these routes."""
    document: dict[str, Any] = get_openapi(
        title="tq", version=__version__, summary="See and steer a task queue.", routes=list(routes)
    )
    schemes = document.setdefault("components", {}).setdefault("securitySchemes", {})
    schemes["token"] = {"type": "http", "scheme": "bearer"}
    return document


class DescriptionHandlers:
    def __init__(self) -> None:
        self.routes: Sequence[APIRoute] = ()
        self._document: dict[str, Any] = {}

    def openapi(self, request: Request) -> JSONResponse:
        self._document = document = self._document or described(self.routes)
        base = request.url.path.removesuffix(f"{PREFIX}/openapi.json")
        return JSONResponse({**document, "servers": [{"url": base or "/"}]})
