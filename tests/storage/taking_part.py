"""Who takes part in a group commit just now."""

from __future__ import annotations

from typing import Any

from tq.storage.group_commit import Entry, GroupCommit


def taking_part(group: GroupCommit[Any]) -> set[Entry[Any]]:
    """Whoever has not left: the leader, those that go with it, and those that wait."""
    return {entry for entry in (group._leader, *group._batch, *group._waiting) if entry is not None}
