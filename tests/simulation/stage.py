"""The stage: who of the actors goes on, and when, in virtual time.

Whoever reaches a yield point (`Actor.at`) decides by the seed who goes on, and passes the baton. Nothing else runs in
the meantime, so a schedule is a function of its seed.
"""

from __future__ import annotations

import heapq
import itertools
import threading
from collections.abc import Callable
from random import Random

from tests.simulation.actors import Actor

MOST_STEPS = 25_000
MOST_SECONDS = 600.0
FIRST_WALL_TIME = 1_700_000_000.0


class Stage:
    """Time, the actors, and what happens later by itself. `fate`, `killed` and `left` are for the world to fill in."""

    def __init__(self, random: Random, stickiness: float, step_seconds: float) -> None:
        self.random = random
        self.time = 0.0
        self.wall_ahead = FIRST_WALL_TIME  # of the virtual monotonic time; a clock jump changes it
        self.latest_wall = 0.0
        self.steps = 0
        self.actors: list[Actor] = []
        self.holder: Actor | None = None  # of the baton
        self.trouble: list[tuple[str, BaseException]] = []
        self.fate: Callable[[Actor, str], None] = lambda actor, point: None
        self.killed: Callable[[Actor], None] = lambda actor: None
        self.left: Callable[[Actor], None] = lambda actor: None
        self._stickiness = stickiness
        self._step_seconds = step_seconds
        self._later: list[tuple[float, int, Actor | None, Callable[[], None]]] = []
        self._numbers = itertools.count()
        self._threads: list[threading.Thread] = []
        self._curtain = threading.Lock()
        self._curtain.acquire()

    # --- time ----------------------------------------------------------------------------------------------------

    def now(self) -> float:
        return self.time + self.wall_ahead

    def monotonic(self) -> float:
        return self.time

    def _pass_time(self, seconds: float) -> None:
        self.time += seconds
        wall = self.time + self.wall_ahead
        if wall > self.latest_wall:
            self.latest_wall = wall

    def jump(self, seconds: float) -> None:
        """Set the wall clock."""
        self.wall_ahead += seconds
        self._pass_time(0.0)

    # --- the play ------------------------------------------------------------------------------------------------

    def enter(self, actor: Actor) -> None:
        self.actors.append(actor)
        thread = threading.Thread(target=actor.live, name=actor.name, daemon=True)
        self._threads.append(thread)
        thread.start()

    def later(self, seconds: float, happens: Callable[[], None], owner: Actor | None = None) -> None:
        """Let something happen by itself; what belongs to an actor stops and dies with it."""
        heapq.heappush(self._later, (self.time + seconds, next(self._numbers), owner, happens))

    def run(self) -> None:
        """Play until the last actor has gone."""
        self.pass_baton(None)
        self._curtain.acquire()
        for thread in self._threads:
            thread.join()

    @property
    def exhausted(self) -> bool:
        return self.steps > MOST_STEPS or self.time > MOST_SECONDS

    def pass_baton(self, holder: Actor | None) -> None:
        """Choose who goes on. Called by the holder, who comes back when it is chosen again; None leaves for good."""
        self.holder = chosen = self._choose(holder)
        if chosen is None:
            self._curtain.release()
        elif chosen is holder:
            return
        else:
            chosen.turn.release()
        if holder is not None:
            holder.turn.acquire()

    def _choose(self, holder: Actor | None) -> Actor | None:
        self.steps += 1
        self._pass_time(self.random.random() * self._step_seconds)
        if holder is not None and self.random.random() < self._stickiness and holder.ready:
            return holder
        while True:
            present = self.actors
            if not present and (not self._later or self.exhausted):
                return None
            if self.exhausted:  # the history says what had not ended
                for actor in present:
                    actor.life.doomed = True
            doomed = [actor for actor in present if actor.life.doomed]
            if doomed:
                return doomed[0]
            due = bool(self._later) and self._later[0][0] <= self.time
            able = [actor for actor in present if actor.ready]
            if able and (not due or self.random.random() < 0.5):
                return able[int(self.random.random() * len(able))]
            if due:
                self._happen()
            else:
                self.time = max(self.time, self._next_moment(present))
                self._pass_time(0.0)

    def _happen(self) -> None:
        _, _, owner, happens = heapq.heappop(self._later)
        if owner is None or not owner.gone:
            if owner is not None and owner.life.stopped_until > self.time:
                self.later(owner.life.stopped_until - self.time, happens, owner)
            else:
                self._try(happens)

    def _try(self, happens: Callable[[], None]) -> None:
        """It runs in the thread of whoever holds the baton, and its failure is none of theirs."""
        try:
            happens()
        except Exception as error:
            self.trouble.append(("an event", error))

    def _next_moment(self, present: list[Actor]) -> float:
        moments = [moment for actor in present if (moment := self._wakes_at(actor)) is not None]
        if self._later:
            moments.append(self._later[0][0])
        return min(moments) if moments else MOST_SECONDS + 1

    def _wakes_at(self, actor: Actor) -> float | None:
        if actor.life.stopped_until > self.time:
            return actor.life.stopped_until
        return actor.wake_at
