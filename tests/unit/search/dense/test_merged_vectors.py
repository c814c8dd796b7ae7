"""Vectors are carried from index to index as they are stored, under other rows."""

from __future__ import annotations

import contextlib
from pathlib import Path

import numpy as np
import pytest

from quoth.collection.store import Store
from quoth.index.dense.config import DenseConfig
from quoth.index.dense.index import DenseIndex
from quoth.records import Document
from quoth.search.dense.merged_vectors import carry_vectors, finish_vectors, holds_all
from quoth.search.dense.record import EncodingRecord
from quoth.search.searcher import ignore_progress


@pytest.mark.parametrize("storage", ["fp32", "fp16", "int8"])
def test_scores_stay_the_same_to_the_last_bit(tmp_path: Path, storage: str) -> None:
    chance, config = np.random.default_rng(0), DenseConfig(storage=storage)
    source = DenseIndex.open(tmp_path / "source", model={"name": "m"}, config=config)
    rows = np.repeat(np.arange(1, 31), 2)
    vectors = chance.standard_normal((60, 8)).astype(np.float32)
    source.add(rows, np.tile(np.array([0, 1], np.int32), 30), vectors)
    source.remove([4, 5])
    EncodingRecord(tmp_path / "source").note(rows.tolist(), [3] * 60, [1] * 60)
    old = [row for row in range(30, 0, -1) if row not in (4, 5)]  # in any order
    new = [100 + row for row in old]
    carry_vectors(tmp_path / "source", tmp_path / "target", old=old[:9], new=new[:9])
    carry_vectors(tmp_path / "source", tmp_path / "target", old=old[9:], new=new[9:])
    with contextlib.closing(Store.create(tmp_path / "store")) as store:
        store.add([Document("d", {"text": ("a",)})], cut=lambda _document: ())
        assert not holds_all(tmp_path / "target", store)
        finish_vectors(
            tmp_path / "target",
            tmp_path / "source",
            store,
            config=DenseConfig(),
            progress=ignore_progress,
        )
        assert holds_all(tmp_path / "target", store)
    target = DenseIndex.open(tmp_path / "target", model={"name": "m"}, config=config)
    assert target.rows().tolist() == sorted(new)
    queries = chance.standard_normal((5, 8)).astype(np.float32)
    expected = source.top_k(queries, 28, allowed=None)
    found = target.top_k(queries, 28, allowed=None)
    assert [[each._replace(row=each.row - 100) for each in hits] for hits in found] == expected
    totals = EncodingRecord(tmp_path / "target").totals(set(new))
    assert totals == {"subwords": 168, "subwords_cut": 56, "documents_cut": 28}
    assert target.find_damage() == ()
