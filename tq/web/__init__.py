"""The REST API: by itself (`tq web`), as a router or an app inside another one, or as WSGI in Flask and Django.

>>> from fastapi import FastAPI
>>> from tq import web
>>> site = FastAPI()
>>> site.include_router(web.router(tq, token="of-those-who-may-steer"))
>>> site.mount("/viewer", web.app(tq, read_only=True))
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from types import ModuleType
from typing import TYPE_CHECKING, Any, TypedDict

from typing_extensions import Unpack

from tq.errors import MissingExtra

if TYPE_CHECKING:
    from fastapi import APIRouter, FastAPI
    from starlette.requests import Request

    from tq.queue import TaskQueue
    from tq.web.access import Needs

__all__ = ["WebOptions", "app", "router", "wsgi"]

Auth = Callable[["Request", "Needs"], "str | Awaitable[str | None] | None"]
_OF_THE_EXTRA = ("a2wsgi", "fastapi", "pydantic", "starlette", "uvicorn")


class WebOptions(TypedDict, total=False):
    """Who may do what. With neither `auth` nor `token` only this machine is let in."""

    auth: Auth  # auth(request, needs) -> the name of who asks, or None: no. It may be a coroutine function
    token: str  # or: whoever sends `Authorization: Bearer <token>`
    read_only: bool  # look, and change nothing
    hosts: Sequence[str]  # under which names it may be called, beside those of this machine
    show_secrets: bool  # show what stands under keys such as `password` and `token`


def router(queue: TaskQueue | None = None, **options: Unpack[WebOptions]) -> APIRouter:
    """The API as a router, for `include_router` of a FastAPI application. Without a queue it is `tq`."""
    made: APIRouter = _assembly().make_router(_queue(queue), options)
    return made


def app(queue: TaskQueue | None = None, **options: Unpack[WebOptions]) -> FastAPI:
    """The API as an ASGI application: to be served by itself, or for `mount`."""
    made: FastAPI = _assembly().make_app(_queue(queue), options)
    return made


def wsgi(
    queue: TaskQueue | None = None, *, beside: Any = None, prefix: str = "", **options: Unpack[WebOptions]
) -> Callable[..., Any]:
    """The API as a WSGI application. With `beside=application` it answers below `prefix`, and that one all the rest."""
    made: Callable[..., Any] = _assembly().make_wsgi(_queue(queue), options, beside, prefix)
    return made


def _queue(queue: TaskQueue | None) -> TaskQueue:
    if queue is None:
        from tq import tq

        return tq
    return queue


def _assembly() -> ModuleType:
    try:
        from tq.web import assembly
    except ModuleNotFoundError as error:
        if str(error.name).partition(".")[0] not in _OF_THE_EXTRA:
            raise
        raise MissingExtra(
            f"the REST API needs a package that is not installed ({error.name}): pip install 'tq-tasks[web]'"
        ) from error
    return assembly
