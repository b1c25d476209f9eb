"""What is answered where there is nothing, or not by this method: an error like all others."""

from __future__ import annotations

from starlette.requests import Request
from starlette.routing import compile_path

from tq.web.access import ROUTES
from tq.web.problems import refusal

METHODS = ["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE", "CONNECT", "QUERY"]
_PATTERNS = [(compile_path(route.path)[0], route.method) for route in ROUTES]


async def anything_else(request: Request, rest: str = "") -> None:
    """Says 405 where another method would have been right, and 404 where none is."""
    path = f"/{rest}"
    allowed = sorted({method for pattern, method in _PATTERNS if pattern.match(path)})
    hint = "GET openapi.json lists what there is."
    if allowed and request.method not in allowed:
        message = f"this takes {' and '.join(allowed)}, not {request.method}"
        raise refusal(405, "method_not_allowed", message, hint, {"Allow": ", ".join(allowed)})
    raise refusal(404, "no_such_route", "there is nothing here", hint)
