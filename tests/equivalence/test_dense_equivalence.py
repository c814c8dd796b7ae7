"""The dense index gives what brute force gives, whatever its history; graph and codes nearly."""

from __future__ import annotations

import shutil
import tempfile
from dataclasses import dataclass, field, replace
from itertools import pairwise
from math import fsum
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from quoth.index.dense import scan
from quoth.index.dense.config import STORAGES, DenseConfig
from quoth.index.dense.index import DenseIndex
from quoth.index.dense.rank import Found

MODEL = {"name": "tiny", "pooling": "mean"}
Floats = np.ndarray[Any, np.dtype[np.float32]]


def open_index(folder: Path, config: DenseConfig) -> DenseIndex:
    return DenseIndex.open(folder, model=MODEL, config=config)


def normalise(vectors: Floats) -> Floats:
    return (vectors / np.linalg.norm(vectors, axis=1, keepdims=True)).astype(np.float32)


def stored_score(vector: Floats, query: Floats, storage: str) -> float:
    """Score one vector as its storage rounds it, written out as the definition says."""
    scale, codes = np.float32(1), vector.astype(np.float64)
    if storage == "fp16":
        codes = vector.astype(np.float16).astype(np.float64)
    if storage == "int8":
        scale = np.float32(np.abs(vector).max() / np.float32(127))
        codes = np.rint(vector / scale).astype(np.float64) if scale else np.zeros(len(vector))
    total = fsum(float(c) * float(q) for c, q in zip(codes, query, strict=True))
    return float(np.float32(total * float(scale)))


@dataclass
class Truth:
    """What was added and not removed: (row, unit) → vector."""

    storage: str
    vectors: dict[tuple[int, int], Floats] = field(default_factory=dict)

    def rows(self) -> list[int]:
        return sorted({row for row, _unit in self.vectors})

    def top_k(self, query: Floats, k: int, *, allowed: set[int] | None) -> list[Found]:
        best: dict[int, Found] = {}
        for (row, unit), vector in sorted(self.vectors.items()):
            score = stored_score(vector, query, self.storage)
            if (allowed is None or row in allowed) and (row not in best or score > best[row].score):
                best[row] = Found(row, unit, score)
        return sorted(best.values(), key=lambda each: (-each.score, each.row))[:k]


# Few values and few dimensions, so that vectors repeat and scores tie.
WIDTH = 3
vector = st.lists(st.sampled_from([-1.0, -0.25, 0.0, 0.5, 1.0]), min_size=WIDTH, max_size=WIDTH)
document = st.lists(vector, min_size=1, max_size=3)
operation = st.one_of(
    st.tuples(st.just("add"), st.lists(document, min_size=1, max_size=5)),
    st.tuples(st.just("remove"), st.lists(st.integers(0, 12), max_size=4)),
    st.tuples(st.sampled_from(["compact", "reopen", "tidy", "graph"]), st.none()),
)


@settings(max_examples=40, deadline=None)
@given(
    storage=st.sampled_from(STORAGES),
    exact_limit=st.sampled_from([0, 1_000]),  # a graph this small leads to an exact search too
    operations=st.lists(operation, max_size=8),
    query=vector,
    k=st.integers(1, 6),
    allowed=st.none() | st.sets(st.integers(0, 15)),
)
def test_any_history_gives_what_brute_force_gives(
    storage: str,
    exact_limit: int,
    operations: list[Any],
    query: list[float],
    k: int,
    allowed: set[int] | None,
) -> None:
    with tempfile.TemporaryDirectory() as name:
        config = DenseConfig(storage=storage, exact_limit=exact_limit, compact_share=0.5)
        index, truth, next_row = open_index(Path(name), config), Truth(storage), 0
        for what, value in operations:
            if what == "add":
                next_row = _add(index, truth, value, next_row)
            elif what == "remove":
                index.remove(value)
                gone = [key for key in truth.vectors if key[0] in value]
                for key in gone:
                    del truth.vectors[key]
            elif what == "reopen":
                index = open_index(Path(name), config)
            elif what == "graph":
                index.build_approximate()
            else:
                {"compact": index.compact, "tidy": index.compact_if_due}[what]()
            assert index.rows().tolist() == truth.rows()
            assert index.num_vectors == len(truth.vectors)
        queries = np.float32([query, [1, 0.5, -1]])
        found = index.top_k(queries, k, allowed=allowed)
        assert found == [truth.top_k(each, k, allowed=allowed) for each in queries]
        assert index.find_damage() == ()


def _add(index: DenseIndex, truth: Truth, documents: list[Any], next_row: int) -> int:
    keys = [(next_row + at, unit) for at, each in enumerate(documents) for unit in range(len(each))]
    vectors = np.float32([vector for each in documents for vector in each])
    rows, units = np.array(keys).T
    index.add(rows.astype(np.int64), units.astype(np.int32), vectors)
    truth.vectors.update(zip(keys, vectors, strict=True))
    return next_row + len(documents)


def make_vectors(number: int, width: int, *, seed: int) -> Floats:
    """Vectors around cluster centres, of length 1."""
    chance = np.random.default_rng(seed)
    centres = np.random.default_rng(99).normal(size=(200, width))
    noise = chance.normal(size=(number, width))
    return normalise(np.float32(centres[chance.integers(0, 200, number)] + 0.7 * noise))


@pytest.mark.parametrize("storage", STORAGES)
def test_a_long_history_equals_a_fresh_build_to_the_last_bit(tmp_path: Path, storage: str) -> None:
    vectors = make_vectors(3_000, 48, seed=1)
    rows, units = np.arange(3_000) // 2, np.arange(3_000, dtype=np.int32) % 2
    config = DenseConfig(storage=storage)
    grown, live = open_index(tmp_path / "grown", config), np.ones(1_500, dtype=bool)
    for start, stop in pairwise([0, 2, 500, 1_000, 1_002, 2_600, 3_000]):
        grown.add(rows[start:stop], units[start:stop], vectors[start:stop])
        gone = np.arange(start // 2, stop // 2, 3)
        grown.remove(gone.tolist())
        live[gone] = False
        if start == 500:
            grown.compact()
    kept = live[rows]
    fresh = open_index(tmp_path / "fresh", config)
    fresh.add(rows[kept], units[kept], vectors[kept])
    queries = make_vectors(40, 48, seed=2)
    for allowed in (None, set(range(0, 1_500, 7)), set(range(40))):
        expected = fresh.top_k(queries, 20, allowed=allowed)
        assert grown.top_k(queries, 20, allowed=allowed) == expected
    grown.compact()
    assert grown.top_k(queries, 20, allowed=None) == fresh.top_k(queries, 20, allowed=None)
    alone = [fresh.top_k(each[None], 20, allowed=None)[0] for each in queries]
    assert alone == fresh.top_k(queries, 20, allowed=None)


def test_copies_of_a_vector_tie_wherever_they_lie(tmp_path: Path) -> None:
    index = open_index(tmp_path, DenseConfig(storage="fp32"))
    vectors = make_vectors(4_001, 33, seed=3)
    vectors[1::5] = vectors[0]
    index.add(np.arange(3_000), np.zeros(3_000, dtype=np.int32), vectors[:3_000])
    index.add(np.arange(3_000, 4_001), np.zeros(1_001, dtype=np.int32), vectors[3_000:])
    (found,) = index.top_k(vectors[:1], 801, allowed=None)
    assert [each.row for each in found] == [0, *range(1, 4_001, 5)]
    assert len({each.score for each in found}) == 1


def test_the_rounding_of_a_matrix_product_never_shows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    index = open_index(tmp_path, DenseConfig(storage="fp32"))
    vectors, queries = make_vectors(2_000, 64, seed=10), make_vectors(20, 64, seed=11)
    vectors[1::5] = vectors[0]
    index.add(np.arange(2_000), np.zeros(2_000, dtype=np.int32), vectors)
    expected = index.top_k(np.concatenate([queries, vectors[:1]]), 30, allowed=None)
    multiply, chance = scan._multiply, np.random.default_rng(12)

    def multiply_badly(block: scan.Block, queries: Floats) -> Floats:
        scores = multiply(block, queries)
        return scores + np.float32(64 * 2.0**-24) * np.sign(
            chance.normal(size=scores.shape).astype(np.float32)
        )

    monkeypatch.setattr(scan, "_multiply", multiply_badly)
    assert index.top_k(np.concatenate([queries, vectors[:1]]), 30, allowed=None) == expected
    assert [each.row for each in expected[-1]] == [0, *range(1, 145, 5)]


def recall(found: list[list[Found]], expected: list[list[Found]]) -> float:
    pairs = zip(found, expected, strict=True)
    shares = [len({f.row for f in a} & {e.row for e in b}) / len(b) for a, b in pairs]
    return sum(shares) / len(shares)


@pytest.mark.parametrize(("storage", "bound"), [("fp16", 1e-3), ("int8", 1e-2)])
def test_less_precision_finds_nearly_the_same(tmp_path: Path, storage: str, bound: float) -> None:
    vectors, queries = make_vectors(5_000, 64, seed=4), make_vectors(100, 64, seed=5)
    exact, rough = (
        open_index(tmp_path / name, DenseConfig(storage=name)) for name in ("fp32", storage)
    )
    for index in (exact, rough):
        index.add(np.arange(5_000), np.zeros(5_000, dtype=np.int32), vectors)
    expected, found = (each.top_k(queries, 10, allowed=None) for each in (exact, rough))
    assert recall(found, expected) >= 0.95
    full = queries @ vectors.T
    for query, hits in zip(full, found, strict=True):
        assert all(abs(hit.score - query[hit.row]) < bound for hit in hits)


class Large:
    """20,000 vectors with graph or codes, of which 2,000 were removed, and 1,000 added later."""

    def __init__(self, folder: Path, kind: str) -> None:
        self.folder = folder
        self.config = DenseConfig(
            exact_limit=1_000,
            index=kind,
            hnsw_neighbours=16,
            hnsw_build_depth=64,
            ivfpq_bytes=8,  # four numbers to a byte: short codes are learnt sooner
        )
        self.queries = make_vectors(100, 32, seed=7)
        if not folder.exists():
            self._build()
        self.index = open_index(folder, self.config)
        self.exact = open_index(folder, replace(self.config, exact_limit=100_000))

    def _build(self) -> None:
        vectors = make_vectors(21_000, 32, seed=6)
        rows, units = np.arange(21_000) // 2, np.arange(21_000, dtype=np.int32) % 2
        index = open_index(self.folder, self.config)
        index.add(rows[:20_000], units[:20_000], vectors[:20_000])
        assert index.build_approximate_if_due() and not index.build_approximate_if_due()
        index.remove(range(0, 10_000, 10))
        index.add(rows[20_000:], units[20_000:], vectors[20_000:])

    def recall(self, *, allowed: set[int] | None) -> float:
        found = self.index.top_k(self.queries, 10, allowed=allowed)
        expected = self.exact.top_k(self.queries, 10, allowed=allowed)
        assert [len(each) for each in found] == [10] * len(self.queries)
        for hits in found:
            assert all(each.row % 10 or each.row >= 10_000 for each in hits)
            assert allowed is None or all(each.row in allowed for each in hits)
        return recall(found, expected)


KINDS = ("hnsw", "ivfpq")


@pytest.fixture(scope="module", params=KINDS)
def large(tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest) -> Large:
    return Large(tmp_path_factory.mktemp("large") / request.param, request.param)


@pytest.mark.parametrize("step", [None, 2, 5, 40, 1_000])
def test_nearly_all_is_found_whatever_is_allowed(large: Large, step: int | None) -> None:
    allowed = None if step is None else set(range(1, 10_500, step))
    assert large.recall(allowed=allowed) >= 0.95


def test_a_hit_has_the_same_score_however_it_was_found(large: Large) -> None:
    found = large.index.top_k(large.queries, 10, allowed=None)
    scores = [{(e.row, e.unit): e.score for e in each} for each in found]
    every = large.exact.top_k(large.queries, 200, allowed=None)
    for hits, exact in zip(scores, every, strict=True):
        same = [each for each in exact if (each.row, each.unit) in hits]
        assert len(same) == 10
        assert all(hits[each.row, each.unit] == each.score for each in same)


def test_what_came_later_is_found_exactly(large: Large) -> None:
    late = set(range(10_000, 10_500))
    found = large.index.top_k(large.queries, 10, allowed=late)
    assert found == large.exact.top_k(large.queries, 10, allowed=late)


def test_many_hits_are_still_as_many_as_asked(large: Large) -> None:
    (found,) = large.index.top_k(large.queries[:1], 3_000, allowed=None)
    assert len(found) == 3_000
    assert found == large.exact.top_k(large.queries[:1], 3_000, allowed=None)[0]


def test_graph_and_codes_survive_compaction_and_grow(large: Large, tmp_path: Path) -> None:
    folder = Path(shutil.copytree(large.folder, tmp_path / "copied"))
    large = Large(folder, large.config.index)
    large.index.compact()
    large.exact = open_index(folder, large.exact._config)
    assert large.index._now.approximate is not None and large.index.num_dead == 0
    assert large.recall(allowed=None) >= 0.95
    vectors = make_vectors(3_000, 32, seed=8)
    rows = np.arange(20_000, 23_000)
    large.index.add(rows, np.zeros(3_000, dtype=np.int32), vectors)
    nodes = large.index._now.approximate.entry.num_nodes
    assert large.index.build_approximate_if_due()
    assert large.index._now.approximate is not None
    assert large.index._now.approximate.entry.num_nodes == nodes + 1_000 + 3_000
    large.exact = open_index(folder, large.exact._config)
    assert large.recall(allowed=None) >= 0.95
