"""Who is let in: the matrix of every route × Host × Origin × token × read-only, and what each of them catches."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product
from typing import Any, NamedTuple

import pytest
from starlette.requests import Request

from tests.web.calls import call_of
from tests.web.clients import TOKEN, Client, client_of
from tq import TaskQueue, web
from tq.errors import InvalidOption
from tq.web.access import ACT, OPEN, READ, ROUTES, Declared, Needs

ELSEWHERE = (
    Declared("GET", "/nothing/here", READ, "nothing", ""),
    Declared("PUT", "/tasks", READ, "wrong_method", ""),
    Declared("OPTIONS", "/tasks", READ, "preflight", ""),
    Declared("TRACE", "", READ, "root", ""),
)
HOSTS = {
    "localhost": True,
    "LOCALHOST.": True,
    "127.0.0.1:8787": True,
    "[::1]:8787": True,
    "tasks.example.com": True,
    "evil.example.com": False,
    "localhost.evil.example.com": False,
    "localhost@evil.example.com": False,
    "evil.example.com#localhost": False,
    "": False,
}
# What a browser says of where a request comes from: `Origin`, and `Sec-Fetch-Site`. {host} is where it goes to.
ORIGINS: dict[tuple[str | None, str | None], bool] = {
    (None, None): True,  # no browser
    (None, "none"): True,  # an address that was typed
    ("http://{host}", "same-origin"): True,
    ("https://{host}", None): True,  # a proxy speaks HTTPS
    ("http://evil.example.com", None): False,
    ("http://{host}.evil.example.com", None): False,
    ("http://{host}:9", None): False,
    ("null", None): False,
    ("", None): False,
    (None, "cross-site"): False,
    (None, "same-site"): False,
    ("http://{host}", "cross-site"): False,
}
TOKENS = {
    f"Bearer {TOKEN}": True,
    f"bearer {TOKEN}": True,
    f"Bearer {TOKEN}x": False,
    f"Basic {TOKEN}": False,
    TOKEN: False,
    "Bearer": False,
    "Bearer é": False,
    None: False,
}


class Attempt(NamedTuple):
    host: str
    origin: tuple[str | None, str | None]
    token: str | None

    def headers(self) -> list[tuple[str, bytes]]:
        origin, site = self.origin
        said = {
            "host": self.host,
            "origin": origin if origin is None else origin.format(host=self.host),
            "sec-fetch-site": site,
            "authorization": self.token,
        }
        return [(name, value.encode()) for name, value in said.items() if value is not None]

    def expected(self, needs: Needs, read_only: bool) -> str | None:
        """The code of the refusal; None lets it in."""
        if not HOSTS[self.host]:
            return "host_not_allowed"
        if not ORIGINS[self.origin]:
            return "cross_origin"
        if needs is not OPEN and not TOKENS[self.token]:
            return "unauthenticated"
        return "read_only" if needs is ACT and read_only else None


ATTEMPTS = [Attempt(*each) for each in product(HOSTS, ORIGINS, TOKENS)]


def few(attempts: list[Attempt]) -> Iterator[Attempt]:
    """All in which one thing at most is wrong, or all things are: the rest tells no more, and takes a minute."""
    for each in attempts:
        wrong = [HOSTS[each.host], ORIGINS[each.origin], TOKENS[each.token]].count(False)
        usual = (each.host == "localhost") + (each.origin == (None, None)) + (each.token == f"Bearer {TOKEN}")
        if usual >= 2 or (wrong == 3 and each.host == "evil.example.com" and each.token is None):
            yield each


def matrix(queue: TaskQueue, route: Declared, read_only: bool, attempts: list[Attempt]) -> None:
    task_id = queue("email").submit({"to": "a"}).id
    api = client_of(queue, token=TOKEN, read_only=read_only, hosts=["tasks.example.com"])
    call = call_of(route, task_id)
    before = queue.get(task_id)
    for attempt in sorted(attempts, key=lambda each: each.expected(route.needs, read_only) is None):
        expected = attempt.expected(route.needs, read_only)
        answer = api.request(**call, headers=attempt.headers())
        check_headers(answer)
        if expected is None:
            assert answer.status_code not in (401, 403), (attempt, answer.text)
            continue
        assert answer.status_code == (401 if expected == "unauthenticated" else 403), attempt
        assert answer.json()["error"]["code"] == expected, attempt
        assert (queue.get(task_id), queue.desk.actions(), len(queue.list().tasks)) == (before, [], 1)


def check_headers(answer: Any) -> None:
    assert answer.headers["cache-control"] == "no-store"
    assert answer.headers["x-content-type-options"] == "nosniff"
    assert answer.headers["content-security-policy"].startswith("default-src 'none'")
    assert "access-control-allow-origin" not in answer.headers


each_route = pytest.mark.parametrize("route", [*ROUTES, *ELSEWHERE], ids=lambda route: route.name)
either_mode = pytest.mark.parametrize("read_only", [False, True], ids=["read-write", "read-only"])


@each_route
@either_mode
def test_only_who_may_is_let_in(route: Declared, read_only: bool, queue: TaskQueue, short_streams: None):
    matrix(queue, route, read_only, list(few(ATTEMPTS)))


@pytest.mark.campaign
@each_route
@either_mode
def test_only_who_may_is_let_in_whatever_is_combined(
    route: Declared, read_only: bool, queue: TaskQueue, short_streams: None
):
    matrix(queue, route, read_only, ATTEMPTS)


def test_two_hosts_are_none(queue: TaskQueue):
    api = client_of(queue)
    headers = [("host", "localhost"), ("host", "evil.example.com")]
    api.refused("GET", "/tasks", 403, "host_not_allowed", headers=headers)
    api.refused("GET", "/tasks", 403, "host_not_allowed", headers=headers[::-1])


def test_two_tokens_are_none(queue: TaskQueue):
    headers = [("authorization", f"Bearer {TOKEN}"), ("authorization", f"Bearer {TOKEN}")]
    client_of(queue, token=TOKEN).refused("GET", "/tasks", 401, "unauthenticated", headers=headers)


# --- without a token -----------------------------------------------------------------------------------------------


def test_without_a_token_this_machine_is_let_in(queue: TaskQueue):
    assert client_of(queue).get("/tasks").status_code == 200


@pytest.mark.parametrize("peer", ["10.0.0.5", "::ffff:10.0.0.5", "example.com", ""])
def test_without_a_token_no_other_machine_is_let_in(peer: str, queue: TaskQueue):
    api = Client(
        web.app(queue), base_url="http://localhost/api/task-queue", client=(peer, 1), raise_server_exceptions=False
    )
    api.refused("GET", "/tasks", 401, "unauthenticated")
    assert api.get("/healthz").status_code == 200


@pytest.mark.parametrize("name", ["X-Forwarded-For", "Forwarded", "X-Real-IP", "X-Forwarded-Host"])
def test_without_a_token_no_proxy_is_let_in(name: str, queue: TaskQueue):
    client_of(queue).refused("GET", "/tasks", 401, "unauthenticated", headers={name: "127.0.0.1"})


# --- the hook ------------------------------------------------------------------------------------------------------


def by_cookie(request: Request, needs: Needs) -> str | None:
    """A site's own rule: those who are known may look, and one of them may act."""
    name = request.cookies.get("user")
    return name if name == "ada" or (name == "bob" and needs == "read") else None


async def by_cookie_later(request: Request, needs: Needs) -> str | None:
    return by_cookie(request, needs)


class ByCookie:
    async def __call__(self, request: Request, needs: Needs) -> str | None:
        return by_cookie(request, needs)


@pytest.mark.parametrize("auth", [by_cookie, by_cookie_later, ByCookie()], ids=["function", "coroutine", "object"])
def test_a_hook_decides_for_each_route(auth: Any, queue: TaskQueue):
    api = client_of(queue, auth=auth)
    may = {
        user: (
            api.get("/tasks", headers={"cookie": f"user={user}"}).status_code,
            api.post("/tasks/pause", headers={"cookie": f"user={user}"}).status_code,
        )
        for user in ("ada", "bob", "eve")
    }
    assert may == {"ada": (200, 200), "bob": (200, 403), "eve": (403, 403)}
    assert [action.actor for action in queue.desk.actions()] == ["ada"]


@pytest.mark.parametrize("answer", [True, False, 1, "", "a\nb", "x" * 256, b"ada"], ids=repr)
def test_a_hook_that_answers_nonsense_lets_nobody_in(answer: object, queue: TaskQueue):
    api = client_of(queue, auth=lambda request, needs: answer)
    api.refused("GET", "/tasks", 500, "internal_error")


def test_a_hook_that_breaks_lets_nobody_in(queue: TaskQueue):
    def broken(request: Request, needs: Needs) -> str:
        raise KeyError("user")

    client_of(queue, auth=broken).refused("POST", "/tasks/pause", 500, "internal_error")
    assert queue.desk.actions() == []


def test_a_hook_is_not_asked_about_what_comes_from_elsewhere(queue: TaskQueue):
    asked: list[Needs] = []
    api = client_of(queue, auth=lambda request, needs: asked.append(needs))
    api.get("/tasks", headers={"host": "evil.example.com"})
    api.get("/tasks", headers={"origin": "null"})
    api.get("/healthz")
    assert asked == []


# --- what cannot be started ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "options",
    [{"token": ""}, {"token": "a b"}, {"token": "é"}, {"token": 5}, {"token": TOKEN, "auth": by_cookie},
     {"auth": "ada"}, {"hosts": "localhost"}, {"hosts": ["http://a"]}, {"hosts": ["a:80"]}, {"hosts": ["*"]},
     {"readonly": True}],
    ids=lambda options: ",".join(options),
)  # fmt: skip
def test_an_option_that_makes_no_sense_keeps_it_from_starting(options: Any, queue: TaskQueue):
    with pytest.raises(InvalidOption):
        web.app(queue, **options)


def test_a_route_that_does_not_say_what_it_needs_keeps_it_from_starting(queue: TaskQueue):
    router = web.router(queue)
    with pytest.raises(InvalidOption, match="'leak' does not say who may call it"):
        router.add_api_route("/leak", lambda: "all of it", name="leak")


def test_every_route_is_in_the_table(queue: TaskQueue):
    declared = {(route.method, route.path, route.name) for route in ROUTES}
    served = {
        (method, route.path.removeprefix("/api/task-queue").replace(":path", ""), route.name)
        for route in web.router(queue).routes
        for method in route.methods
        if route.name != "anything_else"
    }
    assert served == declared
