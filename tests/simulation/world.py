"""One schedule from a seed: real workers over a real database, in virtual time, until every task has ended."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from random import Random
from typing import Any

from tests.simulation.actors import Actor, VirtualLock
from tests.simulation.database import Database
from tests.simulation.faults import Faults
from tests.simulation.history import History, Row
from tests.simulation.processes import Meddler, Operator, Process, Producer, WorkerProcess
from tests.simulation.scenario import Scenario
from tests.simulation.sqlite_storage import SqliteDatabase
from tests.simulation.stage import Stage
from tq.scheduler import Scheduler
from tq.storage.driver import Driver
from tq.storage.store import Store
from tq.worker import Worker


@dataclass(frozen=True)
class Engine:
    """The parts under test. A planted bug replaces one of them."""

    database: Callable[[], Database] = SqliteDatabase
    driver: Callable[[Process, Any, dict[str, str]], Driver] | None = None  # None: the database's own
    store: Callable[[Driver], Store] = Store
    worker: type[Worker] = Worker
    scheduler: type[Scheduler] = Scheduler
    statements: Mapping[str, str] = field(default_factory=dict)  # instead of those of the same name


class World:
    def __init__(self, scenario: Scenario, database: Database, engine: Engine) -> None:
        self.scenario = scenario
        self.database = database
        self.engine = engine
        self.stage = Stage(Random(f"schedule {scenario.seed}"), scenario.stickiness, scenario.step_seconds)
        self.history = History(self.stage.monotonic, lambda: self.stage.latest_wall)
        self.write_lock = VirtualLock()
        self.faults = Faults(self)
        self._processes: list[Process] = []
        self._coming = 0  # processes that will be started in a moment
        self._resumed = False
        self._closing = False
        self.stage.fate = self.faults.fate
        self.stage.killed = self._killed
        self.stage.left = self._left

    def run(self) -> None:
        scenario = self.scenario
        for wishes in scenario.wishes:
            self._start(Producer, wishes)
        for _ in range(scenario.workers):
            self._start(WorkerProcess)
        if "pause" in scenario.faults:
            self._start(Operator, self.stage.random.randint(1, 3))
        if "meddling" in scenario.faults:
            self._start(Meddler)
        self.stage.later(0.5, self._close_when_done)
        with _log_kept_apart(self):
            self.stage.run()

    # --- processes come and go -----------------------------------------------------------------------------------

    def _start(self, kind: type[Process], *parts: object) -> None:
        process = kind(self, f"{kind.__name__.lower().removesuffix('process')}-{len(self._processes)}", *parts)
        self._processes.append(process)
        self.stage.enter(process)

    def _start_later(self, kind: type[Process], *parts: object) -> None:
        self._coming += 1
        self.stage.later(self.stage.random.random() * 2, lambda: self._arrive(kind, *parts))

    def _arrive(self, kind: type[Process], *parts: object) -> None:
        self._coming -= 1
        if not self._closing:
            self._start(kind, *parts)

    def _killed(self, actor: Actor) -> None:
        assert isinstance(actor, Process)
        actor.record("killed", worker=actor.worker_id)

    def _left(self, actor: Actor) -> None:
        if self.stage.exhausted:
            return
        if isinstance(actor, WorkerProcess) and not self._closing:
            self._start_later(WorkerProcess)
        if isinstance(actor, Producer) and actor.wishes:
            self._start_later(Producer, actor.wishes)

    def restart(self, actor: Actor) -> None:
        """Ask a worker to stop; another one will take its place."""
        if isinstance(actor, WorkerProcess):
            actor.ask_to_stop()

    def _present(self, kind: type[Process]) -> list[Process]:
        return [process for process in self._processes if isinstance(process, kind) and not process.gone]

    def lives(self, worker_id: str) -> bool:
        return any(process.worker_id == worker_id and not process.gone for process in self._processes)

    # --- the end -------------------------------------------------------------------------------------------------

    def _close_when_done(self) -> None:
        """When nobody adds any more, resume what is paused; when every task has ended, send the workers home."""
        if not (self._coming or self._somebody_acts() or self.database.expecting):
            if not self._resumed:
                self._resumed = True
                self._start(Operator, 0)
            elif self._all_wait():
                self._set_the_clock_right()
            elif not self.history.unfinished:
                self._closing = True
                for worker in self._present(WorkerProcess):
                    worker.ask_to_stop()
                return
        self.stage.later(0.5, self._close_when_done)

    def _somebody_acts(self) -> bool:
        return any(map(self._present, (Producer, Operator, Meddler)))

    def _all_wait(self) -> bool:
        """For their own time, or one of them for the end of the lease of a worker that has died."""
        unfinished = [row for row in self.history.rows.values() if not row.ended]
        waiting = bool(unfinished) and all(row.run_after is not None for row in unfinished)
        return waiting or any(map(self._waits_for_a_lease, unfinished))

    def _waits_for_a_lease(self, row: Row) -> bool:
        return self.database.lease_seconds is not None and row.running and not self.lives(row.worker_id or "")

    def _set_the_clock_right(self) -> None:
        """What is due at a time of day waits for it, also when somebody has set the clock back by an hour."""
        behind = self.stage.latest_wall - self.stage.now()
        if behind > 0:
            self.stage.jump(behind)
            self.history.record("clock", "set right", seconds=behind)


class _Complaints(logging.Handler):
    """Warnings are part of the play; an error with a traceback is a bug."""

    def __init__(self, world: World) -> None:
        super().__init__(logging.WARNING)
        self._world = world

    def emit(self, record: logging.LogRecord) -> None:
        if record.exc_info and record.exc_info[1] is not None:
            self._world.stage.trouble.append((record.getMessage(), record.exc_info[1]))


@contextmanager
def _log_kept_apart(world: World) -> Iterator[None]:
    log = logging.getLogger("tq")
    complaints = _Complaints(world)
    log.addHandler(complaints)
    log.propagate, before = False, log.propagate
    try:
        yield
    finally:
        log.removeHandler(complaints)
        log.propagate = before


@contextmanager
def played(scenario: Scenario, engine: Engine | None = None) -> Iterator[World]:
    """Play a schedule; its database can be looked at inside the `with`."""
    engine = engine or Engine()
    with closing(engine.database()) as database:
        world = World(scenario, database, engine)
        world.run()
        yield world
