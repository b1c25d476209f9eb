"""Puts the parts together: a router, an app around it, and a WSGI application around that."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from fastapi import APIRouter, FastAPI
from fastapi.routing import APIRoute
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

from tq.errors import InvalidOption
from tq.queue import TaskQueue
from tq.web import WebOptions
from tq.web.access import ANYTHING_ELSE, PREFIX, ROUTES
from tq.web.bulk import BulkHandlers
from tq.web.description import DescriptionHandlers, documented
from tq.web.display import Display
from tq.web.elsewhere import METHODS, anything_else
from tq.web.events import EventHandlers
from tq.web.gate import Gate
from tq.web.guarded import HEADERS, guarded_by
from tq.web.overview import OverviewHandlers
from tq.web.problems import answer_to
from tq.web.steering import SteeringHandlers
from tq.web.tasks import TaskHandlers
from tq.web.wsgi_bridge import WsgiBridge


class _Parts:
    """What a router is made of."""

    def __init__(self, queue: TaskQueue, options: WebOptions) -> None:
        rest: Any = dict(_checked(options))
        display = Display(rest.pop("show_secrets", False))
        self.route_class = guarded_by(Gate(**rest))
        self.events = EventHandlers(queue)
        self.description = DescriptionHandlers()
        self._groups = (
            TaskHandlers(queue, display),
            BulkHandlers(queue),
            SteeringHandlers(queue),
            OverviewHandlers(queue),
            self.events,
            self.description,
        )

    def function(self, name: str) -> Callable[..., Any]:
        """The function that answers a route; just one group has it."""
        [function] = [getattr(group, name) for group in self._groups if hasattr(group, name)]
        return function  # type: ignore[no-any-return]


def make_router(queue: TaskQueue, options: WebOptions) -> APIRouter:
    parts = _Parts(queue, options)
    router = APIRouter(prefix=PREFIX, route_class=parts.route_class)
    _add_routes(router, parts)
    return router


def make_app(queue: TaskQueue, options: WebOptions) -> FastAPI:
    """An application that has nothing but the API; `state.events.close()` lets it stop without delay."""
    parts = _Parts(queue, options)
    app = FastAPI(title="tq", docs_url=None, redoc_url=None, openapi_url=None)
    app.router.route_class = parts.route_class
    _add_routes(app.router, parts, PREFIX)  # to include a router would make each route a second time
    app.router.add_api_route(
        "/{rest:path}", anything_else, name=ANYTHING_ELSE, methods=METHODS, include_in_schema=False
    )
    app.add_exception_handler(HTTPException, _answer)
    app.state.events = parts.events
    return app


def make_wsgi(queue: TaskQueue, options: WebOptions, beside: Any, prefix: str) -> WsgiBridge:
    return WsgiBridge(make_app(queue, options), beside, prefix)


def _add_routes(router: APIRouter, parts: _Parts, prefix: str = "") -> None:
    for row in ROUTES:
        path = prefix + row.path.replace("{type}", "{type:path}")  # a type's name may have a slash in it
        status = 201 if row.name == "add_tasks" else 200
        router.add_api_route(
            path,
            parts.function(row.name),
            name=row.name,
            methods=[row.method],
            status_code=status,
            tags=["tq"],
            **documented(row),
        )
    parts.description.routes = [route for route in router.routes if isinstance(route, APIRoute)]
    for rest in ("", "/{rest:path}"):
        router.add_api_route(prefix + rest, anything_else, name=ANYTHING_ELSE, methods=METHODS, include_in_schema=False)


async def _answer(_: Request, error: Exception) -> Response:
    """What the framework itself refuses, before any route is found."""
    response = answer_to(error)
    response.headers.update(HEADERS)
    return response


def _checked(options: WebOptions) -> WebOptions:
    unknown = set(options) - set(WebOptions.__annotations__)
    if unknown:
        raise InvalidOption(f"there is no option {min(unknown)}=; use {', '.join(sorted(WebOptions.__annotations__))}")
    return options
