"""What happened in each minute: counts, and durations in classes, so that a day of them stays small."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping

from tq.models import ClaimedTask, Transition
from tq.views import MinuteView

MINUTE = 60
KEPT_MINUTES = 24 * 60
_CLASSES = 4  # for each doubling: a percentile is exact to a tenth

Count = tuple[int, str, str]  # the minute since 1970, the type, and what is counted


class Tally:
    """What a worker has to tell, gathered until it is stored. A crash loses a few seconds of it, and nothing else."""

    def __init__(self) -> None:
        self._counts: Counter[Count] = Counter()

    def ended(self, task: ClaimedTask, transition: Transition, seconds: float, now: float) -> None:
        """An attempt has ended like this, after so many seconds in its handler."""
        if transition.status == "to-do":  # given back: nothing happened
            return
        minute, type_ = int(now // MINUTE), task.type
        what = "retried" if transition.completed_at is None else transition.status
        self._counts[minute, type_, what] += 1
        self._counts[minute, type_, f"run:{_class(seconds)}"] += 1
        self._counts[minute, type_, f"wait:{_class(task.claimed_at - task.ready_at)}"] += 1

    def taken(self) -> list[tuple[int, str, str, int]]:
        """All that was gathered; from here on it begins anew."""
        counts, self._counts = self._counts, Counter()
        return [(*key, count) for key, count in sorted(counts.items())]


def _class(seconds: float) -> int:
    milliseconds = seconds * 1000
    return max(0, round(_CLASSES * math.log2(milliseconds))) if milliseconds > 1 else 0


def minutes(rows: Iterable[tuple[int, str, str, int]]) -> list[MinuteView]:
    """The stored rows as people read them, the oldest minute first."""
    found: dict[tuple[int, str], dict[str, int]] = {}
    for minute, type_, what, count in rows:
        if type_:
            found.setdefault((minute, type_), {})[what] = count
    return [_minute(minute, type_, counts) for (minute, type_), counts in sorted(found.items())]


def _minute(minute: int, type_: str, counts: Mapping[str, int]) -> MinuteView:
    plain = {name: counts.get(name, 0) for name in ("added", "success", "failed", "cancelled", "retried")}
    spans = [_percentile(counts, kind, share) for kind in ("wait", "run") for share in (0.5, 0.95)]
    return MinuteView(minute * MINUTE, type_, *plain.values(), *spans)


def _percentile(counts: Mapping[str, int], kind: str, share: float) -> float | None:
    """Seconds; None where nothing ended."""
    classes = sorted((int(what.partition(":")[2]), count) for what, count in counts.items() if what.startswith(kind))
    rank = share * sum(count for _, count in classes)
    for class_, count in classes:
        rank -= count
        if rank <= 0:
            return float(2 ** (class_ / _CLASSES)) / 1000
    return None
