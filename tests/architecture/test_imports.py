"""Imports go one way, and the core needs nothing but the standard library and one small package."""

from __future__ import annotations

import sys

import pytest

from tests.architecture.source_files import Source, imports, parts, sources

# Each part and the parts that it may import. A row may name only rows above it, so there are no circles.
MAY_IMPORT = {
    "errors": "",
    "clock": "",
    "forking": "",
    "ids": "errors forking",
    "retry": "errors",
    "ratelimit": "errors",
    "models": "errors retry",
    "payload": "errors",
    "typed": "errors payload",
    "views": "models ratelimit",
    "storage": "errors forking models ratelimit views",  # knows no clock, no handler, no queue
    "executor": "errors models payload typed",  # never sees the store
    "lanes": "errors clock models executor",
    "kinds": "models",
    "scheduler": "errors clock ids models retry ratelimit",  # rules without I/O
    "tally": "models views",
    "worker": "errors clock ids models executor kinds lanes scheduler storage tally",
    "explain": "models ratelimit views",
    "timeline": "models views",
    "desk": "errors clock explain ids models payload retry scheduler storage tally timeline views",
    "handle": "errors clock desk models payload storage",
    "context": "errors clock models retry payload typed scheduler handle",
    "queue": "errors clock forking ids models retry payload typed storage executor lanes scheduler worker views desk "
    "handle context",
    "default": "queue",
    "__init__": "errors models retry executor desk handle context queue default",
    "testing": "errors clock ids models storage scheduler worker handle context queue __init__",
    "web": "errors clock models payload views tally desk queue __init__",
    "cli": "errors clock ids models payload storage handle context queue __init__ web",
    "__main__": "cli",
}

CORE_MAY_IMPORT = {*sys.stdlib_module_names, "tq", "typing_extensions"}
NOT_CORE = ("web/", "cli/", "testing.py", "storage/postgres", "storage/move")


def core() -> list[Source]:
    return [source for source in sources() if not source.name.startswith(NOT_CORE)]


each_source = pytest.mark.parametrize("source", sources(), ids=lambda source: source.name)


def test_the_table_has_no_circles():
    above: set[str] = set()
    for part, allowed in MAY_IMPORT.items():
        assert set(allowed.split()) <= above, f"the row of {part!r} names a row that is not above it"
        above.add(part)


def test_every_part_stands_in_the_table():
    assert parts() <= set(MAY_IMPORT), "give the new part a row: which parts may it import?"


@each_source
def test_imports_go_one_way(source: Source):
    allowed = {source.part, *MAY_IMPORT[source.part].split()}
    assert imported_parts(source) <= allowed


@pytest.mark.parametrize("source", core(), ids=lambda source: source.name)
def test_the_core_imports_only_the_standard_library_and_one_package(source: Source):
    assert {module.split(".")[0] for module in imports(source)} <= CORE_MAY_IMPORT


def imported_parts(source: Source) -> set[str]:
    ours = [module.split(".") for module in imports(source) if module.split(".")[0] == "tq"]
    return {path[1] if len(path) > 1 and path[1] in parts() else "__init__" for path in ours}
