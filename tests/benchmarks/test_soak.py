"""The soak in small: both sides work at the same time, and nothing acknowledged is lost."""

from __future__ import annotations

from pathlib import Path

from benchmarks.soak.soak import BATCH, Times, growth, soak


def test_a_short_soak_is_exact_and_clean(tmp_path: Path) -> None:
    found = soak(tmp_path / "c.quoth", Times(2.0, 2), documents=30)
    assert found["exact"] and found["clean"]
    assert set(found["growth"]) == {"writer", "searcher", "latency", "disk"}


def test_a_rate_is_kept(tmp_path: Path) -> None:
    times = Times(4.0, 2)
    found = soak(tmp_path / "c.quoth", times, documents=30, rates=(0.5, 2.0))
    assert found["exact"] and found["clean"]
    assert found["searches"] <= 9 and found["changes"] <= 3 * BATCH


def test_growth_is_told() -> None:
    assert growth([100.0] * 8) == 0.0
    assert growth([100.0] * 4 + [150.0] * 4) == 0.5
