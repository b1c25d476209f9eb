"""The words that the contract is written in: stores to keep it, and short names for tasks, claims and outcomes."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from itertools import count
from pathlib import Path
from typing import Any, Protocol

from tests.postgres import new_schema, run_sql, server_url
from tq.ids import IdFactory
from tq.models import ClaimedTask, Exchange, Outcome, Settlement, TaskSpec, TaskType, Want, WorkerRecord
from tq.retry import Backoff
from tq.scheduler import Scheduler
from tq.storage.driver import Presence
from tq.storage.postgres import PostgresDriver
from tq.storage.presence import identity
from tq.storage.sqlite import SqliteDriver
from tq.storage.store import Store

NOW = 1_700_000_000.0
DEAD_PROCESS = WorkerRecord("", "a-machine", 1, "a process of an earlier boot", NOW)


class Database(Protocol):
    """An empty database of some kind, and how a worker on it dies."""

    def open(self) -> Store:
        """A store of its own on this database, as another process would have."""

    def kill(self, presence: Presence) -> None:
        """What the death of its process does to a worker."""

    def close(self) -> None: ...

    exact: bool  # whether a crash costs no attempt but to tasks that had started


class SqliteDatabase:
    exact = True

    def __init__(self, folder: Path) -> None:
        self._path = folder / "tasks.db"
        self._stores: list[Store] = []

    def open(self) -> Store:
        self._stores.append(Store(SqliteDriver(self._path, durability="normal")))
        return self._stores[-1]

    def kill(self, presence: Any) -> None:
        presence.drop()

    def close(self) -> None:
        for store in self._stores:
            store.close()


class PostgresDatabase:
    exact = False  # a task that can afford the attempt counts as started when it is claimed

    def __init__(self, folder: Path) -> None:
        self._schema = new_schema()
        self._stores: list[Store] = []

    def open(self) -> Store:
        driver = PostgresDriver(
            server_url(), durability="normal", schema=self._schema, settling_seconds=0, server_clock=False
        )
        self._stores.append(Store(driver))
        return self._stores[-1]

    def kill(self, presence: Any) -> None:
        presence.drop()

    def close(self) -> None:
        for store in self._stores:
            store.close()
        run_sql(f"DROP SCHEMA IF EXISTS {self._schema} CASCADE")


# Every kind of store keeps the contract: another kind gets its row here.
KINDS: dict[str, Callable[[Path], Database]] = {"sqlite": SqliteDatabase, "postgres": PostgresDatabase}


def task_id(number: int) -> str:
    """Ids in the order of their numbers."""
    return f"{number:08x}-0000-7000-8000-000000000000"


def spec(number: int, type_: str = "email", input_: str = "{}", **options: Any) -> TaskSpec:
    return TaskSpec(task_id(number), type_, input_, NOW)._replace(**options)


def add(store: Store, *numbers: int, type_: str = "email", **options: Any) -> list[str]:
    return store.add([spec(number, type_, **options) for number in numbers])


def claim(store: Store, room: int = 100, type_: str = "email", now: float = NOW, worker: str = "w1", **limits: Any):
    """Claim one type; answers with the claimed tasks."""
    return exchange(store, wants=[Want(type_, room, **limits)], now=now, worker=worker).claimed


def exchange(
    store: Store,
    settlements: Sequence[Settlement] = (),
    wants: Sequence[Want] = (),
    now: float = NOW,
    worker: str = "w1",
) -> Exchange:
    store.enlist_again(DEAD_PROCESS._replace(id=worker))  # only those who are enlisted may claim
    return store.exchange(worker, settlements, wants, lambda: now)


def settle(store: Store, task: ClaimedTask, outcome: Outcome, now: float = NOW, worker: str = "w1") -> bool:
    """Whether the task was still ours."""
    return not exchange(store, [settlement(task, outcome, now)], now=now, worker=worker).lost


def settlement(task: ClaimedTask, outcome: Outcome, now: float = NOW) -> Settlement:
    return Settlement(task, decide_at(now)(task, outcome), getattr(outcome, "details", None))


class FixedClock:
    def __init__(self, now: float) -> None:
        self.time = now

    def now(self) -> float:
        return self.time

    monotonic = now

    def sleep(self, seconds: float) -> None:
        self.time += seconds


def decide_at(now: float) -> Callable[[ClaimedTask, Outcome], Any]:
    """The rules of tq at a moment, without jitter: a first retry comes after 10 seconds."""
    return rules(FixedClock(now)).decide


def rules(clock: FixedClock) -> Scheduler:
    return Scheduler(clock, IdFactory(), lambda name: TaskType(name, backoff=Backoff(jitter=0)))


_worker_numbers = count(1)


def enlist(store: Store) -> tuple[str, Presence]:
    """A worker with an id of its own that shows that it lives."""
    worker_id = task_id(0xF0000000 + next(_worker_numbers))
    return worker_id, store.enlist(DEAD_PROCESS._replace(id=worker_id))


def enlist_here(store: Store) -> tuple[str, Presence]:
    """A worker that says truthfully which process it is."""
    worker_id = task_id(0xF0000000 + next(_worker_numbers))
    return worker_id, store.enlist(WorkerRecord(worker_id, "a-machine", os.getpid(), identity(os.getpid()), NOW))


def ids(tasks: Sequence[ClaimedTask]) -> list[str]:
    return [task.id for task in tasks]


def numbered(*numbers: int) -> list[str]:
    return [task_id(number) for number in numbers]
