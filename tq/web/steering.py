"""What can be set while programs run: pauses, rate limits, and all else that holds for a type."""

from __future__ import annotations

from typing import Any

from tq.errors import InvalidOption
from tq.queue import TaskQueue
from tq.views import TypeView
from tq.web.answers import Paused, RateLimitAnswer, TypeAnswer, TypesAnswer
from tq.web.asked import RateLimit, TypeChanges, TypeName, WhichType
from tq.web.problems import refusal
from tq.web.tasks import Actor


class SteeringHandlers:
    def __init__(self, queue: TaskQueue) -> None:
        self._queue = queue

    def pause(self, actor: Actor, body: WhichType | None = None) -> Paused:
        self._queue.desk.pause(self._which(body), by=actor)
        return self._paused()

    def resume(self, actor: Actor, body: WhichType | None = None) -> Paused:
        self._queue.desk.resume(self._which(body), by=actor)
        return self._paused()

    def _paused(self) -> Paused:
        stats = self._queue.stats()
        return Paused(paused=stats["paused"], types=stats["pausedTypes"])

    def rate_limit(self, body: RateLimit, actor: Actor) -> RateLimitAnswer:
        self._queue.desk.override(self._name(body.type), by=actor, rate_limit=body.per_second)
        return RateLimitAnswer(type=body.type, per_second=body.per_second)

    def list_types(self) -> TypesAnswer:
        return TypesAnswer(types=[_answer(view) for view in self._queue.desk.types()])

    def get_type(self, type: TypeName) -> TypeAnswer:
        found = self._find(type)
        if found is None:
            raise refusal(404, "type_not_found", f"there is no type {type!r}", "GET /types lists those that there are.")
        return _answer(found)

    def change_type(self, type: TypeName, body: TypeChanges, actor: Actor) -> TypeAnswer:
        name, settings = self._name(type), body.given("paused", "reset")
        both = sorted(set(settings) & set(body.reset))
        if both:
            raise InvalidOption(f"{both[0]}: set it or reset it, not both")
        if not body.model_fields_set:
            raise InvalidOption(f"say what is to hold for {name}: {', '.join(TypeChanges.model_fields)}")
        if settings:
            self._queue.desk.override(name, by=actor, **settings)
        if body.reset:
            self._queue.desk.reset(name, *body.reset, by=actor)
        if "paused" in body.model_fields_set:
            (self._queue.desk.pause if body.paused else self._queue.desk.resume)(name, by=actor)
        return _answer(self._find(name) or _unknown(name))

    def _which(self, body: WhichType | None) -> str | None:
        return None if body is None or body.type is None else self._name(body.type)

    def _name(self, type: str) -> str:
        return self._queue(type).name  # refuses what is no name

    def _find(self, name: str) -> TypeView | None:
        return next((view for view in self._queue.desk.types() if view.name == name), None)


def _answer(view: TypeView) -> TypeAnswer:
    values: dict[str, Any] = view._asdict()
    return TypeAnswer(**{**values, "overridden": list(view.overridden)})


def _unknown(name: str) -> TypeView:
    """A type that nothing is known of any more: what was set was reset."""
    return TypeView(name, {}, False, None, False, {}, (), 0)
