"""The cast: worker processes, producers, and operators. Each owns its real connections."""

from __future__ import annotations

import json
from collections.abc import Callable
from random import Random
from typing import TYPE_CHECKING, Any, TypeVar

from tests.simulation.actors import Activity, Actor
from tests.simulation.lanes import VirtualLanes
from tests.simulation.scenario import Wish, run_after
from tq.errors import StorageError
from tq.ids import IdFactory
from tq.models import EVERY_TYPE, STEERABLE, Action, TaskSpec, TaskType
from tq.scheduler import Scheduler
from tq.storage.store import Store
from tq.worker import Worker

if TYPE_CHECKING:
    from tests.simulation.faults import Faults
    from tests.simulation.world import World


T = TypeVar("T")


class ProcessClock:
    """The machine's clock; sleeping is virtual."""

    def __init__(self, process: Process) -> None:
        self.now = process.stage.now
        self.monotonic = process.stage.monotonic
        self.sleep = process.sleep


class Process(Actor):
    def __init__(self, world: World, name: str) -> None:
        super().__init__(world.stage, name)
        self.world = world
        self.faults: Faults = world.faults
        self.random: Random = world.stage.random
        self.clock = ProcessClock(self)
        self.ids = IdFactory(lambda: int(self.clock.now() * 1e9), self.random.getrandbits)
        self.scheduler: Scheduler = world.engine.scheduler(
            self.clock, self.ids, lambda type_: world.scenario.types.get(type_) or TaskType(type_), self.random.uniform
        )
        self.worker_id: str | None = None
        self._left_behind: list[Callable[[], None]] = []

    def open_store(self) -> Store:
        return self.world.engine.store(self.world.database.open(self))

    def insist(self, operation: Callable[[], T]) -> T:
        while True:
            try:
                return operation()
            except StorageError:
                self.clock.sleep(1.0)

    def action(self, name: str) -> Action:
        return Action(self.ids.new(), self.clock.now(), self.name, name, "some")

    def record(self, what: str, task: str | None = None, **facts: Any) -> None:
        self.world.history.record(self.name, what, task, **facts)

    def later(self, seconds: float, happens: Callable[[], None]) -> None:
        self.stage.later(seconds, happens, owner=self)

    # --- its threads ---------------------------------------------------------------------------------------------

    def spawn(self, name: str, part: Callable[[], None]) -> None:
        self.stage.enter(Activity(self, name, part))

    @property
    def thread(self) -> Actor:
        """The one of its threads that runs now."""
        holder = self.stage.holder
        return holder if isinstance(holder, Activity) and holder.process is self else self

    def at(self, point: str) -> None:
        Actor.at(self.thread, point)

    def sleep(self, seconds: float, rung: Callable[[], bool] | None = None) -> None:
        Actor.sleep(self.thread, seconds, rung)

    # --- what a process holds, and loses when it dies ------------------------------------------------------------

    def at_end(self, lose: Callable[[], None]) -> None:
        self._left_behind.append(lose)

    def bury(self) -> None:
        self.life.dead = self.life.doomed = True  # what its other threads see, if it has any
        for lose in reversed(self._left_behind):
            lose()


class WorkerProcess(Process):
    def __init__(self, world: World, name: str) -> None:
        super().__init__(world, name)
        self.worker: Worker | None = None
        self.asked_to_stop = False

    def play(self) -> None:
        try:
            store = self.open_store()
            self.worker_id = self.ids.new()
            self.record("born", worker=self.worker_id)
            scenario = self.world.scenario
            self.worker = self.world.engine.worker(
                self.worker_id, store, self.scheduler, self.clock, lambda: scenario.types,
                lambda basket, presence, stopping: VirtualLanes(self, basket, presence),
                scenario.poll_interval, scenario.batch_size,
            )  # fmt: skip
        except StorageError as error:  # its program ends with this message, and is started again
            self.record("killed", worker=self.worker_id, error=str(error))
            return
        if self.asked_to_stop:
            self.worker.stop()
        self.worker.run()
        self.record("left", worker=self.worker_id)
        store.close()

    def ask_to_stop(self) -> None:
        self.asked_to_stop = True
        if self.worker is not None and not self.gone:
            self.worker.stop()


class Producer(Process):
    def __init__(self, world: World, name: str, wishes: list[Wish]) -> None:
        super().__init__(world, name)
        self.wishes = wishes

    def play(self) -> None:
        store = self.insist(self.open_store)
        while self.wishes:
            wish = self.wishes.pop(0)
            self.clock.sleep(wish.pause)
            self._add(store, wish)

    def _add(self, store: Store, wish: Wish) -> None:
        moment = run_after(self.random, self.clock.now())
        options = {**wish.options, "run_after": moment} if moment is not None else wish.options
        specs = [self.scheduler.spec(wish.type, json.dumps(input_), options) for input_ in wish.inputs]
        self._record_specs("adding", specs)
        try:
            ids = store.add(specs)
        except StorageError as error:
            self.record("add failed", ids=[spec.id for spec in specs], error=str(error))
            if "key" in options:  # what a careful program does: a key makes it safe
                self.wishes.insert(0, wish._replace(pause=1.0))
            return
        self.record("added", ids=ids, specs=[spec.id for spec in specs])

    def _record_specs(self, what: str, specs: list[TaskSpec]) -> None:
        self.record(what, specs=specs)
        for spec in specs:
            self.record(what, spec.id, run_after=spec.run_after, max_attempts=spec.max_attempts)


class Operator(Process):
    """Pauses and resumes; another one lets everything go on when the schedule comes to its end."""

    def __init__(self, world: World, name: str, pauses: int) -> None:
        super().__init__(world, name)
        self._pauses = pauses

    def play(self) -> None:
        names = [EVERY_TYPE, *sorted(self.world.scenario.types)]
        store = self.insist(self.open_store)
        for _ in range(self._pauses):
            self.clock.sleep(self.random.random() * 1.5)
            name = self.random.choice(names)
            self.insist(lambda name=name: store.pause(name))
            self.clock.sleep(self.random.random() * 3)
            self.insist(lambda name=name: store.resume(name))
        if not self._pauses:
            for name in names:
                self.insist(lambda name=name: store.resume(name))
                if "meddling" in self.world.scenario.faults:
                    self._reset(store, name)

    def _reset(self, store: Store, name: str) -> None:
        self.insist(lambda: store.operators.set(name, dict.fromkeys(STEERABLE), self.action("reset")))


class Meddler(Process):
    """Cancels, retries and deletes whatever it finds, and overrides settings, while everybody else works."""

    def play(self) -> None:
        store = self.insist(self.open_store)
        for _ in range(max(self.random.randint(4, 16), self.world.scenario.fault_count)):
            self.clock.sleep(self.random.random() * self.random.choice([0.1, 0.5, 2.0]))
            verb = self.random.choice(["cancel", "cancel", "cancel", "retry", "retry", "delete", "set"])
            if verb == "set":
                self._steer(store)
            else:
                self._change(verb, getattr(store.operators, verb), self._some(verb))

    def _some(self, verb: str) -> list[str]:
        """One task or several; mostly such as the verb is for, else any."""
        rows = self.world.history.rows
        known = sorted(rows)
        if self.random.random() < 0.7:
            known = [task for task in known if rows[task].ended is (verb != "cancel")] or known
        return self.random.sample(known, min(len(known), self.random.choice([1, 1, 2, 5])))

    def _change(self, verb: str, change: Callable[[list[str], Action], list[str]], ids: list[str]) -> None:
        self.record("meddling", verb=verb, ids=ids)
        try:
            changed = change(ids, self.action(verb))
        except StorageError as error:
            self._wait_a_moment(error)
            return
        self.record("meddled", verb=verb, ids=ids, changed=changed)

    def _steer(self, store: Store) -> None:
        kind = self.random.choice(sorted(self.world.scenario.types.values(), key=lambda kind: kind.name))
        choices: dict[str, list[float | None]] = {
            "worker_count": [1, 2, 4],
            "max_attempts": [1, 2, 5],
            "rate_limit": [2.0, 5.0, 20.0] if kind.rate_limit is None else [1.0, 10.0, None],
        }
        if kind.global_limit is not None:  # who knows of none counts nothing
            choices["global_limit"] = [1, 2, 4]
        name = self.random.choice(sorted(choices))
        value = None if self.random.random() < 0.3 else json.dumps(self.random.choice(choices[name]))
        self.record("steering", type=kind.name, name=name, value=value)
        try:
            store.operators.set(kind.name, {name: value}, self.action("set"))
        except StorageError as error:
            self._wait_a_moment(error)

    def _wait_a_moment(self, error: StorageError) -> None:
        self.record("meddling failed", error=str(error))
        self.clock.sleep(1.0)
