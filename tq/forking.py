"""What must be renewed in a forked child: locks that another thread of the parent may have held, and connections."""

from __future__ import annotations

import os
import weakref
from functools import cache
from typing import Protocol


class Forkable(Protocol):
    def after_fork(self) -> None:
        """Called in a forked child, before any of its code runs."""


_known: weakref.WeakSet[Forkable] = weakref.WeakSet()


def renew_in_child(thing: Forkable) -> None:
    _register()
    _known.add(thing)


@cache
def _register() -> None:
    os.register_at_fork(after_in_child=_renew)


def _renew() -> None:
    for thing in list(_known):
        thing.after_fork()
