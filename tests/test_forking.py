"""Forks: what is registered comes to rest before one and is renewed in the child; what is gone is forgotten."""

from __future__ import annotations

import gc
import weakref

from tests.processes import in_child
from tq.forking import quieten_for_fork, renew_in_child


class Thing:
    def __init__(self) -> None:
        self.told: list[str] = []

    def before_fork(self) -> None:
        self.told.append("before")

    def after_fork_in_parent(self) -> None:
        self.told.append("parent")

    def after_fork(self) -> None:
        self.told.append("child")


def test_a_thing_is_renewed_in_the_child_alone():
    thing = Thing()
    renew_in_child(thing)
    assert in_child(lambda: thing.told) == ["child"]
    assert thing.told == []


def test_a_thing_that_rests_is_told_before_and_after():
    thing = Thing()
    quieten_for_fork(thing)
    assert in_child(lambda: thing.told) == ["before", "child"]
    assert thing.told == ["before", "parent"]


def test_a_grandchild_is_told_too():
    thing = Thing()
    renew_in_child(thing)
    assert in_child(lambda: in_child(lambda: thing.told)) == ["child", "child"]


def test_registering_twice_is_registering_once():
    thing = Thing()
    renew_in_child(thing)
    renew_in_child(thing)
    assert in_child(lambda: thing.told) == ["child"]


def test_a_thing_is_not_kept_alive():
    thing = Thing()
    renew_in_child(thing)
    quieten_for_fork(thing)
    gone = weakref.ref(thing)
    del thing
    gc.collect()
    assert gone() is None
    assert in_child(lambda: True)
