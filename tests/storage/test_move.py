"""`tq move`: a queue goes from a SQLite file to PostgreSQL, whole, and the programs that use it follow."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.contract.vocabulary import NOW, add, claim, enlist, numbered, settle, spec, task_id
from tests.postgres import new_schema, run_sql, server_url
from tests.processes import child
from tests.waiting import eventually
from tq import TaskQueue
from tq.errors import InvalidOption, QueueMoved, StorageError
from tq.ids import IdFactory
from tq.models import Failed, Retry, Succeeded
from tq.storage import move
from tq.storage.location import locate
from tq.storage.move import Group, Move
from tq.storage.postgres import PostgresDriver
from tq.storage.sqlite import SqliteDriver
from tq.storage.store import Store


@pytest.fixture
def schema() -> Iterator[str]:
    name = new_schema()
    yield name
    run_sql(f"DROP SCHEMA IF EXISTS {name} CASCADE")
    run_sql(f"DROP SCHEMA IF EXISTS {name}_moving CASCADE")


@pytest.fixture
def path(folder: Path) -> Path:
    return folder / "tasks.db"


@pytest.fixture
def full(path: Path) -> Path:
    """A file with a bit of everything in it."""
    store = Store(SqliteDriver(path))
    add(store, *range(1, 8), type_="email")
    store.add([spec(20, input_='"' + "x" * 5000 + '"', key="invoice-7", priority=3, max_attempts=2, timeout=1.5)])
    add(store, 21, type_="later", run_after=NOW + 1e9)
    add(store, 22, 23, type_="brief ünïcode ☃")
    done, broken, again, *_ = claim(store, 5)
    settle(store, done, Succeeded('{"sent": true}'))
    settle(store, broken, Failed("no such mailbox", "Traceback …"))
    settle(store, again, Retry("no answer"))
    store.pause("later")
    store.retire("w1")
    store.close()
    return path


def mover(path: Path, schema: str, tell: Callable[[str, int, int], None] = lambda *_: None) -> Move:
    return Move(path, server_url(), schema, IdFactory().new, tell)


def opened(schema: str) -> Store:
    return Store(PostgresDriver(server_url(), schema=schema, settling_seconds=0, server_clock=False))


def everything(store: Store) -> list[Any]:
    return [store.stats(), store.paused(), *([store.get(task_id(n)), store.attempts(task_id(n))] for n in range(300))]


def test_everything_arrives_as_it_was(full: Path, schema: str):
    source = Store(SqliteDriver(full))
    before = everything(source)
    source.close()
    groups = mover(full, schema).run()
    target = opened(schema)
    assert everything(target) == before
    assert sum(group.size for group in groups if group.name != "(attempts)") == 11
    assert target.add([spec(99, key="invoice-7")]) == numbered(20)  # keys hold
    target.close()


def test_a_move_leaves_no_traces_in_the_target(full: Path, schema: str):
    mover(full, schema).run()
    assert run_sql(f"SELECT 1 FROM pg_namespace WHERE nspname = '{schema}_moving'") == []
    tables = run_sql(f"SELECT tablename FROM pg_tables WHERE schemaname = '{schema}'")
    assert {name for (name,) in tables} == {*move.TABLES, "tq_schema"}
    indexes = {name for (name,) in run_sql(f"SELECT indexname FROM pg_indexes WHERE schemaname = '{schema}'")}
    assert {"tasks_key", "tasks_ready", "tasks_due", "tasks_running"} <= indexes


# --- it may be killed anywhere -------------------------------------------------------------------------------------


def killed_at(path: Path, schema: str, step: str, times: int = 1) -> bool:
    """Whether a move came to the n-th telling of a step, where it dies as by kill -9."""

    def tell(told: str, *_: int) -> None:
        nonlocal times
        times -= told == step
        if not times:
            os._exit(9)

    with child(lambda: bool(mover(path, schema, tell).run())) as (pid, _):
        return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 9


STEPS = [("copy", 1), ("copy", 2), ("copy", 4), ("catch up", 1), ("catch up", 2), ("hold", 1), ("fence", 1)]
BEHIND_THE_FENCE = [("verify", 1), ("verify", 1), ("open", 1), ("done", 1)]


def test_killed_at_every_step_it_goes_on_where_it_was(full: Path, schema: str, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(move, "_PAGE", 3)
    monkeypatch.setattr(move, "_FEW_CHANGES", 0)
    for number, (step, times) in enumerate(STEPS):
        source = Store(SqliteDriver(full))  # the queue works on
        add(source, *range(100 + 10 * number, 107 + 10 * number), type_="more")
        settle(source, claim(source, 1, type_="more")[0], Succeeded("1"))
        source.retire("w1")
        before = everything(source)
        source.close()
        assert killed_at(full, schema, step, times)
    for step, times in BEHIND_THE_FENCE:
        assert killed_at(full, schema, step, times)
        assert fenced(full)
    with pytest.raises(InvalidOption, match=r"has moved to .* already"):
        mover(full, schema).run()
    target = opened(schema)
    assert everything(target) == before
    target.close()


def fenced(path: Path) -> bool:
    try:
        SqliteDriver(path).close()
    except QueueMoved:
        return True
    return False
