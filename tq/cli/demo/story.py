"""The demo's story: tasks are added, a worker starts, is killed in the middle, and another one takes over."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

from tq.cli.demo import ending
from tq.cli.demo.picture import Pencil, Row, state_of, summary, wrapped
from tq.cli.demo.worker_process import WorkerProcess
from tq.cli.demo.workload import Kind, kinds
from tq.cli.safe_text import printable
from tq.cli.screens import Screen, Span, Style
from tq.clock import Clock
from tq.errors import TqError
from tq.handle import TaskHandle
from tq.models import Task
from tq.queue import TaskQueue

_FRAME_SECONDS = 0.1
_PATIENCE_SECONDS = 90.0
_SECONDS_TO_LOOK = 2.0  # so that a reader can see that everything stands still
_EARLIEST_KILL, _LATEST_KILL = 0.5, 0.6  # shares of the tasks that have ended
_BUSY = 5  # tasks that run at once: between these moments, the kill waits for so many
_TIME_COLUMN = 8

_TITLE = "tq demo: a task queue in one SQLite file, and a worker that gets killed"


class Story:
    def __init__(
        self,
        queue: TaskQueue,
        database: Path,
        screen: Screen,
        pencil: Pencil,
        clock: Clock,
        stop_if_asked: Callable[[], None],
    ) -> None:
        self._queue = queue
        self._database = database
        self._screen = screen
        self._pencil = pencil
        self._clock = clock
        self._stop_if_asked = stop_if_asked
        self._began_at = clock.monotonic()
        self._kinds = kinds()
        self._handles: list[TaskHandle] = []
        self._tasks: dict[str, Task] = {}  # as they were at the last look, in the order of adding
        self._worker: WorkerProcess | None = None
        self._told: set[str] = set()

    def play(self) -> int:
        """Tell the whole story; answer with the number of tasks that were lost."""
        self._open()
        self._add_tasks()
        first = self._start_worker()
        self._say(f"Worker process {first.pid} starts.")
        self._watch_until(self._in_the_middle)
        interrupted = self._kill(first)
        self._watch_for(_SECONDS_TO_LOOK)
        self._take_over(first, interrupted)
        self._watch_until(lambda: all(task.finished for task in self._tasks.values()))
        self._say(f"All {len(self._tasks)} tasks have ended.", "green")
        return self._end(interrupted)

    def clear_away(self) -> None:
        if self._worker is not None:
            self._worker.kill()
        self._queue.stop()

    # --- the acts ------------------------------------------------------------------------------------------------

    def _open(self) -> None:
        for line in wrapped(_TITLE, self._screen.width()):
            self._screen.say([Span(line, "bold")])
        self._screen.say([])
        self._queue.init(self._database)

    def _add_tasks(self) -> None:
        for kind in self._kinds:
            for input_ in kind.inputs:
                self._stop_if_asked()
                self._handles.append(self._queue(kind.type).submit(input_))
        self._look()
        counts = ", ".join(f"{len(kind.inputs)} {kind.type}" for kind in self._kinds)
        self._say(f"{len(self._handles)} tasks are added ({counts}). They are safe on disk now.")

    def _start_worker(self) -> WorkerProcess:
        self._worker = WorkerProcess(self._database.parent)
        return self._worker

    def _in_the_middle(self) -> bool:
        finished = sum(task.finished for task in self._tasks.values())
        running = sum(task.status == "in-progress" for task in self._tasks.values())
        share = finished / len(self._tasks)
        return share == 1 or (share >= _EARLIEST_KILL and running >= (_BUSY if share < _LATEST_KILL else 1))

    def _kill(self, worker: WorkerProcess) -> list[Task]:
        worker.kill()
        self._worker = None
        self._look()
        interrupted = [task for task in self._tasks.values() if task.status == "in-progress"]
        self._say(f"kill -9 {worker.pid}: the worker is gone, in the middle of {len(interrupted)} tasks.", "red")
        self._say("Nothing runs now. What was done stays done, the rest waits in the file.")
        return interrupted

    def _take_over(self, dead: WorkerProcess, interrupted: list[Task]) -> None:
        worker = self._start_worker()
        self._say(f"Worker process {worker.pid} starts.")
        self._watch_until(lambda: all(self._tasks[task.id].version > task.version for task in interrupted))
        self._say(f"It sees that {dead.pid} is dead, and runs those {len(interrupted)} tasks again.")

    def _end(self, interrupted: list[Task]) -> int:
        report = ending.report(self._queue.stats(), list(self._tasks.values()), len(interrupted))
        worker, self._worker = self._worker, None
        self._screen.close()
        for line in ending.lines(report, self._screen.width()):
            self._screen.say(line)
        self._queue.stop()
        if worker is not None:
            worker.end()
        return report.lost

    # --- watching ------------------------------------------------------------------------------------------------

    def _watch_until(self, reached: Callable[[], bool]) -> None:
        give_up_at = self._clock.monotonic() + _PATIENCE_SECONDS
        while not self._frame(reached):
            if self._clock.monotonic() > give_up_at:
                raise TqError(f"the demo got no further for {_PATIENCE_SECONDS:g} s; try again on a less busy machine")

    def _watch_for(self, seconds: float) -> None:
        until = self._clock.monotonic() + seconds
        while not self._frame(lambda: self._clock.monotonic() >= until):
            pass

    def _frame(self, reached: Callable[[], bool]) -> bool:
        """Look, draw, and wait for a moment; answer whether it has come to what we wait for."""
        self._stop_if_asked()
        if self._worker is not None:
            self._worker.check()
        self._look()
        self._tell_what_failed()
        rows = list(self._rows())
        self._screen.show(self._pencil.picture(rows, self._screen.width()), self._at() + summary(rows))
        if reached():
            return True
        self._clock.sleep(_FRAME_SECONDS)
        return False

    def _look(self) -> None:
        for handle in self._handles:
            known = self._tasks.get(handle.id)
            if known is None or not known.finished:
                self._tasks[handle.id] = handle.task()

    def _rows(self) -> Iterator[Row]:
        for kind in self._kinds:
            states = [state_of(task, self._worker is not None) for task in self._of(kind)]
            yield Row(kind.type, kind.rules, states)

    def _of(self, kind: Kind) -> list[Task]:
        return [task for task in self._tasks.values() if task.type == kind.type]

    # --- telling -------------------------------------------------------------------------------------------------

    def _tell_what_failed(self) -> None:
        """The first retry, the first success by a retry, and the one failure for good are worth a line."""
        for task in self._tasks.values():
            name, error = task.input["name"], printable(task.error or "")
            if task.status == "failed" and task.finished:
                self._tell_once("failed", f"{name} failed for good ({error}).", "red")
            elif task.status == "failed" and not task.crashes:
                self._tell_once("retry", f"{name} failed ({error}). It will be tried again.", "yellow")
            elif task.status == "success" and task.attempts > 1 and not task.crashes:
                self._tell_once("retried", f"{name} succeeded with attempt {task.attempts}.", "green")

    def _tell_once(self, subject: str, sentence: str, style: Style) -> None:
        if subject not in self._told:
            self._told.add(subject)
            self._say(sentence, style)

    def _say(self, sentence: str, style: Style = "") -> None:
        first, *rest = wrapped(sentence, self._screen.width() - _TIME_COLUMN)
        self._screen.say([Span(self._at(), "dim"), Span(first, style)])
        for line in rest:
            self._screen.say([Span(" " * _TIME_COLUMN), Span(line, style)])

    def _at(self) -> str:
        return f"{self._clock.monotonic() - self._began_at:4.1f} s".ljust(_TIME_COLUMN)
