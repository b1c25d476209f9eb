"""The gate: which requests are let in, and as whom. Whatever it is not sure of, it refuses.

Loopback alone is no protection: pages on other sites can reach it through the visitor's browser, under a name of theirs
that suddenly points here (DNS rebinding), or with a form (CSRF). So the name and the origin are looked at every time.
"""

from __future__ import annotations

import hmac
import inspect
import ipaddress
import re
from collections.abc import Sequence
from typing import TYPE_CHECKING

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request

from tq.errors import InvalidOption, shown
from tq.web.access import Needs
from tq.web.problems import refusal

if TYPE_CHECKING:
    from tq.web import Auth

LOOPBACK_NAMES = frozenset({"localhost", "127.0.0.1", "::1"})
_HOST = re.compile(r"(?:\[(?P<v6>[0-9a-f:.]+)\]|(?P<name>[a-z0-9._-]+))(?::(?P<port>\d{1,5}))?", re.IGNORECASE)
_ORIGIN = re.compile(r"(?P<scheme>https?)://(?P<host>[^/?#@\s]+)", re.IGNORECASE)
_USUAL_PORTS = {"http": "80", "https": "443"}
_FORWARDED = ("forwarded", "x-forwarded-for", "x-forwarded-host", "x-real-ip")


class Gate:
    """Who is let in. Give a token, or a hook, or neither: then it is this machine alone."""

    def __init__(
        self,
        auth: Auth | None = None,
        token: str | None = None,
        read_only: bool = False,
        hosts: Sequence[str] = (),
    ) -> None:
        if auth is not None and token is not None:
            raise InvalidOption("give auth= or token=, not both: auth= can compare tokens by itself")
        if auth is not None and not callable(auth):
            raise InvalidOption(f"auth={shown(auth)}: give a function of a request and what it needs")
        if isinstance(hosts, str):
            raise InvalidOption(f"hosts={hosts!r}: give a list of names")
        self._auth = auth
        self._token = None if token is None else _checked_token(token)
        self._read_only = read_only
        self._hosts = LOOPBACK_NAMES | {_checked_host(host) for host in hosts}

    async def admit(self, request: Request, needs: Needs) -> str:
        """The name of who asks; whoever may not is told so by an exception."""
        host = self._check_host(request)
        _check_origin(request, host)
        if needs is Needs.OPEN:
            return "anybody"
        actor = await self._identify(request, needs)
        if needs is Needs.ACT and self._read_only:
            raise refusal(403, "read_only", "this can be looked at, not changed", "Ask where changes are allowed.")
        return actor

    # --- where it comes from -------------------------------------------------------------------------------------

    def _check_host(self, request: Request) -> str:
        given = request.headers.getlist("host")
        found = _HOST.fullmatch(given[0]) if len(given) == 1 else None
        name = (found["v6"] or found["name"]).lower().rstrip(".") if found else ""
        if name not in self._hosts:
            raise refusal(
                403,
                "host_not_allowed",
                f"this is not served under the name {name[:255]!r}",
                "Call it as localhost, or have the name allowed: hosts=[…], or --allow-host with tq web.",
            )
        return given[0]

    # --- who it is -----------------------------------------------------------------------------------------------

    async def _identify(self, request: Request, needs: Needs) -> str:
        if self._auth is not None:
            return await _asked(self._auth, request, needs)
        if self._token is not None:
            return self._bearer(request)
        peer = _peer(request)
        if not _is_loopback(peer) or any(name in request.headers for name in _FORWARDED):
            raise refusal(
                401,
                "unauthenticated",
                "without a token this answers nobody but its own machine, and no proxy",
                "Start it with a token (token=…, or TQ_WEB_TOKEN with tq web) or give it auth=….",
            )
        return f"somebody at {peer}"

    def _bearer(self, request: Request) -> str:
        given = request.headers.getlist("authorization")
        scheme, _, token = given[0].partition(" ") if len(given) == 1 else ("", "", "")
        assert self._token is not None
        if not hmac.compare_digest(token.strip().encode(), self._token) or scheme.lower() != "bearer":
            raise refusal(
                401,
                "unauthenticated",
                "the token is missing or wrong",
                "Send the header `Authorization: Bearer <token>`.",
                {"WWW-Authenticate": "Bearer"},
            )
        return "the token's holder"


def _check_origin(request: Request, host: str) -> None:
    """What a browser says of where a request comes from must be this very site. Others say nothing."""
    site = request.headers.getlist("sec-fetch-site")
    origins = request.headers.getlist("origin")
    same = all(value in ("same-origin", "none") for value in site) and all(
        _is_origin_of(origin, host) for origin in origins
    )
    if not same:
        raise refusal(
            403,
            "cross_origin",
            "a page of another origin has asked for this",
            "Call it from a page of its own origin, or from a program. A proxy must hand on the Host header.",
        )


def _is_origin_of(origin: str, host: str) -> bool:
    found = _ORIGIN.fullmatch(origin)
    if found is None:  # also `null`, which a sandboxed frame sends
        return False
    usual = ":" + _USUAL_PORTS[found["scheme"].lower()]
    return found["host"].lower().removesuffix(usual) == host.lower().removesuffix(usual)


async def _asked(auth: Auth, request: Request, needs: Needs) -> str:
    if inspect.iscoroutinefunction(auth) or inspect.iscoroutinefunction(getattr(auth, "__call__", None)):  # noqa: B004
        answer = auth(request, needs)
    else:
        answer = await run_in_threadpool(auth, request, needs)
    name = await answer if inspect.isawaitable(answer) else answer
    if name is None:
        raise refusal(403, "forbidden", f"you may not {needs.value} here", "Ask those who run this for the right.")
    if not isinstance(name, str) or not 0 < len(name) <= 255 or not name.isprintable():
        raise TypeError(f"auth() answered {shown(name)}: it has to be a name of 1 to 255 printable characters, or None")
    return name


def _peer(request: Request) -> str:
    if request.client is not None:
        return request.client.host
    return str(request.scope.get("wsgi_environ", {}).get("REMOTE_ADDR", ""))


def _is_loopback(address: str) -> bool:
    try:
        return ipaddress.ip_address(address).is_loopback
    except ValueError:
        return False


def _checked_token(token: str) -> bytes:
    if not isinstance(token, str) or not token or not token.isascii() or not token.isprintable() or " " in token:
        raise InvalidOption("token=…: give a text of printable ASCII characters without spaces; the longer, the better")
    return token.encode()


def _checked_host(host: str) -> str:
    found = _HOST.fullmatch(f"[{host}]" if host.count(":") > 1 else host) if isinstance(host, str) else None
    if found is None or found["port"]:
        raise InvalidOption(f"hosts={shown(host)}: give names as browsers show them, without scheme, port and path")
    return (found["v6"] or found["name"]).lower().rstrip(".")
