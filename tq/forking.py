"""Forks: what must come to rest before one, and what must be renewed in the child, such as locks and connections."""

from __future__ import annotations

import os
import weakref
from functools import cache
from typing import Protocol


class Forkable(Protocol):
    def after_fork(self) -> None:
        """Called in a forked child, before any of its code runs."""


class Restless(Protocol):
    """Something that no fork may catch in the middle of its work."""

    def before_fork(self) -> None:
        """Called in the parent, by the thread that forks: come to rest."""

    def after_fork_in_parent(self) -> None:
        """Called in the parent: go on."""


_known: weakref.WeakSet[Forkable] = weakref.WeakSet()
_restless: weakref.WeakSet[Restless] = weakref.WeakSet()


def renew_in_child(thing: Forkable) -> None:
    _register()
    _known.add(thing)


def rest_during_forks(thing: Restless) -> None:
    _register()
    _restless.add(thing)


@cache
def _register() -> None:
    os.register_at_fork(before=_rest, after_in_parent=_go_on, after_in_child=_renew)


def _rest() -> None:
    for thing in list(_restless):
        thing.before_fork()


def _go_on() -> None:
    for thing in list(_restless):
        thing.after_fork_in_parent()


def _renew() -> None:
    for thing in list(_known):
        thing.after_fork()
