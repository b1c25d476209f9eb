"""Why a task is not running: each reason has its sentence, and the first one in the way is told."""

from __future__ import annotations

from typing import Any

import pytest

from tq.explain import explain
from tq.models import StoredSettings, Task, WorkerRecord
from tq.ratelimit import Bucket
from tq.views import RunningTask, Situation, WorkerView

NOW = 1_700_000_000.0
SETTINGS = {"worker_count": 1, "global_limit": None, "rate_limit": None, "timeout": None, "max_attempts": 3}


def task(**columns: Any) -> Task:
    row: dict[str, Any] = dict.fromkeys(Task.__dataclass_fields__)
    defaults = {"id": "t", "type": "email", "status": "to-do", "attempts": 0, "created_at": NOW - 5, "priority": 0}
    return Task(**{**row, **defaults, **columns})


def worker(number: int = 1, alive: bool = True, types: tuple[str, ...] = ("email",), **more: Any) -> WorkerView:
    settings = {**SETTINGS, **more.pop("settings", {})}
    running = tuple(RunningTask(f"r{n}", "email", NOW - 3, 1) for n in range(more.pop("running", 0)))
    record = WorkerRecord(f"w{number}", "mars", number, "", NOW - 100)
    return WorkerView(record, alive, dict.fromkeys(types, settings), 0, running)


def told(**parts: Any) -> tuple[str, str]:
    defaults = {
        "now": NOW,
        "task": task(),
        "settings": StoredSettings(),
        "workers": (worker(),),
        "bucket": None,
        "before": 0,
        "before_capped": False,
    }
    explanation = explain(Situation(**{**defaults, **parts}))
    return explanation.reason, explanation.sentence


RUNNING = {"status": "in-progress", "worker_id": "w1", "attempts": 2, "last_attempt_at": NOW - 90}


@pytest.mark.parametrize(
    ("parts", "reason", "sentence"),
    [
        ({"task": task(status="success", completed_at=NOW, attempts=2)}, "success", "It succeeded, in attempt 2."),
        (
            {"task": task(status="failed", completed_at=NOW, attempts=3, error="ValueError: no")},
            "dead",
            "It has failed for good, after 3 attempts: ValueError: no",
        ),
        (
            {"task": task(status="cancelled", completed_at=NOW, cancelled_by="ada")},
            "cancelled",
            "It was cancelled by ada.",
        ),
        ({"task": task(**RUNNING)}, "running", "It runs, in process 1 on mars, attempt 2, for 90 s now."),
        (
            {"task": task(**RUNNING, cancelled_by="ada")},
            "cancelling",
            "ada has cancelled it; its worker, process 1 on mars, is stopping it.",
        ),
        (
            {"task": task(**RUNNING), "workers": (worker(alive=False), worker(2))},
            "recovering",
            "Its worker, process 1 on mars, shows no sign of life. Another one is about to take it over.",
        ),
        (
            {"task": task(**RUNNING), "workers": ()},
            "worker-dead",
            "Its worker, a worker that has gone, shows no sign of life. Nobody is there to take it over.",
        ),
        (
            {"task": task(run_after=NOW + 7300)},
            "scheduled",
            "It is scheduled for 2023-11-15 00:15:00 UTC, in 2 h 1 min.",
        ),
        (
            {"task": task(status="failed", run_after=NOW + 10, attempts=1, error="ValueError: no")},
            "retrying",
            "Attempt 1 failed (ValueError: no); the next one is due at 2023-11-14 22:13:30 UTC, in 10 s.",
        ),
        ({"settings": StoredSettings(frozenset({""}))}, "paused", "The whole queue is paused."),
        ({"settings": StoredSettings(frozenset({"email"}))}, "paused", "Tasks of type email are paused."),
        ({"workers": (worker(alive=False),)}, "no-worker", "No worker is running."),
        (
            {"workers": (worker(types=("sms", "fax")),)},
            "no-handler",
            "No worker has a handler for email. The worker that runs works on fax, sms.",
        ),
        (
            {"workers": (worker(settings={"global_limit": 2, "worker_count": 5}, running=2),)},
            "global-limit",
            "No more than 2 may run at once over all workers, and r0, r1 do.",
        ),
        (
            {"workers": (worker(settings={"rate_limit": 0.5}),), "bucket": Bucket(0.0, NOW), "before": 1},
            "rate-limit",
            "The rate limit of 0.5 a second is used up; its turn comes at 2023-11-14 22:13:24 UTC; 1 goes first.",
        ),
        (
            {"workers": (worker(running=1),), "before": 3},
            "busy",
            "The only place for tasks of this type is taken, by r0; 3 go first.",
        ),
        (
            {"workers": (worker(settings={"worker_count": 5}, running=5),), "before": 1000, "before_capped": True},
            "busy",
            "All 5 places for tasks of this type are taken, by r0, r1, r2 and 2 more; more than 1,000 go first.",
        ),
        ({"before": 2}, "queued", "It waits for its turn; 2 go first."),
        ({}, "ready", "Nothing holds it back: a worker takes it in a moment."),
        (
            {"task": task(created_at=NOW - 7200)},
            "ready",
            "Nothing holds it back, and yet it has waited for 2 h 0 min.",
        ),
        ({"task": task(run_after=NOW - 1)}, "ready", "Nothing holds it back: a worker takes it in a moment."),
    ],
)
def test_each_reason_has_its_sentence(parts: dict[str, Any], reason: str, sentence: str):
    assert told(**parts) == (reason, sentence)


def test_a_stored_setting_wins_over_what_a_program_says():
    stored = StoredSettings(types={"email": {"worker_count": 2}})
    assert told(workers=(worker(running=1),), settings=stored)[0] == "ready"
    stored = StoredSettings(types={"email": {"rate_limit": None}})
    limited = worker(settings={"rate_limit": 0.5})
    assert told(workers=(limited,), settings=stored, bucket=Bucket(0.0, NOW))[0] == "ready"


def test_tokens_that_are_there_are_counted():
    limited = worker(settings={"rate_limit": 5.0, "worker_count": 9})
    assert told(workers=(limited,), bucket=Bucket(4.0, NOW), before=3)[0] == "queued"
    assert told(workers=(limited,), bucket=Bucket(4.0, NOW), before=4)[0] == "rate-limit"


def test_tasks_of_a_dead_worker_take_no_place():
    assert told(workers=(worker(alive=False, running=2), worker(2)))[0] == "ready"


def test_the_whole_queue_is_named_before_its_type():
    assert told(settings=StoredSettings(frozenset({"", "email"})))[1] == "The whole queue is paused."


def test_what_ends_by_itself_says_when():
    assert explain(Situation(NOW, task(run_after=NOW + 60), StoredSettings(), (), None, 0, False)).until == NOW + 60
