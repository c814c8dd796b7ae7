"""The benchmark of codes: what it mixes, and what it counts as memory."""

from __future__ import annotations

import mmap
import sys
from pathlib import Path

import numpy as np
import pytest
from benchmarks.dense.beyond_memory import configure, grow, recall_of, resident_files

from quoth.index.dense.rank import Found


def test_real_vectors_come_first_and_mixtures_have_their_length() -> None:
    real = np.eye(5, dtype=np.float32)
    every = np.concatenate(list(grow(real, 60_007)))
    assert every.shape == (60_007, 5) and (every[:5] == real).all()
    assert np.linalg.norm(every, axis=1) == pytest.approx(np.ones(60_007), abs=1e-6)
    assert ((every > 0).sum(axis=1) <= 2).all()
    assert np.concatenate(list(grow(real, 3))).tolist() == real[:3].tolist()


def test_recall_counts_what_exact_search_finds() -> None:
    truth = [[Found(1, 0, 0.9), Found(2, 0, 0.8)]] * 2
    found = [[Found(1, 0, 0.9), Found(2, 0, 0.8)], [Found(1, 0, 0.9), Found(3, 0, 0.1)]]
    told = recall_of(found, truth)
    assert (told["recall"], told["least_recall"]) == (0.75, 0.5)
    assert told["interval"][0] <= 0.75 <= told["interval"][1]


def test_each_kind_searches_any_number_of_vectors() -> None:
    for kind in ("exact", "hnsw", "ivfpq"):
        assert configure(kind).choose_index(50_000) == kind


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc/self/smaps")
def test_pages_of_a_mapped_file_are_counted_once_read(tmp_path: Path) -> None:
    path = tmp_path / "some file.faiss"
    path.write_bytes(b"x" * (1 << 20))
    with path.open("rb") as stream:
        mapped = mmap.mmap(stream.fileno(), 0, access=mmap.ACCESS_READ)
    assert sum(mapped[at] for at in range(0, 1 << 20, mmap.PAGESIZE)) > 0
    assert sum(count for name, count in resident_files() if name == str(path)) == 1 << 20
    mapped.close()
