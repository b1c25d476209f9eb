"""What a fork means for tq: the parent's connections are closed before it, and a child renews locks and connections."""

from __future__ import annotations

import contextlib
import os
import weakref
from collections.abc import Callable
from functools import cache
from typing import Protocol


class Forkable(Protocol):
    def after_fork(self) -> None:
        """Called in a forked child, before any of its code runs; again, if it was interrupted."""


class Quiet(Forkable, Protocol):
    def before_fork(self) -> None:
        """Called in the thread that forks: let go of what no child may inherit."""

    def after_fork_in_parent(self) -> None:
        """Called in the parent, once the child is there."""


_TIMES = 3
_TRIES = 100

_renewed: weakref.WeakSet[Forkable] = weakref.WeakSet()
_quieted: weakref.WeakSet[Quiet] = weakref.WeakSet()


def renew_in_child(thing: Forkable) -> None:
    _register()
    _renewed.add(thing)


def quieten_for_fork(thing: Quiet) -> None:
    """For what has to be put to rest before a fork, and renewed in the child."""
    renew_in_child(thing)
    _quieted.add(thing)


@cache
def _register() -> None:
    # A signal's handler, or a handler's timeout, may raise in the middle of a hook; Python ignores that, and goes on
    # with the next one. So each comes several times, and every step can be repeated.
    for _ in range(_TIMES):
        os.register_at_fork(before=_quieten, after_in_parent=_go_on, after_in_child=_renew)


def _quieten() -> None:
    # Two threads that fork at once must not wait for each other: always in the same order.
    for thing in sorted(_quieted, key=id):
        _surely(thing.before_fork)


def _go_on() -> None:
    for thing in list(_quieted):
        _surely(thing.after_fork_in_parent)


def _renew() -> None:
    for thing in list(_renewed):
        _surely(thing.after_fork)


def _surely(step: Callable[[], None]) -> None:
    """Do a step in full, however often it is interrupted: nobody would hear of it, but our threads would wait for ever,
    and a child would share our connections (reproduced)."""
    for _ in range(_TRIES):
        with contextlib.suppress(BaseException):
            step()
            return
