"""How often a key may ask: buckets of tokens, by given times."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import pytest

from quoth.server.access.rates import RateLimiter


def test_a_minute_brings_as_many_requests_as_the_limit_says() -> None:
    limiter = RateLimiter()
    assert [limiter.admit("a", 6, 100.0) for _ in range(6)] == [0.0] * 6
    assert limiter.admit("a", 6, 100.0) == pytest.approx(10.0)
    assert limiter.admit("a", 6, 104.0) == pytest.approx(6.0)  # refusals cost nothing
    assert limiter.admit("a", 6, 110.0) == 0.0
    assert limiter.admit("a", 6, 110.0) == pytest.approx(10.0)
    assert [limiter.admit("a", 6, 1_000.0) for _ in range(7)] == [0.0] * 6 + [pytest.approx(10.0)]


def test_whoever_waits_as_told_is_let_in() -> None:
    limiter, now = RateLimiter(), 1e6
    for per_minute in (1, 7, 59, 60, 1_000):
        for _ in range(per_minute):
            limiter.admit(str(per_minute), per_minute, now)
        for _ in range(50):
            now += limiter.admit(str(per_minute), per_minute, now)
            assert limiter.admit(str(per_minute), per_minute, now) == 0.0


def test_limits_are_apart_and_0_is_none() -> None:
    limiter = RateLimiter()
    assert limiter.admit("a", 1, 0.0) == 0.0 and limiter.admit("a", 1, 0.0) > 0.0
    assert limiter.admit("b", 1, 0.0) == 0.0
    assert all(limiter.admit("a", 0, 0.0) == 0.0 for _ in range(10))


def test_a_clock_that_goes_back_gives_nothing_away() -> None:
    limiter = RateLimiter()
    assert limiter.admit("a", 1, 100.0) == 0.0
    assert limiter.admit("a", 1, 40.0) == pytest.approx(60.0)
    assert limiter.admit("a", 1, 159.0) == pytest.approx(1.0)


def test_many_threads_share_one_bucket() -> None:
    limiter = RateLimiter()
    with ThreadPoolExecutor(8) as pool:
        waits = list(pool.map(lambda _number: limiter.admit("a", 50, 0.0), range(200)))
    assert waits.count(0.0) == 50
