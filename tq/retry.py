"""How long a failed task waits before it is tried again. Pure arithmetic."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass

from tq.errors import InvalidOption, shown

SIX_HOURS = 21_600.0


def is_number(value: object) -> bool:
    """Whether it is a finite number that a float can hold; True and False are none."""
    largest = sys.float_info.max
    return isinstance(value, (int, float)) and not isinstance(value, bool) and -largest <= value <= largest


@dataclass(frozen=True, slots=True)
class Backoff:
    """`base · factor^(attempts-1)`, at most `cap`, give or take `jitter` of itself.

    >>> Backoff(jitter=0).delay(attempts=3, uniform=lambda low, high: high)
    40.0
    """

    base: float = 10.0
    factor: float = 2.0
    cap: float = SIX_HOURS
    jitter: float = 0.2

    def __post_init__(self) -> None:
        for name in ("base", "factor", "cap", "jitter"):
            value = getattr(self, name)
            if not is_number(value) or value < 0:
                raise InvalidOption(f"set_backoff({name}={shown(value)}): give a finite number that is not negative")
        if self.jitter > 1:
            raise InvalidOption(f"set_backoff(jitter={self.jitter!r}): give a share from 0 (exact) to 1")

    def delay(self, attempts: int, uniform: Callable[[float, float], float]) -> float:
        try:
            seconds = self.base * float(self.factor) ** max(0, attempts - 1)
        except OverflowError:
            seconds = self.cap if self.base else 0.0
        return min(seconds, self.cap) * uniform(1 - self.jitter, 1 + self.jitter)
