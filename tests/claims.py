"""Claimed tasks out of nothing, for tests of the parts that only look at a claim."""

from __future__ import annotations

from tq.models import ClaimedTask


def claimed(task_id: str, version: int = 1) -> ClaimedTask:
    return ClaimedTask(task_id, "noop", "null", version, 1, 0, 3, None, 0.0, 0, 0.0)
