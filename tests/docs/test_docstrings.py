"""The examples in docstrings run."""

from __future__ import annotations

import doctest
import importlib
from pathlib import Path
from types import ModuleType

import pytest

import tq
from tests.architecture.source_files import PACKAGE, sources
from tq import TaskQueue


def modules() -> list[str]:
    """The sources that show an example, as dotted names."""
    shown = [source.name for source in sources() if ">>> " in (PACKAGE / source.name).read_text(encoding="utf-8")]
    return ["tq." + name.removesuffix(".py").replace("/", ".") for name in shown]


@pytest.mark.parametrize("name", modules())
def test_the_examples_of_a_module_run(name: str, folder: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(folder)
    module = importlib.import_module(name.removesuffix(".__init__"))
    queue = TaskQueue().init("tasks.db")
    monkeypatch.setattr(tq, "tq", queue)  # the program's own queue, which no test may open
    try:
        results = run(module, {"tq": queue})
    finally:
        queue.stop()
    assert results.failed == 0


def run(module: ModuleType, names: dict[str, object]) -> doctest.TestResults:
    runner = doctest.DocTestRunner()
    for test in doctest.DocTestFinder(exclude_empty=True).find(module, extraglobs=names):
        runner.run(test)
    return doctest.TestResults(runner.failures, runner.tries)


def test_no_example_is_skipped():
    skipped = [name for name in modules() if "+SKIP" in (PACKAGE / path_of(name)).read_text(encoding="utf-8")]
    assert skipped == []


def path_of(name: str) -> str:
    return name.removeprefix("tq.").replace(".", "/") + ".py"
