"""What a database must offer to hold a queue. A driver runs named statements; it knows nothing of tasks."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, Protocol, TypeVar

from tq.models import ClaimedTask, WorkerRecord

T = TypeVar("T")
Row = tuple[Any, ...]


class Session(Protocol):
    """One transaction, as the store sees it."""

    rings: bool  # set it when the transaction may give a sleeping worker something to do
    hungry: bool  # set it when a worker wanted more than there was: the next one who rings has someone to ring for

    def rows(self, statement: str, parameters: Sequence[Any] = ()) -> list[Row]:
        """Run a named statement and return all of its rows: no cursor stays open."""

    def change(self, statement: str, parameters: Sequence[Any] = ()) -> int:
        """Run a named statement and return how many rows it changed."""

    def change_each(self, statement: str, rows: Sequence[Sequence[Any]]) -> set[int]:
        """Run a named statement for each of the rows, and return the positions of those that changed something. Only
        insert_task and settle can tell them in every database."""


class Autopsy(NamedTuple):
    """What is known of a dead worker: the claims, by task and version, whose handlers had started; None where nobody
    can tell."""

    started: frozenset[tuple[str, int]] | None


class Presence(Protocol):
    """How a worker process shows that it lives, and what it is doing."""

    @property
    def counts_as_living(self) -> bool:
        """Whether nobody can take this worker for dead at this moment: only then may it start anything."""

    def started(self, *tasks: ClaimedTask) -> None:
        """List claims as started: from here on a crash costs them an attempt. Raises where they may not start, because
        others may take this worker for dead. Any thread may call it."""

    def settled(self, task_id: str) -> None: ...

    def ring(self) -> None:
        """Wake this worker. Any thread may call it."""

    def wait(self, seconds: float) -> bool:
        """Sleep until somebody rings, at most this long; answers whether somebody did."""

    def leave(self) -> None:
        """Clean up; nothing may be owned any more."""

    def drop(self) -> None:
        """Let go without cleaning up, so that others see a death and take over what is still owned."""


class Driver(Protocol):
    def write(self, operation: Callable[[Session], T], repeatable: bool = False, alone: bool = False) -> T:
        """Run the operation in a write transaction and commit it. It may run more than once; only one run counts, but
        of a repeatable one: that does no harm when it comes again after a commit of unknown fate. One that is alone
        is repeatable, and changes something by one statement only: that may be a transaction by itself."""

    def read(self, operation: Callable[[Session], T], patient: bool = True) -> T:
        """Run the operation on one moment's picture. A worker is not patient: it says itself that the database is away,
        and comes again."""

    def enlist(self, worker: WorkerRecord) -> Presence: ...

    def autopsy(self, session: Any, worker: WorkerRecord) -> Autopsy | None:
        """None while the worker lives, as far as this transaction can tell."""

    def seems_dead(self, session: Any, worker: WorkerRecord) -> bool:
        """Whether a worker shows no sign of life, as far as this transaction can tell. Good for a picture, not to take
        over from it."""

    def bury(self, worker: WorkerRecord) -> None:
        """Remove what a dead worker left outside the database, once its tasks are safe."""

    def close(self) -> None: ...
