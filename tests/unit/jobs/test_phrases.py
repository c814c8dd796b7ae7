"""Phrase vocabularies on their own: built, interrupted, checked and described."""

from __future__ import annotations

import json
import random
from pathlib import Path

import pytest

from quoth.errors import CorpusError, Damaged, NoCollection
from quoth.jobs.phrases import (
    REPORT_FILE,
    build_phrases,
    check_phrases,
    describe_phrases,
    open_checked,
    read_texts,
)
from quoth.search.searcher import ignore_progress
from quoth.vocabulary.phrases.config import PhraseConfig

CONFIG = PhraseConfig(size=320)


@pytest.fixture
def lines(tmp_path: Path) -> Path:
    chance = random.Random(0)
    words = ("barn owl", "night", "raven", "two birds", "on the wing", "mouse", "hunts")
    path = tmp_path / "lines.txt"
    texts = (" ".join(chance.choices(words, k=4)) for _ in range(200))
    path.write_text("\n".join(texts) + "\n")
    return path


def test_an_interrupted_building_goes_on_to_the_same_vocabulary(
    lines: Path, tmp_path: Path
) -> None:
    direct, report = build_phrases(lines, CONFIG, out=tmp_path / "a", progress=ignore_progress)

    def stop(what: str, _done: int, _total: int) -> None:
        if what == "pruning":
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        build_phrases(lines, CONFIG, out=tmp_path / "b", progress=stop)
    assert (tmp_path / "b.building").is_dir() and not (tmp_path / "b").exists()
    told: list[str] = []
    again, same = build_phrases(
        lines, CONFIG, out=tmp_path / "b", progress=lambda what, *_: told.append(what)
    )
    assert (again.fingerprint, same) == (direct.fingerprint, report)
    assert "reading" not in told and not (tmp_path / "b.building").exists()
    opened, kept = open_checked(tmp_path / "b")
    assert (opened.fingerprint, kept) == (direct.fingerprint, report)


def test_what_was_kept_of_other_texts_is_not_used(lines: Path, tmp_path: Path) -> None:
    def stop(what: str, _done: int, _total: int) -> None:
        if what == "pruning":
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        build_phrases(lines, CONFIG, out=tmp_path / "a", progress=stop)
    lines.write_text("gull\ngull at sea\ngull at sea\n")
    made, _ = build_phrases(lines, CONFIG, out=tmp_path / "a", progress=ignore_progress)
    ids = made.segment(["gull at sea"]).ids
    assert len(ids) == 1 and made.text_of(int(ids[0])) == " gull at sea"


def test_it_is_described_and_checked(lines: Path, tmp_path: Path) -> None:
    made, report = build_phrases(lines, CONFIG, out=tmp_path / "a", progress=ignore_progress)
    found = describe_phrases(made, report, most=3)
    assert found["numbers"]["phrases"] == len(made) and found["numbers"]["texts"] == 200
    assert len(found["longest"]) == len(found["most used"]) == 3 and found["problems"] == []
    longest = max((made.text_of(each) for each in range(256, len(made))), key=len)
    assert len(found["longest"][0]["phrase"]) == len(longest)
    most = max(int(each) for each in made.uses[256:])
    assert found["most used"][0]["uses"] == most
    assert check_phrases(made, lines) == report
    assert "texts" not in describe_phrases(made, None, most=1)["numbers"]


def test_what_cannot_be_read_is_told(lines: Path, tmp_path: Path) -> None:
    build_phrases(lines, CONFIG, out=tmp_path / "a", progress=ignore_progress)
    (tmp_path / "a" / REPORT_FILE).write_text(json.dumps({"texts": 3}))
    with pytest.raises(Damaged, match="build again"):
        open_checked(tmp_path / "a")
    (tmp_path / "a" / REPORT_FILE).unlink()
    assert open_checked(tmp_path / "a")[1] is None
    with pytest.raises(NoCollection):
        read_texts(tmp_path / "nowhere")
    lines.write_text("\n \n")
    with pytest.raises(CorpusError, match="no texts"):
        build_phrases(lines, CONFIG, out=tmp_path / "c", progress=ignore_progress)
