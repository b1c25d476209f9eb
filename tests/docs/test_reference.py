"""The reference names everything that is public, tells the truth about it, and names nothing that does not exist."""

from __future__ import annotations

import ast
import dataclasses
import importlib
import inspect
import re
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any, get_args

import psycopg
import pytest

import tq
from tests.architecture.source_files import ROOT, dotted, sources, statements
from tests.architecture.test_sources import CHANGES_A_TASK, OF_ONE_DRIVER
from tests.docs.pages import Page, pages, read, reference, reference_table
from tests.postgres import new_database
from tq import Desk, Task, TaskContext, TaskHandle, TaskQueue, TaskTypeContext, errors
from tq.models import Status
from tq.queue import _WORKER_OPTIONS
from tq.scheduler import AddOptions

CLASSES = (TaskQueue, TaskTypeContext, TaskHandle, Desk, TaskContext, Task)
ERRORS = {name: kind for name, kind in vars(errors).items() if isinstance(kind, type)}
KNOWN = {"tq": TaskQueue.__call__, "current_task": tq.current_task, **{kind.__name__: kind for kind in CLASSES}}

# --- names -------------------------------------------------------------------------------------------------------


def entries() -> list[str]:
    """The headings of the API's page that are code: one for each name, with its signature."""
    return [heading.code for heading in read(ROOT / "docs/reference/api.md").headings() if heading.code is not None]


def public_names(kind: type) -> Iterator[str]:
    """The methods and properties of a class that do not begin with an underscore."""
    for name, member in vars(kind).items():
        if not name.startswith("_") and (inspect.isfunction(member) or isinstance(member, property)):
            yield f"{kind.__name__}.{name}"


def test_every_public_method_and_property_has_its_entry():
    public = {name for kind in CLASSES for name in public_names(kind)}
    named = [code.partition("(")[0] for code in entries()]
    assert sorted(named) == sorted(public | {"TaskQueue", "tq", "current_task"})


def test_every_public_attribute_is_named():
    for kind in (TaskQueue, TaskTypeContext, TaskHandle, TaskContext):
        for name in re.findall(r"self\.([a-z]\w*) =", inspect.getsource(kind.__init__)):
            assert f"{kind.__name__}.{name}" in code_spans(), f"{kind.__name__}.{name} is not in the reference"


def test_every_name_that_can_be_imported_is_in_the_reference():
    assert [name for name in tq.__all__ if name not in code_spans()] == []


@pytest.mark.parametrize("entry", entries())
def test_an_entry_says_how_it_is_called(entry: str):
    name, parenthesis, _ = entry.partition("(")
    thing = member(name)
    if parenthesis:
        assert written_parameters(entry.removeprefix(name)) == real_parameters(thing)
    else:
        assert isinstance(thing, property)


def member(name: str) -> Any:
    first, _, rest = name.partition(".")
    return getattr(KNOWN[first], rest) if rest else KNOWN[first]


Parameter = tuple[str, str, Any]


def written_parameters(signature: str) -> list[Parameter]:
    function = ast.parse(f"def f{signature}: ...").body[0]
    code = compile(ast.Module([function], []), signature, "exec")
    names: dict[str, Any] = {}
    exec(code, names)
    return real_parameters(names["f"])


def real_parameters(thing: Any) -> list[Parameter]:
    parameters = inspect.signature(thing).parameters.values()
    return [(each.name, each.kind.name, each.default) for each in parameters if each.name != "self"]


def code_spans() -> set[str]:
    return {span for page in reference() for span in spans(page)}


def spans(page: Page) -> Iterator[str]:
    for token in page.tokens:
        for child in token.children or []:
            if child.type == "code_inline":
                yield child.content


# --- tables ------------------------------------------------------------------------------------------------------


def test_every_option_is_in_its_table():
    assert sorted(reference_table("option of `add`").names()) == sorted(AddOptions.__annotations__)
    assert sorted(reference_table("option of `worker`").names()) == sorted(_WORKER_OPTIONS)
    assert reference_table("option of `init`").names() == [name for name, *_ in real_parameters(TaskQueue.init)]


def test_every_field_of_a_task_is_in_its_table():
    assert reference_table("field of `Task`").names() == [field.name for field in dataclasses.fields(Task)]


def test_every_status_is_in_its_table():
    assert reference_table("status").names() == list(get_args(Status))


def test_every_key_of_stats_is_in_its_table(folder: Path):
    queue = TaskQueue().init(folder / "tasks.db")
    keys = list(queue.stats())
    queue.stop()
    assert reference_table("key of `stats`").names() == keys


def test_every_table_and_column_is_described(folder: Path):
    TaskQueue().init(folder / "tasks.db").stop()
    with closing(sqlite3.connect(folder / "tasks.db")) as database:
        for (table,) in database.execute("SELECT name FROM sqlite_master WHERE type = 'table'").fetchall():
            columns = database.execute("SELECT name, type FROM pragma_table_info(?) ORDER BY cid", (table,)).fetchall()
            rows = reference_table(f"column of `{table}`").rows
            assert sorted((row[0].strip("`"), row[1]) for row in rows) == sorted(columns)


IN_POSTGRESQL = {"TEXT": "text", "REAL": "double precision", "INTEGER": "integer"}


def test_postgresql_has_the_same_columns_and_those_that_the_page_adds():
    with new_database() as database:
        TaskQueue().init(database).stop()
        with closing(psycopg.connect(database)) as server:
            columns = server.execute(
                "SELECT table_name, column_name, replace(data_type, 'bigint', 'integer') FROM "
                "information_schema.columns WHERE table_schema = 'tq'"
            ).fetchall()
    added = [(row[1].strip("`"), row[0].strip("`"), row[2].lower()) for row in reference_table("column").rows]
    shared = [
        (table, row[0].strip("`"), IN_POSTGRESQL[row[1]])
        for table in {table for table, _, _ in columns}
        for row in reference_table(f"column of `{table}`").rows
    ]
    assert sorted(shared + added) == sorted(columns)


def test_every_error_is_described_with_its_bases():
    tables = [table for table in read(ROOT / "docs/reference/errors.md").tables() if table.header[0] == "error"]
    described = {row[0].strip("`*"): row[1].replace("`", "").split(", ") for table in tables for row in table.rows}
    assert described == {name: [base.__name__ for base in kind.__bases__] for name, kind in ERRORS.items()}


def test_the_errors_that_tq_exports_carry_a_star():
    tables = [table for table in read(ROOT / "docs/reference/errors.md").tables() if table.header[0] == "error"]
    starred = {row[0].strip("`*") for table in tables for row in table.rows if row[0].endswith("*")}
    assert starred == set(ERRORS) & set(tq.__all__)


# --- what the sources say ----------------------------------------------------------------------------------------


def test_every_environment_variable_is_described():
    read_by_tq = {
        node.value
        for source in sources()
        for node in ast.walk(source.tree)
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and re.fullmatch(r"TQ_[A-Z_]+", node.value)
    }
    assert set(reference_table("variable").names()) == read_by_tq


def test_every_log_message_is_described():
    assert sorted(reference_table("message").names()) == sorted(logged())


def logged() -> Iterator[str]:
    """What tq writes to its log, with `…` for what differs each time."""
    for source in sources():
        for node in ast.walk(source.tree):
            match node:
                case ast.Call(function, [ast.Constant(str(text)), *_]) if dotted(function).startswith("log."):
                    yield re.sub(r"%[sdr]", "…", text)
                case ast.Call(function, [ast.JoinedStr(parts)]) if dotted(function).endswith("._complain"):
                    yield "".join(part.value if isinstance(part, ast.Constant) else "…" for part in parts)


def test_the_table_of_transitions_has_every_statement_that_changes_a_task():
    [table] = [
        table for table in read(ROOT / "docs/explanation/state-machine.md").tables() if "statement" in table.header
    ]
    column = table.header.index("statement")
    changing = {found.name for found in statements() if CHANGES_A_TASK.search(found.sql)} - OF_ONE_DRIVER
    assert {row[column].strip("`") for row in table.rows} == changing


# --- names in running text ---------------------------------------------------------------------------------------

PATH = re.compile(r"(tq|tests|examples)/[\w/.-]*")
MEMBER = re.compile(r"([A-Z]\w+)\.(\w+)(\(.*\))?")


@pytest.mark.parametrize("page", pages(), ids=lambda page: page.name)
def test_every_file_that_a_page_names_exists(page: Page):
    missing = [span for span in spans(page) if PATH.fullmatch(span) and not (ROOT / span).exists()]
    assert missing == []


@pytest.mark.parametrize("page", pages(), ids=lambda page: page.name)
def test_every_method_that_a_page_names_exists(page: Page):
    ours = classes()
    named = [found for span in names_of_tq(page) if (found := MEMBER.fullmatch(span)) and found[1] in ours]
    assert [found[0] for found in named if not belongs(ours[found[1]], found[2])] == []


def names_of_tq(page: Page) -> Iterator[str]:
    """All code in the page but that which a table lists under `specification`."""
    foreign = {row[0] for table in page.tables() if table.header[0] == "specification" for row in table.rows}
    yield from (span for span in spans(page) if not any(f"`{span}`" in cell for cell in foreign))


def classes() -> dict[str, type]:
    modules = [
        "tq." + source.name.removesuffix(".py").replace("/", ".")
        for source in sources()
        if source.part not in ("cli", "__main__")
    ]
    found = {}
    for module in modules:
        found.update(inspect.getmembers(importlib.import_module(module.removesuffix(".__init__")), inspect.isclass))
    return {name: kind for name, kind in found.items() if kind.__module__.startswith("tq.")}


def belongs(kind: type, name: str) -> bool:
    return hasattr(kind, name) or f"self.{name} =" in inspect.getsource(kind)
