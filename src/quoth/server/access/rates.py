"""How often a key may ask: a bucket of tokens per key, filled at a steady rate.

A bucket holds as many tokens as a minute brings, and every request takes one: so many requests may
come at once, and after that one as often as a token does.
"""

from __future__ import annotations

import threading
from dataclasses import dataclass

_ALMOST = 1e-6  # a token that rounding left incomplete is a token


@dataclass(frozen=True, slots=True)
class Bucket:
    """The tokens that were there at some time, in seconds of any clock that never goes back."""

    tokens: float
    at: float


@dataclass(frozen=True, slots=True)
class Taken:
    """A bucket after a request, and how long that request has to wait (0.0: not at all)."""

    bucket: Bucket
    wait: float


def take(bucket: Bucket, *, per_minute: int, now: float) -> Taken:
    """Take a token, or say in how many seconds there will be one.

    >>> take(Bucket(1.0, at=0.0), per_minute=60, now=0.0)
    Taken(bucket=Bucket(tokens=0.0, at=0.0), wait=0.0)
    >>> take(Bucket(0.0, at=0.0), per_minute=60, now=0.25)
    Taken(bucket=Bucket(tokens=0.25, at=0.25), wait=0.75)
    >>> take(Bucket(0.0, at=0.0), per_minute=60, now=600.0).bucket.tokens
    59.0
    """
    per_second = per_minute / 60.0
    at = max(now, bucket.at)
    tokens = min(float(per_minute), bucket.tokens + (at - bucket.at) * per_second)
    if tokens + _ALMOST >= 1.0:
        return Taken(Bucket(max(0.0, tokens - 1.0), at), 0.0)
    return Taken(Bucket(tokens, at), (1.0 - tokens) / per_second)


class RateLimiter:
    """The buckets of all keys, by their names; any thread may use it."""

    def __init__(self) -> None:
        self._bucket_by_name: dict[str, Bucket] = {}
        self._lock = threading.Lock()

    def admit(self, name: str, per_minute: int, now: float) -> float:
        """Let a request pass (0.0), or say how many seconds it has to wait; 0 a minute: no limit.

        A request that has to wait takes nothing: asking too often does not put off the next token.
        """
        if per_minute <= 0:
            return 0.0
        with self._lock:
            bucket = self._bucket_by_name.get(name) or Bucket(float(per_minute), now)
            taken = take(bucket, per_minute=per_minute, now=now)
            self._bucket_by_name[name] = taken.bucket
        return taken.wait
