"""`import tq` costs next to nothing: what it offers is loaded when first used, and looks as if it was always there."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

import tq

ROOT = Path(__file__).parents[1]


def python(program: str) -> str:
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=100, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


@pytest.mark.parametrize("name", tq.__all__)
def test_a_public_name_is_there_when_it_is_asked_for(name: str):
    assert getattr(tq, name) is getattr(tq, name)
    assert name in dir(tq)


def test_a_type_checker_is_shown_the_same_names():
    tree = ast.parse((ROOT / "tq" / "__init__.py").read_text(encoding="utf-8"))
    shown = [alias.name for node in ast.walk(tree) if isinstance(node, ast.ImportFrom) for alias in node.names]
    assert sorted(set(shown) - {"import_module"}) == sorted(tq.__all__)


def test_an_unknown_name_is_refused():
    with pytest.raises(AttributeError, match="module 'tq' has no attribute 'nonsense'"):
        _ = tq.nonsense
    with pytest.raises(ImportError, match="nonsense"):
        exec("from tq import nonsense")


def test_importing_the_package_loads_nothing_of_it():
    program = (
        "import sys, tq; print(sorted(name for name in sys.modules if name.startswith('tq') or name == 'asyncio'))"
    )
    assert python(program) == "['tq']"


def test_threads_that_ask_at_once_get_the_same_queue():
    program = """if True:
        from concurrent.futures import ThreadPoolExecutor
        def ask(_):
            from tq import tq
            return id(tq)
        with ThreadPoolExecutor(16) as pool:
            print(len(set(pool.map(ask, range(64)))))"""
    assert python(program) == "1"
