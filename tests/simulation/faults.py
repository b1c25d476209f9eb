"""The faults of a schedule: who dies where, which statement fails, who stands still, when the clock jumps."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.simulation.actors import Actor

if TYPE_CHECKING:
    from tests.simulation.world import World

_CHANCE = 0.01
# Where two who know different things are furthest apart.
_CHANCES = {"after COMMIT": 0.06, "write lock": 0.03, "COMMIT by wire": 0.06}


class Faults:
    def __init__(self, world: World) -> None:
        self._world = world
        self._stage = world.stage
        self._random = world.stage.random
        self._kinds = sorted(world.scenario.faults - {"pause", "poison", "meddling"})
        self._left = world.scenario.fault_count if self._kinds else 0
        self._errors_due = 0
        self._outage_until = -1.0

    def fate(self, actor: Actor, point: str) -> None:
        """Maybe something happens now. Called at every yield point."""
        if self._left and self._random.random() < _CHANCES.get(point, _CHANCE):
            self._left -= 1
            if self._stage.time < self._world.scenario.fault_seconds:
                getattr(self, "_" + self._random.choice(self._kinds))(actor)

    # --- what may happen -----------------------------------------------------------------------------------------

    def _crash(self, actor: Actor) -> None:
        if self._random.random() < 0.6:
            actor.life.doomed = True
        else:  # or somebody else in a moment, wherever it is then
            self._stage.later(self._random.random() * 2, self._kill_somebody)

    def _kill_somebody(self) -> None:
        if self._stage.actors:
            self._random.choice(self._stage.actors).life.doomed = True

    def _stop(self, actor: Actor) -> None:
        actor.life.stopped_until = self._stage.time + self._random.choice(self._world.database.stops)
        self._world.history.record(actor.process.name, "stopped", until=actor.life.stopped_until)

    def _jump(self, actor: Actor) -> None:
        seconds = self._random.choice([-3600.0, -30.0, -1.0, 1.0, 5.0, 3600.0])
        self._stage.jump(seconds)
        self._world.history.record("clock", "jumped", seconds=seconds)

    def _restart(self, actor: Actor) -> None:
        self._world.restart(self._random.choice(self._stage.actors).process)

    def _error(self, actor: Actor) -> None:
        self._errors_due += 1

    def _outage(self, actor: Actor) -> None:
        self._outage_until = self._stage.time + self._random.choice(self._world.database.outages)
        self._world.history.record("disk", "failing", until=self._outage_until)

    # --- where storage fails -------------------------------------------------------------------------------------

    def busy(self) -> bool:
        """Whether somebody else is in the way, for a moment."""
        if self._errors_due and self._random.random() < 0.2:
            self._errors_due -= 1
            return True
        return False

    def strike(self, actor: Actor, where: str, share: float = 0.3) -> str | None:
        """The message of the error that happens now, if one does."""
        if not (self._stage.time < self._outage_until or (self._errors_due and self._random.random() < share)):
            return None
        self._errors_due = max(0, self._errors_due - 1)
        message = self._random.choice(self._world.database.messages)
        if "restart" in self._kinds and self._random.random() < 0.3:
            self._world.restart(actor.process)  # what people do about a failing disk
        self._world.history.record(actor.name, "failed", where=where, message=message)
        return message
