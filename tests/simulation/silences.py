"""Who was silent, for how long and why: what a store with leases may take for a death."""

from __future__ import annotations

from typing import NamedTuple

from tests.simulation.history import Event


class Lease(NamedTuple):
    until: float  # by the server's clock
    renewed_at: float  # by the stage


class Silences:
    def __init__(self, lease_seconds: float | None) -> None:
        self.count = lease_seconds is not None  # whether anybody goes by them
        self._leases: dict[str, Lease] = {}
        self._process: dict[str, str] = {}  # by worker
        self._stopped_until: dict[str, float] = {}  # by process
        self._jumped_at = -1.0

    def hear(self, event: Event) -> None:
        match event.what:
            case "born":
                self._process[event.facts["worker"]] = event.who
            case "leased":
                self._leases[event.facts["worker"]] = Lease(event.facts["until"], event.at)
            case "dismissed":
                self._leases.pop(event.facts["worker"], None)
            case "stopped":
                self._stopped_until[event.who] = event.facts["until"]
            case "jumped" | "set right":
                self._jumped_at = event.at

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
        if max(stopped, self._jumped_at) < lease.renewed_at:
            return "it was neither stopped nor did the clock jump since it renewed its lease"
        return None
