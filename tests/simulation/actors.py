"""Virtual processes and their threads: real threads, of which exactly one runs at a time, as the stage says."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tests.simulation.stage import Stage


class Crashed(BaseException):
    """`kill -9`, as its victim sees it: raised at a yield point, and again at each one until the thread has ended."""


class VirtualLock:
    """Who holds the write lock between processes."""

    def __init__(self) -> None:
        self.owner: Actor | None = None


class Life:
    """What the threads of a process share."""

    def __init__(self) -> None:
        self.dead = False  # killed: whatever it still does has no effect
        self.doomed = False  # to be killed when it gets its turn, which is at once
        self.stopped_until = 0.0  # as by SIGSTOP


class Actor:
    """A thread on the stage. Subclasses play their part in `play`; what they leave behind is cleared up in `bury`."""

    def __init__(self, stage: Stage, name: str, life: Life | None = None) -> None:
        self.stage = stage
        self.name = name
        self.turn = threading.Lock()
        self.turn.acquire()
        self.gone = False  # ended, by itself or killed
        self.life = life or Life()
        self.goes_on: Callable[[], bool] | None = None  # when what it waits for is there
        self.wake_at: float | None = None
        self.rung: Callable[[], bool] | None = None

    @property
    def process(self) -> Actor:
        """Whose death is its own."""
        return self

    def play(self) -> None:
        raise NotImplementedError

    def bury(self) -> None:
        """Clear up after the end, without giving the baton away."""

    # --- yield points --------------------------------------------------------------------------------------------

    def at(self, point: str) -> None:
        """Let others go on, or meet a fate, before `point`."""
        if self.life.dead:
            raise Crashed
        self.stage.fate(self, point)
        self._let_others_go_on()

    def sleep(self, seconds: float, rung: Callable[[], bool] | None = None) -> None:
        if self.life.dead:
            raise Crashed
        self.wake_at, self.rung = self.stage.time + max(0.0, seconds), rung
        self._let_others_go_on()
        self.wake_at = self.rung = None

    def wait_until(self, there: Callable[[], bool]) -> None:
        while not there():
            self.goes_on = there
            self._let_others_go_on()
        self.goes_on = None

    def take(self, lock: VirtualLock) -> None:
        self.at("write lock")
        self.wait_until(lambda: lock.owner is None)
        lock.owner = self

    def release(self, lock: VirtualLock) -> None:
        if lock.owner is self:
            lock.owner = None

    def _let_others_go_on(self) -> None:
        self.stage.pass_baton(self)
        if self.life.doomed:
            if not self.life.dead:
                self.life.dead = True
                self.stage.killed(self.process)
            raise Crashed

    @property
    def ready(self) -> bool:
        stage = self.stage
        if self.life.stopped_until > stage.time:
            return False
        if self.goes_on is not None:
            return self.goes_on()
        if self.wake_at is None or self.wake_at <= stage.time:
            return True
        if self.rung is not None and self.rung():
            self.wake_at = stage.time
            return True
        return False

    # --- its thread ----------------------------------------------------------------------------------------------

    def live(self) -> None:
        self.turn.acquire()
        try:
            if not self.life.doomed:
                self.play()
        except Crashed:
            pass
        except BaseException as error:
            self.stage.trouble.append((self.name, error))
        finally:
            self.gone = True
            self.stage.actors.remove(self)
            self.bury()
            if self.process is self:
                self.stage.left(self)
            self.stage.pass_baton(None)


class Activity(Actor):
    """One more thread of a process: it is stopped when the process is, and dies with it."""

    def __init__(self, process: Actor, name: str, part: Callable[[], None]) -> None:
        super().__init__(process.stage, f"{process.name}'s {name}", process.life)
        self._process = process
        self._part = part

    @property
    def process(self) -> Actor:
        return self._process

    def play(self) -> None:
        self._part()
