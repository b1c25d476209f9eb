"""What requests may say, as pydantic models: unknown names and wrong types are refused, and nothing is guessed."""

from __future__ import annotations

import math
from datetime import datetime
from typing import Annotated, Any, Literal

from pydantic import (
    AwareDatetime,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Discriminator,
    Field,
    Tag,
    TypeAdapter,
    WithJsonSchema,
)

LARGEST_PAGE = 200
LARGEST_OFFSET = 10_000
_LAST_MOMENT = 253402300799  # the year 9999 ends
_WHOLE = 2**31 - 1
_TIME = TypeAdapter(AwareDatetime)

_MOMENT = {
    "anyOf": [
        {"type": "number", "minimum": 0, "maximum": _LAST_MOMENT},
        {"type": "string", "format": "date-time"},
    ],
    "description": "Unix seconds, or a date and time with its offset from UTC.",
}


def _moment(value: Any) -> float:
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        if 0 <= value <= _LAST_MOMENT:
            return float(value)
    elif isinstance(value, str) and _number(value) is None:
        moment: datetime = _TIME.validate_python(value)
        return moment.timestamp()
    raise ValueError("give Unix seconds, or a date and time with its offset from UTC")


def _moment_of_query(value: Any) -> float:
    number = _number(value)
    return _moment(value if number is None else number)


def _integral(value: Any) -> Any:
    """JSON knows no integers, only numbers: 4.0 is as whole as 4."""
    return int(value) if isinstance(value, float) and value.is_integer() else value


def _number(text: Any) -> float | None:
    try:
        number = float(text)
    except (TypeError, ValueError):
        return None
    return None if math.isnan(number) else number


# The schema says what it can; what is printable beyond that tq itself decides.
TypeName = Annotated[str, Field(min_length=1, max_length=255, pattern=r"^[^\x00-\x1f\x7f]*$")]
Key = TypeName
Text = Annotated[str, Field(max_length=10_000, pattern=r"^[^\x00]*$")]
TaskId = Annotated[str, Field(pattern="^[0-9A-Za-z_:-]{1,255}$")]
Moment = Annotated[float, BeforeValidator(_moment), WithJsonSchema(_MOMENT)]
QueryMoment = Annotated[float, BeforeValidator(_moment_of_query), WithJsonSchema(_MOMENT)]
Whole = Annotated[int, Field(ge=1, le=_WHOLE), BeforeValidator(_integral)]
Priority = Annotated[int, Field(ge=-(2**31), le=_WHOLE), BeforeValidator(_integral)]
Seconds = Annotated[float, Field(gt=0, allow_inf_nan=False)]
State = Literal["to-do", "in-progress", "success", "failed", "cancelled", "ready", "scheduled", "retrying", "dead"]
Setting = Literal["worker_count", "rate_limit", "global_limit", "timeout", "max_attempts"]


class Body(BaseModel):
    model_config = ConfigDict(strict=True, extra="forbid")

    def given(self, *left_out: str) -> dict[str, Any]:
        """What the request has said, without what it has left to tq."""
        return self.model_dump(exclude_unset=True, exclude=set(left_out))


class NewTask(Body):
    """A task to add."""

    type: TypeName
    input: Any
    run_after: Moment | None = None
    priority: Priority | None = None
    key: Key | None = Field(None, description="A second task with the same key is not stored.")
    max_attempts: Whole | None = None
    timeout: Seconds | None = None


def _one_or_many(value: Any) -> str:
    return "many" if isinstance(value, list) else "one"


NewTasks = Annotated[
    Annotated[NewTask, Tag("one")] | Annotated[Annotated[list[NewTask], Field(max_length=10_000)], Tag("many")],
    Discriminator(_one_or_many),
]


class BulkBody(Body):
    """Which tasks are meant; at least one of the filters has to be given."""

    type: Text | None = None
    status: list[State] | None = Field(None, max_length=20)
    text: Text | None = Field(None, description="Somewhere in the input or the error.")
    error: Text | None = Field(None, description="Exactly the error.")
    since: Moment | None = Field(None, description="Added then or later.")
    until: Moment | None = Field(None, description="Added before.")
    dry_run: bool = Field(False, description="Only count.")

    def wanted(self) -> dict[str, Any]:
        return _filters(self)


class FilterQuery(BaseModel):
    model_config = ConfigDict(extra="forbid")

    type: Text | None = None
    status: list[State] | None = Field(None, max_length=20, description="One or several.")
    text: Text | None = Field(None, description="Somewhere in the input or the error.")
    error: Text | None = Field(None, description="Exactly the error.")
    since: QueryMoment | None = Field(None, description="Added then or later.")
    until: QueryMoment | None = Field(None, description="Added before.")

    def wanted(self) -> dict[str, Any]:
        return _filters(self)


class BulkQuery(FilterQuery):
    dry_run: bool = Field(False, description="Only count.")


class PageQuery(FilterQuery):
    limit: Annotated[int, Field(ge=1, le=LARGEST_PAGE)] = 50
    after: TaskId | None = Field(None, description="What `next` of the page before said.")
    offset: Annotated[int, Field(ge=0, le=LARGEST_OFFSET)] = Field(
        0, description="Leave out so many; `after` is faster."
    )


class ActionsQuery(BaseModel):
    model_config = ConfigDict(extra="forbid")

    limit: Annotated[int, Field(ge=1, le=LARGEST_PAGE)] = 50
    after: TaskId | None = Field(None, description="What `next` of the page before said.")


class MinutesQuery(BaseModel):
    model_config = ConfigDict(extra="forbid")

    minutes: Annotated[int, Field(ge=1, le=1440)] = 60
    type: Text | None = None


class WhichType(Body):
    """A type, or without one the whole queue."""

    type: TypeName | None = None


class RateLimit(Body):
    """How many tasks of a type may start in a second, over all processes; null sets no limit."""

    type: TypeName
    per_second: Seconds | None


_LEFT_OUT: Any = Field(default_factory=lambda: None)  # then it stays as it is; a null that is sent is refused


class TypeChanges(Body):
    """What is to hold for a type in every process. `reset` names what is to be as the programs say again."""

    worker_count: Whole = _LEFT_OUT
    global_limit: Whole | None = Field(None, description="null: no limit")
    rate_limit: Seconds | None = Field(None, description="null: no limit")
    timeout: Seconds = _LEFT_OUT
    max_attempts: Whole = _LEFT_OUT
    paused: bool = _LEFT_OUT
    reset: list[Setting] = Field([], max_length=20)


def _filters(model: BulkBody | FilterQuery) -> dict[str, Any]:
    names = ("type", "status", "text", "error", "since", "until")
    return {name: value for name in names if (value := getattr(model, name)) not in (None, [])}
