"""The store under test as the rest of the simulator sees it: what it promises, and how to look into it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

from tq.storage.driver import Driver

if TYPE_CHECKING:
    from tests.simulation.processes import Process

# What, of which task, type or worker, and how it was before and after; of a setting its name and its value.
Change = tuple[str, str, Any, Any]


class Database(Protocol):
    exact: bool  # whether a crash costs no attempt but to tasks that had started
    one_writer: bool  # whether write transactions come one after the other
    lease_seconds: float | None  # how long a silent worker counts as living; None where its death itself is seen
    messages: tuple[str, ...]  # of errors that pass
    hurry: int  # how many failures in a second are too many for one thread
    stops: tuple[float, ...]  # how long a process may stand still, in seconds
    outages: tuple[float, ...]  # how long one may last, in seconds

    def open(self, process: Process) -> Driver:
        """A driver for a virtual process, with the faults of its schedule."""

    def open_plainly(self) -> Driver:
        """A driver as a program has it."""

    def ask(self, query: str) -> list[tuple[Any, ...]]: ...

    @property
    def expecting(self) -> bool:
        """Whether commits are on their way that nobody waits for any more."""

    def defects(self) -> list[str]:
        """What the database itself says is wrong with it."""

    def close(self) -> None: ...
