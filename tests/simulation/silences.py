"""Who was silent, for how long and why: what a store with leases may take for a death."""

from __future__ import annotations

from typing import NamedTuple

from tests.simulation.history import Event


class Lease(NamedTuple):
    until: float  # by the server's clock
    asked_at: float  # by the stage; it counts from then on, also where the answer comes late
    late: bool  # it had run out when it was granted


class Silences:
    def __init__(self, lease_seconds: float | None) -> None:
        self.count = lease_seconds is not None  # whether anybody goes by them
        self._seconds = lease_seconds
        self._leases: dict[str, Lease] = {}
        self._process: dict[str, str] = {}  # by worker
        self._stopped_until: dict[str, float] = {}  # by process
        self._jumped_at = -1.0

    def hear(self, event: Event) -> None:
        match event.what:
            case "born":
                self._process[event.facts["worker"]] = event.who
            case "leased":
                self._leases[event.facts["worker"]] = self._lease(event)
            case "dismissed":
                self._leases.pop(event.facts["worker"], None)
            case "stopped":
                self._stopped_until[event.who] = event.facts["until"]
            case "jumped" | "set right":
                self._jumped_at = event.at

    def _lease(self, event: Event) -> Lease:
        until = event.facts["until"]
        asked = event.latest_wall - (until - (self._seconds or 0.0))
        return Lease(until, event.at - max(0.0, asked), 0.0 < until < event.latest_wall)

    def enlisted(self, worker: str) -> bool:
        return worker in self._leases

    def excuse(self, worker: str, event: Event) -> str | None:
        """None where the worker was rightly taken for dead; else what was wrong with that."""
        lease = self._leases.get(worker)
        if lease is None:
            return "nobody had declared it dead"
        if lease.until >= event.latest_wall:
            return f"its lease runs until {lease.until}"
        stopped = self._stopped_until.get(self._process[worker], -1.0)
        if lease.late and self._held_up(worker, lease):
            return None
        if max(stopped, self._jumped_at) < lease.asked_at:
            return "it was neither stopped nor did the clock jump since it renewed its lease"
        return None

    def _held_up(self, worker: str, lease: Lease) -> bool:
        """Whether another process was stopped while the renewal waited: in the middle of a transaction it keeps its
        locks, and one that was about to declare this worker dead keeps it from renewing."""
        others = (until for who, until in self._stopped_until.items() if who != self._process[worker])
        return any(until >= lease.asked_at for until in others)
