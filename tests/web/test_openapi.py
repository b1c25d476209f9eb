"""The committed description is that of the code, and says of every route what it needs."""

from __future__ import annotations

import json

from tests.docs.pages import ROOT
from tests.web import openapi
from tests.web.clients import client_of
from tq import TaskQueue
from tq.web.access import OPEN, PREFIX, ROUTES

COMMITTED = ROOT / "docs" / "openapi.json"


def test_the_committed_description_is_that_of_the_code():
    assert COMMITTED.read_text(encoding="utf-8") == openapi.text(), openapi.__doc__


def test_what_is_served_is_what_is_committed(queue: TaskQueue):
    served = client_of(queue).told("GET", "/openapi.json")
    del served["servers"]
    assert served == json.loads(COMMITTED.read_text(encoding="utf-8"))


def test_it_says_of_every_route_what_it_needs():
    paths = json.loads(openapi.text())["paths"]
    told = {
        (method.upper(), path.removeprefix(PREFIX)): (operation["x-needs"], "security" in operation)
        for path, operations in paths.items()
        for method, operation in operations.items()
    }
    assert told == {(route.method, route.path): (route.needs.value, route.needs is not OPEN) for route in ROUTES}
