"""What must hold while operators cancel, retry and delete: they change what they may, all that they should, no more."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from tests.simulation.history import Event, Row

_STOPPING_SECONDS = 5.0  # within which a running task that was cancelled has ended
_SETTLING_SECONDS = 3.0  # how long any trouble has its effects

Check = Callable[[bool, str, str | None, str], None]


class Asked(NamedTuple):
    """A request that a running task should stop."""

    at: float
    worker: str | None


class Meddling:
    def __init__(self, check: Check, rows: dict[str, Row], ended_workers: set[str]) -> None:
        self._check = check
        self._rows = rows
        self._ended_workers = ended_workers
        self._asked: dict[str, Asked] = {}
        self._trouble_until = 0.0
        self._changed: dict[str, set[str]] = {}  # by operator, since its last call began

    def hear(self, event: Event) -> None:
        match event.what:
            case "stopped" | "failing":
                self._trouble_until = max(self._trouble_until, event.facts["until"] + _SETTLING_SECONDS)
            case "failed" | "jumped" | "set right" | "killed":
                self._trouble_until = max(self._trouble_until, event.at + _SETTLING_SECONDS)
            case "meddling":
                self._changed[event.who] = set()
            case "meddled":
                self._check_answer(event)

    @staticmethod
    def did(event: Event) -> bool:
        return event.who.startswith("meddler")

    # --- what an operator changes --------------------------------------------------------------------------------

    def check_change(self, event: Event, task: str, old: Row, new: Row) -> None:
        self._changed.setdefault(event.who, set()).add(task)
        if new.version == old.version:
            self._check_request(event, task, old, new)
            return
        self._check(new.version == old.version + 1, "every change is a new version", task, "")
        if new.status == "cancelled":
            self._check_cancelled(task, old, new)
        else:
            self._check_retried(task, old, new)

    def _check_request(self, event: Event, task: str, old: Row, new: Row) -> None:
        asks = old.running and old.cancelled_by is None and new.cancelled_by is not None
        self._check(asks, "only what runs is asked to stop, and once", task, "")
        same = new == old._replace(cancelled_by=new.cancelled_by)
        self._check(same, "a request to stop changes nothing else", task, "")
        self._asked[task] = Asked(event.at, old.worker_id)

    def _check_cancelled(self, task: str, old: Row, new: Row) -> None:
        self._check(not old.ended, "what has ended does not change", task, "")
        self._check(not old.running, "what runs stays its worker's until it has ended", task, "")
        whole = new.ended and new.run_after is None and new.cancelled_by is not None
        self._check(whole, "what is cancelled has ended, and says by whom", task, "")
        self._check(new.attempts == old.attempts, "to be cancelled costs no attempt", task, "")

    def _check_retried(self, task: str, old: Row, new: Row) -> None:
        self._check(new.ready and not new.ended, "what is retried is ready", task, "")
        self._check(new.cancelled_by is None, "what is retried is not cancelled any more", task, "")
        if old.ended:
            again = old.status in ("failed", "cancelled")
            self._check(again, "only what has failed or was cancelled runs again", task, old.status)
            self._check(new.attempts == new.crashes == 0, "a retry has all attempts before it", task, "")
        else:
            self._check(old.run_after is not None, "only what waits for its time can be hastened", task, old.status)
            kept = (new.attempts, new.crashes) == (old.attempts, old.crashes)
            self._check(kept, "to be hastened gives no attempts back", task, "")

    def check_deleted(self, event: Event, task: str, old: Row) -> None:
        self._check(self.did(event), "an accepted task is never deleted but by an operator", task, "")
        self._check(old.ended, "only what has ended is deleted", task, old.status)
        self._changed.setdefault(event.who, set()).add(task)

    def _check_answer(self, event: Event) -> None:
        changed = self._changed[event.who]
        told = sorted(changed) == sorted(event.facts["changed"])
        self._check(told, "operators are told what they have changed", None, f"{event.facts} but {sorted(changed)}")
        for task in event.facts["ids"] if event.facts["verb"] == "cancel" else ():
            row = self._rows.get(task)
            reached = row is None or row.ended or row.cancelled_by is not None
            self._check(reached, "a cancellation reaches all that has not ended", task, "")

    # --- what others change --------------------------------------------------------------------------------------

    def check_others(self, event: Event, task: str, old: Row, new: Row) -> None:
        self._check(not old.ended, "what has ended does not change", task, "")
        self._check(new.version == old.version + 1, "every change is a new version", task, "")
        self._check(new.cancelled_by == old.cancelled_by, "only operators cancel", task, "")
        if old.cancelled_by is not None:
            self._check(old.running and new.ended, "what is to be cancelled does not come again", task, new.status)
            self._check_in_time(event, task)
            self._asked.pop(task, None)

    def check_start(self, event: Event, task: str) -> None:
        self._check_in_time(event, task)

    def _check_in_time(self, event: Event, task: str) -> None:
        """Who lives, and is in no trouble, stops soon what it is asked to stop."""
        asked = self._asked.get(task)
        if asked is not None and asked.worker not in self._ended_workers:
            seconds = event.at - max(asked.at, self._trouble_until)
            self._check(seconds <= _STOPPING_SECONDS, "what is to be cancelled stops soon", task, f"{seconds:.1f} s")
