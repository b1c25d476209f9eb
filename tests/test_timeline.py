"""The story of a task: what its own row and its history tell, in the order of time."""

from __future__ import annotations

from tests.test_explain import NOW, task
from tq.timeline import timeline
from tq.views import Attempt, Event


def test_a_clean_success_is_told_by_the_row_alone():
    done = task(
        status="success", created_at=NOW, last_attempt_at=NOW + 1, completed_at=NOW + 3, attempts=1, worker_id="w1"
    )
    assert timeline(done, []) == [
        Event(NOW, "added"),
        Event(NOW + 1, "started", "w1", 1),
        Event(NOW + 3, "succeeded", "w1", 1, 2.0),
    ]


def test_failures_and_what_people_did_stand_between():
    history = [
        Attempt(1, "retry", "ValueError: no", NOW + 1, NOW + 2, "w1"),
        Attempt(2, "failed", "ValueError: never", NOW + 12, NOW + 13, "w2"),
        Attempt(0, "retried", None, None, NOW + 50, "ada"),
    ]
    again = task(status="in-progress", created_at=NOW, last_attempt_at=NOW + 51, attempts=1, worker_id="w1")
    told = [(event.at - NOW, event.what, event.by, event.error) for event in timeline(again, history)]
    assert told == [
        (0, "added", None, None),
        (1, "started", "w1", None),
        (2, "failed, to be tried again", "w1", "ValueError: no"),
        (12, "started", "w2", None),
        (13, "failed for good", "w2", "ValueError: never"),
        (50, "retried", "ada", None),
        (51, "started", "w1", None),
    ]


def test_what_is_to_come_is_told_too():
    waiting = task(status="failed", created_at=NOW, run_after=NOW + 10, attempts=1)
    assert timeline(waiting, [])[-1] == Event(NOW + 10, "due")


def test_a_request_to_stop_is_told_while_it_runs():
    running = task(status="in-progress", last_attempt_at=NOW, updated_at=NOW, attempts=1, cancelled_by="ada")
    assert [(event.what, event.by) for event in timeline(running, [])][-1] == ("asked to stop", "ada")
