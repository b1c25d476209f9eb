"""The API for WSGI servers, alone or beside another application: Flask, Django, or any other."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterable
from typing import Any

from a2wsgi import ASGIMiddleware

from tq.errors import InvalidOption
from tq.web.access import PREFIX

Wsgi = Callable[..., Iterable[bytes]]


class WsgiBridge:
    """Runs the ASGI application on an event loop of its own, in a thread that begins with the first request: servers
    that load an application and then fork would leave an earlier one behind."""

    def __init__(self, app: Any, beside: Wsgi | None, prefix: str) -> None:
        if prefix and (not prefix.startswith("/") or prefix.endswith("/")):
            raise InvalidOption(f"prefix={prefix!r}: begin it with a slash, and end it without one")
        self._app = app
        self._beside = beside
        self._prefix = prefix
        self._bridges: dict[int, Any] = {}  # by process
        self._guard = threading.Lock()

    def __call__(self, environ: dict[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
        path = environ.get("PATH_INFO", "")
        ours = path == self._prefix + PREFIX or path.startswith(f"{self._prefix}{PREFIX}/")
        if self._beside is not None and not ours:
            return self._beside(environ, start_response)
        if self._prefix and path.startswith(f"{self._prefix}/"):
            environ["SCRIPT_NAME"] = environ.get("SCRIPT_NAME", "") + self._prefix
            environ["PATH_INFO"] = path.removeprefix(self._prefix)
        if not environ.get("CONTENT_LENGTH"):  # wsgiref then says text/plain, of a body that is not there
            environ.pop("CONTENT_TYPE", None)
        answer: Iterable[bytes] = self._bridge()(environ, start_response)
        return answer

    def _bridge(self) -> Any:
        with self._guard:
            process = os.getpid()
            if process not in self._bridges:
                self._bridges = {process: ASGIMiddleware(self._app)}
            return self._bridges[process]
