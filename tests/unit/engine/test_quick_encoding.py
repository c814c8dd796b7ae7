"""Vectors that come by themselves: for small collections, once, and where they can be made."""

from __future__ import annotations

import itertools
from typing import Any, cast

import pytest

from quoth.engine import quick_encoding
from quoth.engine.quick_encoding import (
    MOST_SECONDS,
    encode_if_quick,
    expected_seconds,
    remaining_seconds,
)
from quoth.search.hybrid.calibration import Calibration


class Collection:
    """Says what it holds, and counts how often it is encoded."""

    def __init__(self, documents: int, **indexes: object) -> None:
        self.documents = documents
        self.indexes = indexes
        self.encoded = 0

    def status(self) -> dict[str, Any]:
        return {
            "documents": self.documents,
            "passages": 2 * self.documents,
            "indexes": self.indexes,
        }

    def encode(self, *, seed: int = 0) -> Calibration:
        self.encoded += 1
        return cast(Calibration, None)


@pytest.fixture(autouse=True)
def able(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(quick_encoding, "can_encode", lambda: True)
    monkeypatch.setattr(quick_encoding, "passages_per_second", lambda: 56.0)


def test_a_small_collection_is_encoded_and_a_large_one_left_with_what_it_takes() -> None:
    small, large = Collection(100), Collection(10_000)
    assert encode_if_quick(small) is None and small.encoded == 1
    assert encode_if_quick(large) == expected_seconds(10_000, 20_000, rate=56) > MOST_SECONDS
    assert large.encoded == 0


def test_nothing_is_done_where_there_is_nothing_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    empty, encoded, unable = Collection(0), Collection(9, dense={}), Collection(9)
    assert encode_if_quick(empty) is encode_if_quick(encoded) is None
    unfinished = Collection(9, dense={"documents": 9, "vectors": 9, "unfinished": True})
    assert encode_if_quick(unfinished) is None and unfinished.encoded == 1
    monkeypatch.setattr(quick_encoding, "can_encode", lambda: False)
    assert encode_if_quick(unable) is None
    assert empty.encoded == encoded.encoded == unable.encoded == 0


def test_what_is_encoded_already_takes_no_time() -> None:
    status = {"documents": 1000, "passages": 1400, "indexes": {}}
    whole = remaining_seconds(status, rate=28)
    assert whole == expected_seconds(1000, 1400, rate=28)
    half = status | {"indexes": {"dense": {"documents": 500}}}
    assert remaining_seconds(half, rate=28) == pytest.approx(whole - 700 / 28)
    openings = {"documents": 1000, "vectors": 1000, "unfinished": True}
    left = remaining_seconds(status | {"indexes": {"dense": openings}}, rate=28)
    assert left == pytest.approx(whole - 1000 / 28)
    assert remaining_seconds({"documents": 0, "passages": 0, "indexes": {}}, rate=28) == 0.0


def test_a_slow_machine_expects_to_take_longer(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.undo()
    monkeypatch.setattr(quick_encoding.os, "cpu_count", lambda: 2)

    def rate(seconds: float) -> float:
        quick_encoding.passages_per_second.cache_clear()
        clock = itertools.count(0.0, seconds)
        monkeypatch.setattr(quick_encoding.time, "process_time", lambda: next(clock))
        try:
            return quick_encoding.passages_per_second()
        finally:
            quick_encoding.passages_per_second.cache_clear()

    gflop = 2e-9 * 512 * 384 * 1536
    assert rate(gflop / 35) == pytest.approx(2 * 0.2 * 35)
    assert rate(gflop / 70) == pytest.approx(2 * 0.2 * 70)
    assert rate(gflop / 1000) == 2 * 28
