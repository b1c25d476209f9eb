"""The token bucket: `rate` tokens flow in each second, a task takes one. Pure arithmetic; the store keeps it."""

from __future__ import annotations

from typing import NamedTuple

_ROUNDING = 1e-9  # ten additions of 0.1 must give one whole token
_OUTRUN_SECONDS = 60.0  # from here on the clock was set back, and nobody merely waited for the write lock


class Bucket(NamedTuple):
    tokens: float
    filled_at: float


def full(rate: float, now: float) -> Bucket:
    return Bucket(capacity(rate), now)


def capacity(rate: float) -> float:
    """A bucket holds a second's worth, and one token at least, so that slow rates can run anything at all."""
    return max(1.0, rate)


def refill(bucket: Bucket, rate: float, now: float) -> Bucket:
    """What has flowed in since. A clock that went back brings nothing, and takes nothing."""
    if 0.0 < bucket.filled_at - now <= _OUTRUN_SECONDS:
        return bucket  # who read the clock later came first: that time has been counted
    elapsed = max(0.0, now - bucket.filled_at)
    return Bucket(min(capacity(rate), bucket.tokens + elapsed * rate), now)


def available(bucket: Bucket) -> int:
    return int(bucket.tokens + _ROUNDING)


def take(bucket: Bucket, count: int) -> Bucket:
    return Bucket(max(0.0, bucket.tokens - count), bucket.filled_at)


def next_token_at(bucket: Bucket, rate: float) -> float:
    return bucket.filled_at + max(0.0, 1.0 - bucket.tokens) / rate
