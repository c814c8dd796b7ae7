"""The run of ten million passages in small: every step, and what a second start does."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import numpy as np
import pytest
from benchmarks.cluster import big_steps, mixtures, ten_million
from benchmarks.cluster.rounds import NUMBERED, docids_of_round, passages_of_round

from quoth.engine.engine import Engine
from quoth.shards.engine import ShardedEngine

DATA = Path("../shared/data")
needs_data = pytest.mark.skipif(not DATA.exists(), reason="the real texts are not here")


@needs_data
def test_rounds_repeat_and_differ() -> None:
    rounds = [list(passages_of_round(DATA, number, 60)) for number in range(3)]
    assert rounds == [list(passages_of_round(DATA, number, 60)) for number in range(3)]
    for number, own in enumerate(rounds):
        assert [each.docid for each in own] == list(docids_of_round(DATA, number, 60))
        assert all(len(each.fields["text"][0].split()) <= 49 for each in own)
    texts = [{each.fields["text"][0] for each in own} for own in rounds]
    assert not texts[1] & texts[2] and not texts[0] & texts[1]
    numbered = [each.fields["text"][0].rpartition(" ")[2] for each in rounds[1][::NUMBERED]]
    assert len(set(numbered)) == len(numbered) and all(each.isdigit() for each in numbered)


def _start(folder: Path, out: Path, monkeypatch: pytest.MonkeyPatch, *steps: str) -> None:
    given = [str(folder), "--passages", "200", "--shards", "2", "--queries", "4"]
    given += ["--data", str(DATA), "--out", str(out), "--steps", ",".join(steps)]
    monkeypatch.setattr(sys, "argv", ["ten_million", *given])
    ten_million.main()


@needs_data
def test_steps_are_done_once_and_the_next_start_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        ten_million, "run_apart", lambda _name, step, _folder: {**step(), "seconds": 0.0}
    )
    out = tmp_path / "out.json"
    _start(tmp_path, out, monkeypatch, "add-0", "add-1", "search")
    kept = (tmp_path / "steps" / "search.json").stat().st_mtime_ns
    _start(tmp_path, out, monkeypatch, "whole-0", "whole-1")
    shards, whole = tmp_path / "shards.quoth", tmp_path / "whole.quoth"
    with ShardedEngine.open(shards) as cut, Engine.open(whole) as uncut:
        assert sorted(cut.docids()) == sorted(uncut.docids())
    _start(tmp_path, out, monkeypatch, "add-0", "search", "verify", "remove", "merge")
    assert (tmp_path / "steps" / "search.json").stat().st_mtime_ns == kept
    steps = json.loads(out.read_text())["steps"]
    assert steps["add-0"]["added"] == steps["add-1"]["added"] == 20
    assert steps["search"]["documents"] == 40 and steps["search"]["searchers"]["lexical"]["hits"]
    assert steps["verify"] == {"is_clean": True, "lines": [], "seconds": 0.0}
    removed = steps["remove"]
    assert removed["removed"] == 4 and removed["missing"] == 16  # of rounds that were not added
    assert big_steps.verify(tmp_path / "merged.quoth")["is_clean"]


def test_mixtures_have_unit_length_and_every_row_once() -> None:
    sample = np.eye(8, dtype=np.float32)
    rows = np.arange(1, 251)
    (found,) = mixtures.mix(sample, rows, seed=1)
    assert np.array_equal(found[0], rows)
    assert np.allclose(np.linalg.norm(found[1], axis=1), 1.0)
    assert ((found[1] > 0).sum(axis=1) <= 2).all()


@needs_data
def test_owners_are_those_that_adding_gives(tmp_path: Path) -> None:
    folder = tmp_path / "c.quoth"
    for number in range(2):
        big_steps.add_round(folder, DATA, number, count=15, num_shards=3)
    owners = mixtures.list_owners(DATA, count=15, rounds=2, num_shards=3)
    with big_steps._open(folder) as engine:
        rows = [each.docids_by_row() for each in engine._engines]  # type: ignore[union-attr]
    found = [next(at for at, own in enumerate(rows) if row in own) for row in range(1, 31)]
    assert found == owners.tolist()
