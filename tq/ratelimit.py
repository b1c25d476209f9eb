"""The token bucket: `rate` tokens flow in each second, a task takes one. Pure arithmetic; the store keeps it."""

from __future__ import annotations

from typing import NamedTuple

_ROUNDING = 1e-6  # Unix seconds are no finer than this: ten tenths of a token must give one whole token
_OUT_OF_ORDER_SECONDS = 30.0  # a worker reads the clock first and may then wait this long for the database


class Bucket(NamedTuple):
    tokens: float
    filled_at: float


def full(rate: float, now: float) -> Bucket:
    return Bucket(capacity(rate), now)


def capacity(rate: float) -> float:
    """A bucket holds a second's worth, and one token at least, so that slow rates can run anything at all."""
    return max(1.0, rate)


def refill(bucket: Bucket, rate: float, now: float) -> Bucket:
    """What has flowed in since. A moment out of order brings nothing: its seconds have been counted already. One that
    lies far back means that the clock was set: it brings nothing either, but time is counted from there."""
    elapsed = now - bucket.filled_at
    tokens = min(capacity(rate), bucket.tokens + max(0.0, elapsed) * rate)
    return Bucket(tokens, bucket.filled_at if -_OUT_OF_ORDER_SECONDS <= elapsed < 0 else now)


def available(bucket: Bucket) -> int:
    return int(bucket.tokens + _ROUNDING)


def take(bucket: Bucket, count: int) -> Bucket:
    """What is left. It may be a hair below zero: what rounding gave is taken back."""
    return Bucket(bucket.tokens - count, bucket.filled_at)


def next_token_at(bucket: Bucket, rate: float) -> float:
    return bucket.filled_at + max(0.0, 1.0 - bucket.tokens) / rate
