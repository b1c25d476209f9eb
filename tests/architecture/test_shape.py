"""The shape of the sources: names that explain themselves, short functions, errors in one file, documented names."""

from __future__ import annotations

import ast
import inspect
import subprocess
import sys
from collections.abc import Iterator

import pytest

import tq
from tests.architecture.source_files import PACKAGE, ROOT, Source, sources

each_source = pytest.mark.parametrize("source", sources(), ids=lambda source: source.name)

LONGEST_FUNCTION = 40
EXPLAINS_NOTHING = {"utils", "util", "helpers", "helper", "misc", "common", "stuff", "tools"}
Function = ast.FunctionDef | ast.AsyncFunctionDef


def functions(source: Source) -> Iterator[Function]:
    for node in ast.walk(source.tree):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            yield node


def test_no_file_has_a_name_that_explains_nothing():
    names = {part.removesuffix(".py") for source in sources() for part in source.name.split("/")}
    assert not names & EXPLAINS_NOTHING


@each_source
def test_functions_do_one_thing(source: Source):
    def lines(function: Function) -> int:
        return (function.end_lineno or 0) - function.lineno + 1

    assert [found.name for found in functions(source) if lines(found) > LONGEST_FUNCTION] == []


@each_source
def test_every_file_says_what_it_is_for(source: Source):
    if source.tree.body:
        assert ast.get_docstring(source.tree), "begin it with a sentence"


@each_source
def test_exceptions_live_in_one_file(source: Source):
    if source.name == "errors.py":
        return
    made = [
        node.name
        for node in ast.walk(source.tree)
        if isinstance(node, ast.ClassDef)
        and not node.name.startswith("_")
        and any(ast.unparse(base).endswith(("Error", "Exception")) for base in node.bases)
    ]
    assert made == []


@each_source
def test_nothing_global_changes(source: Source):
    """Global state is one lazy instance; a `global` statement would be a second one."""
    assert not [node for node in ast.walk(source.tree) if isinstance(node, ast.Global)]


LOOPS = (ast.For, ast.While, ast.ListComp, ast.SetComp, ast.DictComp)


@each_source
def test_no_loop_stands_right_inside_a_block_that_holds_a_lock(source: Source):
    """Python 3.13 forgets the block when an interrupt arrives at a loop's jump back: the lock would stay locked for
    ever. Ctrl-C interrupts the main thread, the end of its time any handler's; a call inside the block is safe."""
    if source.name.startswith(("storage/", "ids", "queue")):
        assert [node.lineno for node in loops_right_inside_locks(source.tree)] == []


def loops_right_inside_locks(tree: ast.AST) -> Iterator[ast.AST]:
    for block in ast.walk(tree):
        if isinstance(block, ast.With) and "suppress" not in ast.unparse(block.items[0]):
            for statement in block.body:
                yield from (node for node in ast.walk(statement) if isinstance(node, LOOPS))


def test_a_loop_right_inside_a_lock_is_found():
    broken = "with self._guard:\n    self._waiting = [each for each in self._waiting if each.done]"
    assert list(loops_right_inside_locks(ast.parse(broken)))


# --- what users see ------------------------------------------------------------------------------------------------


def public_members(name: str) -> Iterator[tuple[str, object]]:
    value = getattr(tq, name)
    yield name, value
    if inspect.isclass(value):
        for member, found in vars(value).items():
            if not member.startswith("_") and (inspect.isfunction(found) or isinstance(found, property)):
                yield f"{name}.{member}", found


@pytest.mark.parametrize("name", sorted(tq.__all__))
def test_every_public_name_is_documented(name: str):
    undocumented = [shown for shown, found in public_members(name) if not has_docstring(found)]
    assert undocumented == []


def has_docstring(value: object) -> bool:
    return bool(vars(value).get("__doc__") if inspect.isclass(value) else value.__doc__)


def test_public_names_are_in_order_and_there():
    assert list(tq.__all__) == sorted(tq.__all__, key=lambda name: (name.islower(), name))
    assert all(hasattr(tq, name) for name in tq.__all__)


def test_importing_opens_nothing_and_starts_nothing(tmp_path):
    program = "import threading, os; import tq; assert threading.active_count() == 1; assert os.listdir('.') == []"
    subprocess.run(
        [sys.executable, "-W", "error", "-c", program], check=True, cwd=tmp_path, env={"PYTHONPATH": str(ROOT)}
    )


def test_the_package_is_the_one_under_test():
    assert inspect.getsourcefile(tq) == str(PACKAGE / "__init__.py")
