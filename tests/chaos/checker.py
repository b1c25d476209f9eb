"""The one checker: holds a history and the database against what tq promises, whatever was killed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from itertools import pairwise

from tests.chaos.databases import Database, is_sound, rows
from tests.chaos.history import Event, History


def in_progress(database: Database) -> int:
    return rows(database, "SELECT count(*) FROM tasks WHERE status = 'in-progress'")[0][0]


def unfinished(database: Database) -> int:
    return rows(database, "SELECT count(*) FROM tasks WHERE completed_at IS NULL")[0][0]


def check(database: Database, history: History, kills: Mapping[int, float]) -> None:
    """Everything that must hold once the dust has settled. `kills` says when a process was killed, by pid."""
    events = history.events()
    accepted = [event.task for event in events if event.what == "accepted"]
    _nothing_is_lost(database, accepted)
    _nothing_is_counted_twice(database)
    _no_attempt_starts_twice(events)
    _no_attempts_overlap(events, kills)
    _attempts_agree(database, events)
    assert is_sound(database)


def _nothing_is_lost(database: Database, accepted: Iterable[str]) -> None:
    ended = {row[0] for row in rows(database, "SELECT id FROM tasks WHERE completed_at IS NOT NULL")}
    lost = set(accepted) - ended
    assert not lost, f"{len(lost)} accepted tasks have not ended, such as {sorted(lost)[:3]}"
    assert unfinished(database) == 0


def _nothing_is_counted_twice(database: Database) -> None:
    counted = rows(database, "SELECT type, status, count FROM finished_counts WHERE count != 0 ")
    there = rows(database, "SELECT type, status, count(*) FROM tasks WHERE completed_at IS NOT NULL GROUP BY 1, 2")
    assert sorted(counted) == sorted(there), "a task was completed twice, or not counted"


def _no_attempt_starts_twice(events: Iterable[Event]) -> None:
    starts = Counter((event.task, event.attempt) for event in events if event.what == "start")
    twice = [attempt for attempt, count in starts.items() if count > 1]
    assert not twice, f"attempts that started more than once: {twice[:3]}"


def _no_attempts_overlap(events: Iterable[Event], kills: Mapping[int, float]) -> None:
    ends = {(event.pid, event.task, event.attempt): event.at for event in events if event.what == "end"}
    attempts: dict[str, list[tuple[float, float, int]]] = {}
    for event in events:
        if event.what == "start":
            end = ends.get((event.pid, event.task, event.attempt))
            if end is None:  # a killed attempt ends at its kill
                assert event.pid in kills, f"{event} never ended, and nobody killed its process"
                end = max(event.at, kills[event.pid])
            attempts.setdefault(event.task, []).append((event.at, end, event.attempt))
    for task, spans in attempts.items():
        for (_, end, attempt), (start, _, later) in pairwise(sorted(spans)):
            assert end <= start, f"attempts {attempt} and {later} of {task} overlap by {end - start:.6f} s"
            assert attempt < later, f"attempt {later} of {task} began before attempt {attempt}"


def _attempts_agree(database: Database, events: Iterable[Event]) -> None:
    """Each start was counted. (A process may die between the counting of an attempt and the handler's first line.)"""
    started = Counter(event.task for event in events if event.what == "start")
    for task, attempts, allowed, status in rows(
        database, "SELECT id, attempts, attempts_allowed, status FROM tasks WHERE attempts_allowed IS NOT NULL"
    ):
        assert started[task] <= attempts <= allowed, f"{task}: {started[task]} starts, {attempts} attempts"
        assert status != "success" or started[task], f"{task} succeeded without a start"
