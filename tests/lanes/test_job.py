"""A job is struck at most once, and what a struck handler answers does not count."""

from __future__ import annotations

from typing import Any

import pytest

from tests.lanes.lane_rooms import Room
from tq.lanes.job import Basket, Job
from tq.models import Retry, Succeeded, TaskType


@pytest.fixture
def job() -> Job:
    return Room().job(print)


def delivered_to(told: list[str]) -> Any:
    return lambda: told.append("delivered")


def test_a_running_job_is_struck_once(job: Job):
    told: list[str] = []
    job.begun_at = 1.0
    job.strike("timed out", 5.0, delivered_to(told))
    job.strike("again", 6.0, delivered_to(told))
    assert told == ["delivered"]
    assert (job.struck, job.struck_at, job.struck_why) == (True, 5.0, "timed out")


def test_a_job_is_not_struck_before_it_runs_nor_after(job: Job):
    told: list[str] = []
    job.strike("too early", 5.0, delivered_to(told))
    job.begun_at = 1.0
    job.end()
    job.strike("too late", 6.0, delivered_to(told))
    assert (told, job.struck, job.running) == ([], False, False)


def test_an_outcome_counts_unless_its_time_was_up(job: Job):
    assert job.verdict(Succeeded("1")) == Succeeded("1")
    assert job.verdict(None) == Retry("the handler was interrupted")
    job.begun_at = 1.0
    job.strike("timed out after 5 s", 5.0, lambda: None)
    assert job.verdict(Succeeded("1")) == Retry("timed out after 5 s")
    assert job.verdict(Retry("x", 3.0, "a traceback")) == Retry("timed out after 5 s", None, "a traceback")
    assert job.verdict(None) == Retry("timed out after 5 s")


@pytest.mark.parametrize(("own", "types", "holds"), [(1.0, 2.0, 1.0), (None, 2.0, 2.0), (None, None, 300.0)])
def test_the_nearest_timeout_holds(job: Job, own: float | None, types: float | None, holds: float):
    task = job.task._replace(timeout=own)
    assert Job(task, TaskType("email", timeout=types), 0.0, 300.0).timeout == holds


def test_a_basket_rings_for_one_who_waits_when_it_is_full_or_the_lane_is_done(job: Job):
    rung: list[int] = []
    basket = Basket(enough=3)
    basket.ring = lambda: rung.append(len(basket))
    basket.put(job, Succeeded("1"), last=True)
    assert rung == []  # nobody waits
    basket.awaited = True
    basket.put(job, Succeeded("2"), last=False)
    assert rung == []  # the lane has more
    basket.put(job, Succeeded("3"), last=False)
    assert rung == [3]  # enough
    basket.put(job, Succeeded("4"), last=True)
    assert rung == [3]  # it has been rung for
    assert [outcome for _, outcome in basket.empty()] == [Succeeded(str(number)) for number in (1, 2, 3, 4)]
    assert len(basket) == 0 and basket.empty() == []
