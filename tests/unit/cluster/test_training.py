"""How far training elsewhere is, told here; training itself is in tests/end_to_end."""

from __future__ import annotations

from pathlib import Path

import pytest

from quoth.cluster import training


def test_what_is_told_there_is_told_here_to_the_last_step(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = [100.0]
    monkeypatch.setattr(training.time, "monotonic", lambda: now[0])
    told: list[tuple[str, int, int]] = []
    path = tmp_path / "progress.json"
    telling = training._Telling(path)
    telling("warm-up", 1, 40)
    telling("warm-up", 2, 40)  # too soon to be written
    assert path.read_text() == '["warm-up", 1, 40]'
    now[0] += training._TELLING_SECONDS
    telling("warm-up", 3, 40)
    assert path.read_text() == '["warm-up", 3, 40]'
    with training._following(path, lambda *found: told.append(found)):
        telling("warm-up", 40, 40)
    assert told[-1] == ("warm-up", 40, 40)


def test_where_nothing_is_told_nothing_is_said(tmp_path: Path) -> None:
    told: list[object] = []
    with training._following(tmp_path / "nothing.json", lambda *found: told.append(found)):
        pass
    assert told == []
