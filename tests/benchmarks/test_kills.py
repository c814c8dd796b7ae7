"""What the kills count is what was acknowledged, and what is not there any more."""

from __future__ import annotations

from pathlib import Path

from benchmarks.reliability.kills import Looked, apply, look

from quoth.engine.engine import Engine
from quoth.records import Document


def _store(folder: Path, **texts: str) -> None:
    with Engine.open(folder) as engine:
        engine.add_documents(Document(docid, {"text": (text,)}) for docid, text in texts.items())


def test_what_is_there_is_no_difference_and_what_is_missing_is_one(tmp_path: Path) -> None:
    folder = tmp_path / "c.quoth"
    _store(folder, a="owl", b="barn")
    assert look(folder, {"a": "owl", "b": "barn"}, {}, deep=True) == Looked(False, 0, True)
    assert look(folder, {"a": "owl"}, {"b": "barn"}, deep=False) == Looked(True, 0, True)
    lost = look(folder, {"a": "owl", "b": "barn", "c": "night"}, {}, deep=False)
    assert lost.differing == 1


def test_batches_are_applied_in_order() -> None:
    expected: dict[str, str] = {}
    apply(expected, {"a": "1", "b": "2"})
    apply(expected, {"a": None, "b": "3"})
    assert expected == {"b": "3"}
