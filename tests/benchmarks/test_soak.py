"""The soak in small: both sides work at the same time, and nothing acknowledged is lost."""

from __future__ import annotations

from pathlib import Path

from benchmarks.soak.soak import growth, soak


def test_a_short_soak_is_exact_and_clean(tmp_path: Path) -> None:
    found = soak(tmp_path / "c.quoth", seconds=2.0, intervals=2, documents=30)
    assert found["exact"] and found["clean"]
    assert set(found["growth"]) == {"writer", "searcher"}


def test_growth_is_told() -> None:
    assert growth([100.0] * 8) == 0.0
    assert growth([100.0] * 4 + [150.0] * 4) == 0.5
