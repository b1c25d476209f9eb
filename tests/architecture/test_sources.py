"""Rules that no linter knows and that every source of tq follows. An exception stands in a table, with its reason."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterator

import pytest

from tests.architecture.source_files import (
    Source,
    Statement,
    dotted,
    imports,
    names_used,
    sources,
    statements,
    without_parentheses,
)
from tq.storage import sql

each_source = pytest.mark.parametrize("source", sources(), ids=lambda source: source.name)
each_statement = pytest.mark.parametrize("statement", statements(), ids=lambda found: f"{found.dialect}-{found.name}")


# --- what is stored is JSON --------------------------------------------------------------------------------------

RUNS_WHAT_IT_READS = {"cloudpickle", "dill", "jsonpickle", "marshal", "pickle", "shelve"}


@each_source
def test_nothing_is_pickled(source: Source):
    assert not {module.split(".")[0] for module in imports(source)} & RUNS_WHAT_IT_READS


# --- time, randomness and ids are injected -----------------------------------------------------------------------

CHANCE_OR_TIME = re.compile(
    r"time\.(time|time_ns|sleep|monotonic|monotonic_ns|perf_counter|perf_counter_ns)|asyncio\.sleep"
    r"|datetime\.(datetime\.)?(now|utcnow|today)|(random|secrets|uuid|uuid6)\.\w+|os\.urandom"
)
MAY_USE_CHANCE_OR_TIME = {
    ("clock.py", "time.time"): "the clock that is injected everywhere",
    ("clock.py", "time.monotonic"): "the clock that is injected everywhere",
    ("clock.py", "time.sleep"): "the clock that is injected everywhere",
    ("handle.py", "asyncio.sleep"): "a coroutine must wait on its own event loop",
    ("ids.py", "time.time_ns"): "the default of a parameter",
    ("ids.py", "random.Random"): "the default of a parameter",
    ("web/events.py", "asyncio.sleep"): "a coroutine must wait on its own event loop",
    ("storage/write_lock.py", "time.monotonic"): "patience with other processes, which live in real time",
    ("storage/write_lock.py", "time.sleep"): "patience with other processes, which live in real time",
    ("scheduler.py", "random.uniform"): "the default of a parameter",
    ("storage/sqlite.py", "time.monotonic"): "patience with foreign programs, which live in real time",
    ("storage/following.py", "time.monotonic"): "patience with a move, which another process makes in real time",
    ("storage/following.py", "time.sleep"): "patience with a move, which another process makes in real time",
    ("storage/move_source.py", "time.monotonic"): "patience with workers, which live in real time",
    ("storage/move_source.py", "time.sleep"): "patience with workers, which live in real time",
    ("storage/move_copy.py", "time.monotonic"): "patience with a queue that changes as fast as it is copied",
    ("storage/move_target.py", "time.monotonic"): "patience with the target's programs, which live in real time",
    ("cli/move.py", "time.monotonic"): "a line that moves is drawn ten times in a second of real time",
    ("storage/postgres_presence.py", "time.monotonic"): "the default of a parameter",
    ("storage/postgres_presence.py", "time.sleep"): "the default of a parameter",
}


def test_time_chance_and_ids_come_from_outside():
    used = {
        (source.name, name) for source in sources() for _, name in names_used(source) if CHANCE_OR_TIME.fullmatch(name)
    }
    assert used == set(MAY_USE_CHANCE_OR_TIME)


# --- the database file is opened by SQLite alone -----------------------------------------------------------------

# Closing any descriptor on the database file drops this process's locks, and a later commit can vanish.
OPENS_A_FILE = re.compile(
    r"(io\.|codecs\.|os\.|gzip\.)?open|os\.(fdopen|mknod)|sqlite3\.(dbapi2\.)?connect|shutil\.(copy\w*|move)"
    r"|(?!os\.).+\.(open|read_text|read_bytes|write_text|write_bytes)"
)
MAY_OPEN_A_FILE = {
    ("storage/sqlite_file.py", "connect"): "the database, through SQLite",
    ("storage/sqlite_file.py", "_refuse_other_content"): "the database, through SQLite",
    ("storage/sqlite_file.py", "_create"): "the database, but only where there was none: nobody can hold a lock on it",
    ("storage/sqlite_file.py", "_mounts"): "the kernel's list of mounts",
    ("storage/write_lock.py", "_open"): "the write lock beside the database",
    ("storage/presence.py", "__init__"): "the worker's own lock file",
    ("storage/presence.py", "started_by"): "another worker's lock file",
    ("storage/presence.py", "autopsy"): "another worker's lock file",
    ("storage/presence.py", "_remove_if_free"): "another worker's lock file",
    ("storage/presence.py", "boot_id"): "the kernel's boot id",
    ("storage/presence.py", "identity"): "the kernel's list of processes",
    ("storage/bell.py", "__init__"): "the worker's own bell",
    ("storage/bell.py", "_ring"): "the bells beside the database",
    ("storage/move_source.py", "alone"): "the mover's lock file",
    ("cli/main.py", "_close_quietly"): "the null device",
    ("storage/sql/__init__.py", "statements"): "tq's own .sql files",
    ("storage/sql/__init__.py", "migrations"): "tq's own .sql files",
}


def test_the_database_file_is_opened_by_sqlite_alone():
    opened = {
        (source.name, function)
        for source in sources()
        for function, name in names_used(source)
        if OPENS_A_FILE.fullmatch(name)
    }
    assert opened == set(MAY_OPEN_A_FILE)


# --- a task changes by guarded statements, in one file -----------------------------------------------------------

REWRITES_A_TASK = re.compile(r"\b(UPDATE\s+|DELETE\s+FROM\s+)(\{schema\}\.)?tasks\b", re.IGNORECASE)
CHANGES_A_TASK = re.compile(
    r"\b(UPDATE\s+|DELETE\s+FROM\s+|(INSERT|REPLACE)(\s+OR\s+\w+)?\s+INTO\s+)(\{schema\}\.)?tasks\b", re.IGNORECASE
)
GUARD = re.compile(r'\bWHERE\b.*\bstatus\s*(COLLATE "C"\s*)?(=|\bIN\b)', re.IGNORECASE)
THE_STORE = {"storage/store.py": "statements", "storage/operators.py": "operations"}  # what workers do, what people do
# A move reads a file that is fenced, and fills a schema that nobody works on yet.
OF_A_MOVE = {*sql.statements("postgres", "move"), *sql.statements("sqlite", "move")}
# How a driver shows that a worker lives, and what it has started.
OF_ONE_DRIVER = {*sql.statements("postgres", "leases"), *OF_A_MOVE}


def test_the_statements_are_found():
    assert {"claim", "settle"} <= {found.name for found in statements() if REWRITES_A_TASK.search(found.sql)}


@each_statement
def test_a_statement_says_in_a_sentence_what_it_does(statement: Statement):
    assert re.fullmatch(r"[A-Z].+\.", statement.comment), "write a sentence under its name"


@each_statement
def test_a_task_is_rewritten_only_from_a_status_that_is_named(statement: Statement):
    if REWRITES_A_TASK.search(statement.sql) and statement.name not in OF_A_MOVE:
        assert GUARD.search(without_parentheses(statement.sql)), "an unguarded change robs another worker"


@each_statement
def test_an_accepted_task_is_never_replaced(statement: Statement):
    if CHANGES_A_TASK.search(statement.sql) and statement.name not in OF_A_MOVE:
        assert not re.search(r"\bREPLACE\s+INTO\b|\bOR\s+REPLACE\b|\bDO\s+UPDATE\b", statement.sql, re.IGNORECASE)


def test_all_dialects_have_the_same_statements():
    names = {found.dialect: set[str]() for found in statements()}
    for found in statements():
        if found.name not in OF_ONE_DRIVER:
            names[found.dialect].add(found.name)
    assert all(each == names["sqlite"] for each in names.values())


@each_source
def test_only_the_store_changes_tasks(source: Source):
    changing = {found.name for found in statements() if CHANGES_A_TASK.search(found.sql)} - OF_ONE_DRIVER
    own = changing & set(sql.statements("sqlite", THE_STORE[source.name])) if source.name in THE_STORE else set()
    assert own <= set(texts(source)), "a statement that nobody runs"
    assert not (changing - own) & set(statements_run(source))


@each_source
def test_no_source_carries_sql_that_changes_a_task(source: Source):
    assert not [text for text in texts(source) if CHANGES_A_TASK.search(text)]


def texts(source: Source) -> Iterator[str]:
    for node in ast.walk(source.tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield node.value


def statements_run(source: Source) -> Iterator[str]:
    """The names that a source hands to a session."""
    for node in ast.walk(source.tree):
        match node:
            case ast.Call(function, [ast.Constant(str(name)), *_]) if runs_statements(function):
                yield name


def runs_statements(function: ast.expr) -> bool:
    return dotted(function).rpartition(".")[2] in {"change", "change_each", "rows", "execute", "_execute"}


# --- the rules themselves ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("rule", "broken"),
    [
        (test_nothing_is_pickled, "from pickle import loads"),
        (test_only_the_store_changes_tasks, "session.change('settle', (task.id,))"),
        (test_no_source_carries_sql_that_changes_a_task, "connection.execute('UPDATE tasks SET status = 1')"),
    ],
)
def test_a_source_that_breaks_a_rule_is_found(rule: Callable[[Source], None], broken: str):
    with pytest.raises(AssertionError):
        rule(Source("broken.py", ast.parse(broken)))


@pytest.mark.parametrize(
    "broken",
    [
        "UPDATE tasks SET status = 'success' WHERE id = ?1",
        "UPDATE tasks SET version = 1 WHERE id IN (SELECT id FROM tasks WHERE status = 'to-do')",
        "DELETE FROM tasks WHERE id = ?1",
    ],
)
def test_an_unguarded_statement_is_found(broken: str):
    with pytest.raises(AssertionError):
        test_a_task_is_rewritten_only_from_a_status_that_is_named(Statement("sqlite", "broken", "", broken))


@pytest.mark.parametrize(
    ("code", "pattern"),
    [
        ("import time as t\nt.sleep(1)", CHANCE_OR_TIME),
        ("from random import uniform\nuniform(0, 1)", CHANCE_OR_TIME),
        ("from datetime import datetime\ndatetime.now()", CHANCE_OR_TIME),
        ("open(path)", OPENS_A_FILE),
        ("self.path.open('rb')", OPENS_A_FILE),
        ("Path(name).read_bytes()", OPENS_A_FILE),
        ("from shutil import copyfile\ncopyfile(a, b)", OPENS_A_FILE),
    ],
)
def test_a_hidden_use_is_found(code: str, pattern: re.Pattern[str]):
    used = [name for _, name in names_used(Source("broken.py", ast.parse(code)))]
    assert any(pattern.fullmatch(name) for name in used)
