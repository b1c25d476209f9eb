"""The class of all routes: each request passes the gate and the limit on its body, each response gets its headers.

It is a class of routes and no middleware: a router that another application includes brings no middleware.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import Any

from fastapi.routing import APIRoute
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.types import Message

from tq.payload import MAX_BYTES
from tq.web.access import needs_of
from tq.web.gate import Gate
from tq.web.problems import answer_to, refusal

MAX_BODY = MAX_BYTES + 64 * 1024  # one input of the largest size, and what stands around it
ACTOR = "tq.actor"

HEADERS = {
    "Cache-Control": "no-store",
    "X-Content-Type-Options": "nosniff",
    "Content-Security-Policy": "default-src 'none'; frame-ancestors 'none'",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Referrer-Policy": "no-referrer",
}

Handler = Callable[[Request], Coroutine[Any, Any, Response]]


def guarded_by(gate: Gate) -> type[APIRoute]:
    """Routes behind this gate. One that does not say what it needs cannot be made."""

    class GuardedRoute(APIRoute):
        def get_route_handler(self) -> Handler:
            needs = needs_of(self.name)
            handler = super().get_route_handler()

            async def answer(request: Request) -> Response:
                try:
                    request.scope[ACTOR] = await gate.admit(request, needs)
                    response = await handler(await _with_body(request))
                except ClientDisconnect:
                    response = Response(status_code=400)  # nobody is there to read it
                except Exception as error:
                    response = answer_to(error)
                response.headers.update(HEADERS)
                return response

            return answer

    return GuardedRoute


async def _with_body(request: Request) -> Request:
    """The request with its body read, which is JSON and not too long."""
    _check_type(request)
    body = bytearray()
    if int(_length(request)) > MAX_BODY:
        raise _too_large()
    async for piece in request.stream():
        body += piece
        if len(body) > MAX_BODY:
            raise _too_large()
    if body and "content-type" not in request.headers:
        raise _unsupported("it has none")

    async def replay() -> Message:
        return {"type": "http.request", "body": bytes(body), "more_body": False}

    return Request(request.scope, replay)


def _check_type(request: Request) -> None:
    """Forms of other sites cannot send JSON."""
    given = request.headers.getlist("content-type")
    kinds = [each.partition(";")[0].strip().lower() for each in given]
    if kinds not in ([], ["application/json"]):
        raise _unsupported(f"it is {given[0][:100]!r}")


def _length(request: Request) -> str:
    given = request.headers.get("content-length", "0")
    return given if given.isascii() and given.isdigit() and len(given) < 20 else "0"  # then it is counted as it comes


def _unsupported(what: str) -> Exception:
    message = f"a body has to be of the content type application/json, and {what}"
    return refusal(415, "unsupported_media_type", message, "Send the header `Content-Type: application/json`.")


def _too_large() -> Exception:
    message = f"the body is larger than the limit of {MAX_BODY:,} bytes"
    hint = "Send fewer tasks at once; store large data elsewhere and pass a reference."
    return refusal(413, "body_too_large", message, hint)
