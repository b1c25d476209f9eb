"""The page on the REST API has every route with what it needs, every option, and every code of an error."""

from __future__ import annotations

import ast
import re

from tests.architecture.source_files import sources
from tests.docs.pages import ROOT, read, reference_table
from tq.web import WebOptions
from tq.web.access import ROUTES
from tq.web.guarded import MAX_BODY

CODE = re.compile(r"[a-z]+(_[a-z]+)+|forbidden|unauthenticated|refused")


def test_every_route_is_in_the_table_with_what_it_needs():
    told = [(row[0].strip("`"), row[1]) for row in reference_table("route").rows]
    assert told == [(f"{route.method} {route.path}", route.needs.value) for route in ROUTES]


def test_every_option_is_in_the_table():
    [table] = [
        table for table in read(ROOT / "docs/how-to/mounting.md").tables() if table.header[0] == "option of `tq.web`"
    ]
    assert table.names() == list(WebOptions.__annotations__)


def test_every_code_of_an_error_is_in_the_table_with_its_status():
    told = {(row[0].strip("`"), row[1]) for row in reference_table("code").rows}
    assert {pair for pair in told if pair[0] != "refused"} == codes()


def codes() -> set[tuple[str, str]]:
    """Every status with its code, as they stand beside each other in the sources."""
    found = set()
    for source in sources():
        if source.name.startswith("web/"):
            for node in ast.walk(source.tree):
                match node:
                    case ast.Call(ast.Name("refusal"), [ast.Constant(int(status)), ast.Constant(str(code)), *_]):
                        found.add((code, str(status)))
                    case ast.Tuple(
                        [ast.Attribute(ast.Name("errors")), ast.Constant(int(status)), ast.Constant(code), _]
                    ):
                        found.add((str(code), str(status)))
                    case ast.Dict(keys, values) if keys and all(isinstance(value, ast.Tuple) for value in values):
                        found |= {
                            (entry.elts[0].value, str(key.value)) for key, entry in zip(keys, values, strict=True)
                        }
                    case ast.Call(
                        ast.Name("_problem"), [ast.Constant(int(status)), ast.Dict(_, [ast.Constant(code), *_])]
                    ):
                        found.add((str(code), str(status)))
    return found


def test_the_limit_of_a_body_is_told():
    assert f"{MAX_BODY:,} bytes" in (ROOT / "docs/reference/rest.md").read_text(encoding="utf-8")
