"""Ids: strictly increasing, true to the clock, and valid UUIDs of version 7."""

from __future__ import annotations

import threading
import time
import uuid

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.processes import in_child
from tq.ids import IdFactory, is_id


def milliseconds(text: str) -> int:
    return uuid.UUID(text).int >> 80


def test_a_million_ids_increase_strictly_and_do_not_drift():
    new = IdFactory().new
    began = time.time_ns() // 1_000_000
    previous = ""
    for _ in range(1_000_000):
        made = new()
        assert made > previous
        previous = made
    assert began <= milliseconds(previous) <= time.time_ns() // 1_000_000 + 5


def test_an_id_is_a_uuid_of_version_7():
    text = IdFactory(lambda: 1_700_000_000_123_456_789, lambda bits: 2**bits - 1).new()
    parsed = uuid.UUID(text)
    assert str(parsed) == text
    assert (parsed.version, parsed.variant) == (7, uuid.RFC_4122)
    assert milliseconds(text) == 1_700_000_000_123


@given(st.integers(0, 2**48 * 1_000_000 - 1), st.integers(0, 2**62 - 1))
def test_any_time_and_any_noise_make_a_valid_id(nanoseconds: int, noise: int):
    text = IdFactory(lambda: nanoseconds, lambda bits: noise).new()
    parsed = uuid.UUID(text)
    assert str(parsed) == text
    assert (parsed.version, parsed.variant) == (7, uuid.RFC_4122)
    assert abs(milliseconds(text) - nanoseconds // 1_000_000) <= 1
    assert parsed.int & (2**62 - 1) == noise


@given(st.lists(st.integers(-(10**12), 10**12), min_size=2, max_size=50))
def test_ids_increase_whatever_the_clock_does(steps: list[int]):
    moment = 1_700_000_000_000_000_000
    factory = IdFactory(lambda: moment)
    made = []
    for step in steps:
        moment += step
        made.append(factory.new())
    assert made == sorted(set(made))


def test_ids_increase_while_the_clock_stands_still_and_come_back_to_it():
    moment = 1_700_000_000_000_000_000
    factory = IdFactory(lambda: moment)
    made = [factory.new() for _ in range(10_000)]  # more than one millisecond holds
    assert made == sorted(set(made))
    assert milliseconds(made[-1]) - milliseconds(made[0]) <= 3
    moment += 10_000_000
    assert milliseconds(factory.new()) == 1_700_000_000_010


def test_threads_never_make_the_same_id():
    factory = IdFactory(lambda: 1_700_000_000_000_000_000, lambda bits: 0)  # time alone tells them apart
    made: list[list[str]] = [[], []]

    def work(mine: list[str]) -> None:
        for _ in range(20_000):
            mine.append(factory.new())

    threads = [threading.Thread(target=work, args=(mine,)) for mine in made]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert all(mine == sorted(mine) for mine in made)
    assert len({*made[0], *made[1]}) == 40_000


def test_a_forked_child_makes_ids_of_its_own():
    factory = IdFactory()
    factory.new()
    theirs = in_child(lambda: [factory.new() for _ in range(1000)])
    assert not {factory.new() for _ in range(1000)} & set(theirs)


def test_a_child_that_is_forked_while_a_thread_makes_ids_is_not_stuck():
    factory = IdFactory()
    factory._lock.acquire()  # as another thread may hold it in the moment of the fork
    try:
        assert is_id(in_child(factory.new))
    finally:
        factory._lock.release()


@pytest.mark.parametrize(
    ("text", "valid"),
    [
        ("018bcfe5-687b-7c9f-8fff-ffffffffffff", True),
        ("018BCFE5-687B-7C9F-8FFF-FFFFFFFFFFFF", True),
        ("018bcfe5687b7c9f8fffffffffffffff", False),
        ("018bcfe5-687b-7c9f-8fff-fffffffffff", False),
        ("018bcfe5-687b-7c9f-8fff-ffffffffffff\n", False),
        ("g18bcfe5-687b-7c9f-8fff-ffffffffffff", False),
        ("", False),
    ],
)
def test_an_id_is_told_from_other_text(text: str, valid: bool):
    assert is_id(text) is valid
