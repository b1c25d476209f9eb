"""The sources of tq as the architecture tests read them: as syntax trees and as named SQL, never imported."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "tq"


class Source(NamedTuple):
    name: str  # as in storage/store.py
    tree: ast.Module

    @property
    def part(self) -> str:
        """What the import table calls it: a module, or a folder as a whole."""
        return self.name.split("/")[0].removesuffix(".py")


class Statement(NamedTuple):
    dialect: str
    name: str
    comment: str
    sql: str


@cache
def sources() -> tuple[Source, ...]:
    return tuple(
        Source(path.relative_to(PACKAGE).as_posix(), ast.parse(path.read_text(encoding="utf-8"), str(path)))
        for path in sorted(PACKAGE.rglob("*.py"))
    )


def imports(source: Source) -> Iterator[str]:
    """Every module that a source imports, anywhere in it, as a dotted name."""
    package = ["tq", *source.name.split("/")[:-1]]
    for node in ast.walk(source.tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = package[: len(package) - node.level + 1] if node.level else []
            module = ".".join([*base, *([node.module] if node.module else [])])
            yield from (f"{module}.{alias.name}" if module == "tq" else module for alias in node.names)


def parts() -> set[str]:
    return {source.part for source in sources()}


def dotted(node: ast.expr) -> str:
    """`time.sleep` for the expression that says so, `?.read_text` where what stands before the dot has no name."""
    match node:
        case ast.Name(name):
            return name
        case ast.Attribute(value, name):
            return f"{dotted(value)}.{name}"
        case _:
            return "?"


def names_used(source: Source) -> Iterator[tuple[str, str]]:
    """Every (function, dotted name) in a source; `import x as y` and `from x import y` do not hide a name."""
    aliases = _aliases(source.tree)

    def visit(node: ast.AST, function: str) -> Iterator[tuple[str, str]]:
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            function = node.name
        if isinstance(node, (ast.Name, ast.Attribute)):
            first, dot, rest = dotted(node).partition(".")
            yield function, aliases.get(first, first) + dot + rest
        for child in ast.iter_child_nodes(node):
            yield from visit(child, function)

    yield from visit(source.tree, "")


def _aliases(tree: ast.Module) -> dict[str, str]:
    found = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            found.update({alias.asname: alias.name for alias in node.names if alias.asname})
        elif isinstance(node, ast.ImportFrom) and not node.level:
            found.update({alias.asname or alias.name: f"{node.module}.{alias.name}" for alias in node.names})
    return found


@cache
def statements() -> tuple[Statement, ...]:
    return tuple(
        _statement(path.parent.name, block)
        for path in sorted(PACKAGE.glob("storage/sql/*/*.sql"))
        for block in path.read_text(encoding="utf-8").split("-- name: ")[1:]
    )


def _statement(dialect: str, block: str) -> Statement:
    name, *lines = block.splitlines()
    comment = " ".join(line.removeprefix("--").strip() for line in lines if line.startswith("--"))
    sql = " ".join(re.sub(r"--.*", "", line).strip() for line in lines)
    return Statement(dialect, name.strip(), comment, sql.strip())


def without_parentheses(sql: str) -> str:
    """The outermost statement alone: what a subquery says guards nothing."""
    shorter = re.sub(r"\([^()]*\)", "", sql)
    return shorter if shorter == sql else without_parentheses(shorter)
