"""TaskQueue: the public face, and the place where the parts are put together."""

from __future__ import annotations

import atexit
import builtins
import contextlib
import dataclasses
import logging
import os
import queue
import signal
import sqlite3
import threading
from collections.abc import Callable, Sequence
from datetime import timedelta
from typing import Any, TypeVar, overload

from typing_extensions import Self, Unpack

from tq import typed
from tq.clock import Clock, SystemClock
from tq.context import TaskTypeContext
from tq.desk import Desk, Wanted
from tq.errors import InvalidOption, NotInitialised, NotInTask, StorageError, TqError
from tq.executor import Executor, current_task
from tq.forking import renew_in_child
from tq.handle import TaskHandle
from tq.ids import IdFactory
from tq.lanes.job import LaneParts
from tq.lanes.lanes import HandlerLanes
from tq.models import DEFAULT_TIMEOUT, EVERY_TYPE, Page, QueueStats, Task, TaskSpec, TaskType
from tq.scheduler import AddOptions, Scheduler, patience, positive_number, whole_number
from tq.storage.location import Location, locate
from tq.storage.store import Store
from tq.views import Explanation
from tq.worker import Worker

P = TypeVar("P")
H = TypeVar("H", bound=Callable[..., Any])
log = logging.getLogger("tq")

_EXIT_SECONDS = 5.0
_INTERRUPT_SECONDS = 3.0
_SIGNAL_SECONDS = 1.0


class TaskQueue:
    """A queue in a database. `tq` is one; make others to use several databases in one program.

    >>> other = TaskQueue().init("other.db")
    >>> other.stop()
    True
    """

    def __init__(self, *, clock: Clock | None = None, ids: IdFactory | None = None) -> None:
        self._clock: Clock = clock or SystemClock()
        self._ids = ids or IdFactory()
        self._types: dict[str, TaskType] = {}
        self._scheduler = Scheduler(self._clock, self._ids, self._type)
        self._store: Store | None = None
        self._database = ""  # the one it is open on, or was
        self._location: Location | None = None
        self._options: dict[str, Any] = {}
        self.after_fork()
        renew_in_child(self)

    def after_fork(self) -> None:
        """A forked child has its own lock, and no worker until it asks for one."""
        self._lock = threading.RLock()
        self._worker: Worker | None = None

    def __repr__(self) -> str:
        return f"TaskQueue({self._database!r})" if self._database else "TaskQueue()"

    # --- opening -------------------------------------------------------------------------------------------------

    def init(
        self,
        database: str | os.PathLike[str] | sqlite3.Connection | None = None,
        *,
        poll_interval: float = 1.0,
        batch_size: int = 100,
        task_timeout: float = DEFAULT_TIMEOUT,
        durability: str = "full",
        schema: str | None = None,
        lease: float | None = None,
        pooler: bool | None = None,
    ) -> Self:
        """Open the database: a path, `sqlite:///…`, `postgresql://…`, or an open sqlite3 connection (its file is used).

        Without a database it is `$TQ_DATABASE_URL`, or else `./tq.db`. `durability="normal"` is faster, and may lose
        the last moments before a power cut. `task_timeout` holds for types that set none. For PostgreSQL alone:
        `schema` (the default is `tq`), `lease` (after how many seconds of silence a worker counts as dead, 30) and
        `pooler=True` behind a pooler that hands out connections by the transaction.
        """
        options: dict[str, Any] = {
            "poll_interval": positive_number("poll_interval", poll_interval),
            "batch_size": whole_number("batch_size", batch_size),
            "task_timeout": positive_number("task_timeout", task_timeout),
        }
        if durability not in ("full", "normal"):
            raise InvalidOption(f'durability={durability!r}: give "full" or "normal"')
        seconds = None if lease is None else positive_number("lease", lease)
        if seconds is not None and seconds < 1:
            raise InvalidOption(f"lease={lease!r}: give at least 1 second; a worker has to renew it in time")
        location = locate(database, durability, schema=schema, lease_seconds=seconds, pooler=pooler)
        self._open_on(location, options)
        return self

    def _open_on(self, location: Location, options: dict[str, Any]) -> None:
        with self._lock:
            if self._store is not None and (location, options) == (self._location, self._options):
                return  # the same again, as in a notebook
            if self._store is not None:
                raise InvalidOption(
                    f"this queue is open on {self._database}; call stop() first, or make another TaskQueue()"
                )
            self._store = location.opened()
            self._database, self._location, self._options = location.shown, location, options
        try:
            self._start_worker()
        except BaseException:
            self._close()
            self._database = ""
            raise

    def _opened(self) -> Store:
        store = self._store
        if store is None:
            with self._lock:
                if self._store is None and self._database:
                    raise NotInitialised(f"the queue on {self._database} was stopped; call init() to open it again")
                if self._store is None:
                    self.init()
                store = self._store
                assert store is not None
        return store

    # --- types ---------------------------------------------------------------------------------------------------

    @overload
    def __call__(self, type: str) -> TaskTypeContext[Any]: ...

    @overload
    def __call__(self, type: str, payload: type[P]) -> TaskTypeContext[P]: ...

    def __call__(self, type: str, payload: Any = None) -> TaskTypeContext[Any]:
        """The context of a task type; with a payload class its inputs are checked, by mypy and at run time."""
        _check_type_name(type)
        if payload is not None:
            typed.check_payload_type(payload)
        return TaskTypeContext(self, type, payload)

    def worker(self, type: str, payload: Any = None, **options: Any) -> Callable[[H], H]:
        """The decorator form of `set_worker` and its companions.

        >>> queue = TaskQueue()
        >>> @queue.worker("email", worker_count=3, rate_limit=5)
        ... def send(message): ...
        """
        self(type, payload)  # refused here, not where the function is decorated
        for name in options:
            if name not in _WORKER_OPTIONS:
                raise InvalidOption(f"worker() has no option {name!r}; it knows {', '.join(_WORKER_OPTIONS)}")

        def register(handler: H) -> H:
            draft: Any = _Draft()  # of all that a context asks of its queue, only this is needed here
            context: TaskTypeContext[Any] = TaskTypeContext(draft, type, payload)
            for name, value in options.items():
                _apply(getattr(context, f"set_{name}"), value)
            context.set_worker(handler)
            self.configure(type, **draft.changes)
            return handler

        return register

    def configure(self, name: str, **changes: Any) -> TaskType:
        """Put a changed copy of a type in its place; a type with a handler makes this process a worker."""
        with self._lock:
            kind = dataclasses.replace(self._type(name), changed_at=self._clock.monotonic(), **changes)
            self._types = {**self._types, name: kind}
        if self._store is not None:
            self._start_worker()
        if self._worker is not None:
            self._worker.look()
        return kind

    def _type(self, name: str) -> TaskType:
        return self._types.get(name) or TaskType(name)

    # --- tasks ---------------------------------------------------------------------------------------------------

    def spec(self, name: str, input_: str, options: AddOptions) -> TaskSpec:
        """A task as it would be stored, with an id; `accept` stores it."""
        return self._scheduler.spec(name, input_, options)

    def accept(self, specs: Sequence[TaskSpec]) -> builtins.list[str]:
        """Store tasks, all or none; answers with their ids, or those of the tasks that hold the same keys."""
        return self._opened().add(specs)

    def handle(self, task_id: str) -> TaskHandle:
        """A handle on any task of this database, by its id."""
        self._opened()
        return TaskHandle(task_id, self._opened, self._clock, self.desk)

    def get(self, task_id: str) -> Task:
        """A task as it stands now."""
        return self.handle(task_id).task()

    @property
    def desk(self) -> Desk:
        """Where operators find tasks, cancel, retry and delete them, and steer types."""
        return Desk(self._opened, self._clock, self._ids)

    def explain(self, task_id: str) -> Explanation:
        """Why a task is not running, or what became of it, in one sentence. See `Desk.explain`."""
        return self.desk.explain(task_id)

    def list(self, limit: int = 50, after: str | None = None, **wanted: Unpack[Wanted]) -> Page:
        """A page of tasks, the newest first: `list(type="email", status="failed")`. See `Desk.list`."""
        return self.desk.list(limit, after, **wanted)

    def cancel(self, task_id: str | None = None, /, *, by: str | None = None, **wanted: Unpack[Wanted]) -> int:
        """Cancel a task, or all that match and have not ended; answers with how many. See `Desk.cancel`."""
        return self.desk.cancel(task_id, by=by, **wanted)

    def retry(self, task_id: str | None = None, /, *, by: str | None = None, **wanted: Unpack[Wanted]) -> int:
        """Run again what has failed or was cancelled, or now what waits; answers with how many. See `Desk.retry`."""
        return self.desk.retry(task_id, by=by, **wanted)

    def delete(self, task_id: str | None = None, /, *, by: str | None = None, **wanted: Unpack[Wanted]) -> int:
        """Delete what has ended; answers with how many. See `Desk.delete`."""
        return self.desk.delete(task_id, by=by, **wanted)

    def cleanup(self, older_than: timedelta | float = 604_800.0, status: str | Sequence[str] = "success") -> int:
        """Delete what has ended and was added longer ago than this; answers with how many."""
        return self.desk.cleanup(older_than, status)

    # --- steering ------------------------------------------------------------------------------------------------

    def pause(self, type: str | None = None) -> None:
        """Start nothing, or nothing of this type, until `resume`: in every process, also after a restart."""
        self._opened().pause(_pausable(type))
        if self._worker is not None:
            self._worker.look()

    def resume(self, type: str | None = None) -> None:
        """End a pause. A type that was paused by itself stays paused when the whole queue resumes."""
        self._opened().resume(_pausable(type))

    def stats(self) -> QueueStats:
        """How many tasks are in which status, in all and by type; and what needs a look."""
        store = self._opened()
        worker = self._worker
        paused = store.settings().paused
        return {
            **store.stats(),
            "paused": EVERY_TYPE in paused,
            "pausedTypes": sorted(paused - {EVERY_TYPE}),
            "overdue": worker.overdue() if worker else 0,
        }

    def join(self, timeout: float | None = None) -> bool:
        """Wait until every task has ended, retries and scheduled ones too; False if the time was over before."""
        give_up_at = None if timeout is None else self._clock.monotonic() + patience("join", timeout)
        while self._opened().unfinished():
            if give_up_at is not None and self._clock.monotonic() >= give_up_at:
                return False
            self._clock.sleep(0.02)
        return True

    # --- the worker ----------------------------------------------------------------------------------------------

    def _start_worker(self) -> None:
        with self._lock:
            if self._worker is not None or not any(kind.handler for kind in self._types.values()):
                return
            self._worker = self._make_worker()
            threading.Thread(target=self._worker.run, name="tq-worker", daemon=True).start()
            atexit.register(self._at_exit)

    def _make_worker(self) -> Worker:
        return Worker(
            self._ids.new(),
            self._opened(),
            self._scheduler,
            self._clock,
            lambda: self._types,
            lambda basket, presence, stopping: HandlerLanes(
                LaneParts(Executor(), basket, self._clock, presence.started, stopping)
            ),
            **self._options,
        )

    def run(self, timeout: float = 30.0) -> None:
        """Work until SIGTERM or Ctrl-C, then finish what runs. A second signal, or `timeout`, interrupts it."""
        if threading.current_thread() is not threading.main_thread():
            raise InvalidOption("run() waits for signals, which only the main thread gets: call it there")
        self._opened()
        self._start_worker()
        if self._worker is None:
            raise InvalidOption(
                "run() has nothing to run: register a handler first, with tq('type').set_worker(function)"
            )
        worker = self._worker
        awake: queue.SimpleQueue[None] = queue.SimpleQueue()  # put() is safe in a signal handler, Event.set() is not
        worker.at_end = lambda: awake.put(None)
        before = {number: signal.signal(number, lambda *_: _on_signal(worker, awake)) for number in _SIGNALS}
        try:
            if not worker.done.is_set():
                _wait_for(awake)
            if not worker.stopping:  # what it could not work with would not let us close the database either
                raise StorageError(
                    f"the worker on {self._database} has ended by itself, the log says why; restart the program"
                )
            if worker.busy:
                log.warning("stopping: waiting for running tasks; signal again to interrupt them")
            self.stop(timeout)
        finally:
            for number, handler in before.items():
                signal.signal(number, signal.SIG_DFL if handler is None else handler)  # None: not Python's own

    def stop(self, timeout: float = 30.0) -> bool:
        """Finish what runs, give back what has not started, and close the database. Answers whether all had ended."""
        patience("stop", timeout)
        worker, ended = self._worker, True
        if worker is not None:
            _refuse_inside_handler(worker)
            worker.stop()
            ended = worker.done.wait(timeout)
            if not ended:
                worker.interrupt()
                worker.done.wait(_INTERRUPT_SECONDS)
        self._close()
        return ended

    def _close(self) -> None:
        with self._lock:
            store, self._store, self._worker = self._store, None, None
            atexit.unregister(self._at_exit)
        if store is not None:
            store.close()

    def _at_exit(self) -> None:
        if self._worker is None or self._store is None:  # a forked child has none, and nothing to stop
            return
        with contextlib.suppress(KeyboardInterrupt, TqError):  # what still runs then, the next worker takes over
            if not self._worker.in_trouble and self._store.unfinished():
                log.warning(
                    "the program ends before its tasks; they wait in %s (join() waits for them, run() goes on working)",
                    self._database,
                )
            self.stop(_EXIT_SECONDS)


_SIGNALS = (signal.SIGINT, signal.SIGTERM)
_WORKER_OPTIONS = ("backoff", "global_limit", "max_attempts", "no_retry", "rate_limit", "timeout", "worker_count")


class _Draft:
    """Stands in for the queue until all options are known to be right: then they change together, or not at all."""

    def __init__(self) -> None:
        self.changes: dict[str, Any] = {}

    def configure(self, name: str, **changes: Any) -> None:
        self.changes.update(changes)


def _wait_for(awake: queue.SimpleQueue[None]) -> None:
    """A signal that the kernel hands to another thread does not interrupt this one (reproduced with a burst of them):
    its handler runs when we come back from waiting."""
    while True:
        with contextlib.suppress(queue.Empty):
            return awake.get(timeout=_SIGNAL_SECONDS)


def _on_signal(worker: Worker, awake: queue.SimpleQueue[None]) -> None:
    if worker.stopping:
        worker.interrupt()
    worker.stop()
    awake.put(None)


def _refuse_inside_handler(worker: Worker) -> None:
    with contextlib.suppress(NotInTask):
        if worker.owns(current_task().id):
            raise InvalidOption(
                "stop() waits for running tasks, and would wait for this one: call it outside of handlers, "
                "or end the process with SIGTERM"
            )


def _check_type_name(name: Any) -> None:
    if not isinstance(name, str) or not 0 < len(name) <= 255 or not name.isprintable():
        raise InvalidOption(f"tq({name!r}): a task type is a text of 1 to 255 printable characters")


def _pausable(type_: str | None) -> str:
    if type_ is None:
        return EVERY_TYPE
    _check_type_name(type_)
    return type_


def _apply(setter: Callable[..., Any], value: Any) -> None:
    match value:
        case dict():
            setter(**value)
        case tuple():
            setter(*value)
        case _:
            setter(value)
