"""Forks: what is registered comes to rest before one and is renewed in the child; what is gone is forgotten."""

from __future__ import annotations

import gc
import os
import weakref

from tests.processes import in_child
from tq.forking import quieten_for_fork, renew_in_child


class Thing:
    """Hears everything several times, in case it is interrupted; what counts is when it hears what."""

    def __init__(self) -> None:
        self.told: list[str] = []

    def before_fork(self) -> None:
        self._hear("before")

    def after_fork_in_parent(self) -> None:
        self._hear("parent")

    def after_fork(self) -> None:
        self._hear(f"child {os.getpid()}")

    def _hear(self, what: str) -> None:
        if self.told[-1:] != [what]:
            self.told.append(what)


class Interrupted(Thing):
    """Is interrupted in the middle of each step, once."""

    def _hear(self, what: str) -> None:
        new = self.told[-1:] != [what]
        super()._hear(what)
        if new:
            raise KeyboardInterrupt
        self.told.append("done")


def test_a_thing_is_renewed_in_the_child_alone():
    thing = Thing()
    renew_in_child(thing)
    assert in_child(lambda: len(thing.told)) == 1
    assert thing.told == []


def test_a_thing_that_rests_is_told_before_and_after():
    thing = Thing()
    quieten_for_fork(thing)
    assert in_child(lambda: [told.split()[0] for told in thing.told]) == ["before", "child"]
    assert thing.told == ["before", "parent"]


def test_a_grandchild_is_told_too():
    thing = Thing()
    renew_in_child(thing)
    assert in_child(lambda: in_child(lambda: len(thing.told))) == 2


def test_registering_twice_is_registering_once():
    thing = Thing()
    renew_in_child(thing)
    renew_in_child(thing)
    assert in_child(lambda: len(thing.told)) == 1


def test_a_thing_is_not_kept_alive():
    thing = Thing()
    renew_in_child(thing)
    quieten_for_fork(thing)
    gone = weakref.ref(thing)
    del thing
    gc.collect()
    assert gone() is None
    assert in_child(lambda: True)


def test_a_step_that_is_interrupted_is_repeated():
    thing = Interrupted()
    quieten_for_fork(thing)
    assert in_child(lambda: thing.told[:2]) == ["before", "done"]
    assert in_child(lambda: thing.told[-1]) == "done"
    assert "parent" in thing.told and thing.told[-1] == "done"
