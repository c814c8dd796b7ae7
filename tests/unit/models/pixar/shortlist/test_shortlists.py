"""All methods alike: exact scores, saving and opening; and what is particular to each."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from quoth.errors import ConfigError, Damaged
from quoth.models.pixar.shortlist.build import WITHOUT_SAMPLES, build_shortlist
from quoth.models.pixar.shortlist.cells import CellShortlist
from quoth.models.pixar.shortlist.centroids import CentroidShortlist
from quoth.models.pixar.shortlist.config import METHODS, ShortlistConfig
from quoth.models.pixar.shortlist.files import open_shortlist, save_shortlist
from quoth.models.pixar.shortlist.interface import Samples, Shortlist

NUM_PHRASES, WIDTH, NUM_SLOTS = 700, 20, 3
_CHANCE = np.random.default_rng(0)
_TOPICS = 2 * _CHANCE.standard_normal((12, WIDTH), dtype=np.float32)
HEAD = _TOPICS[_CHANCE.integers(0, 12, NUM_PHRASES)] + _CHANCE.standard_normal(
    (NUM_PHRASES, WIDTH), dtype=np.float32
)
BIAS = _CHANCE.standard_normal(NUM_PHRASES, dtype=np.float32)


def _draw(count: int, seed: int) -> Samples:
    chance = np.random.default_rng(seed)
    pooled = _TOPICS[chance.integers(0, 12, count)]
    slots = pooled[:, None] + chance.standard_normal((count, NUM_SLOTS, WIDTH), dtype=np.float32)
    return Samples(pooled + chance.standard_normal(pooled.shape, dtype=np.float32), slots)


SAMPLES, QUERIES = _draw(60, 1), _draw(5, 2)
SMALL = ShortlistConfig(
    num_centroids=8, list_length=50, num_lists=2, depth=20, window=8, iterations=5
)


def _build(config: ShortlistConfig, threads: int = 1) -> Shortlist:
    return build_shortlist(
        torch.from_numpy(HEAD),
        torch.from_numpy(BIAS),
        config=config,
        samples=SAMPLES,
        threads=threads,
    )


def _union_of_best(depth: int, pooled: np.ndarray, slots: np.ndarray) -> list[int]:
    scores = np.concatenate((pooled[None], slots)) @ HEAD.T + BIAS
    return np.unique(np.argsort(-scores, axis=1, kind="stable")[:, :depth]).tolist()


@pytest.mark.parametrize(
    ("storage", "error"), [("float32", 1e-4), ("bfloat16", 0.3), ("int8", 0.8)]
)
@pytest.mark.parametrize("method", METHODS)
def test_scores_are_those_of_brute_force(method: str, storage: str, error: float) -> None:
    shortlist = _build(replace(SMALL, method=method, storage=storage))
    found = shortlist.shortlist_all(QUERIES.pooled, QUERIES.slots)
    for each, pooled, slots in zip(found, QUERIES.pooled, QUERIES.slots, strict=True):
        ids = each.phrase_ids
        assert 0 < len(ids) < NUM_PHRASES and np.all(np.diff(ids) > 0)
        assert each.pooled_scores == pytest.approx(pooled @ HEAD[ids].T + BIAS[ids], abs=error)
        assert each.slot_scores == pytest.approx(slots @ HEAD[ids].T + BIAS[ids], abs=error)
        assert ids.dtype == np.int32 and each.slot_scores.dtype == np.float32
        assert np.array_equal(shortlist.phrase_ids(pooled, slots), ids)


@pytest.mark.parametrize("method", METHODS)
def test_an_opened_shortlist_does_as_the_saved_one(method: str, tmp_path: Path) -> None:
    shortlist = _build(replace(SMALL, method=method))
    save_shortlist(shortlist, tmp_path / "shortlist")
    save_shortlist(shortlist, tmp_path / "shortlist")  # takes the place of the first
    opened = open_shortlist(tmp_path / "shortlist", threads=2, deep=True)
    assert [path.name for path in tmp_path.iterdir()] == ["shortlist"]
    assert opened.config == shortlist.config
    for pooled, slots in zip(QUERIES.pooled, QUERIES.slots, strict=True):
        first, second = (each.shortlist(pooled, slots) for each in (shortlist, opened))
        assert np.array_equal(first.phrase_ids, second.phrase_ids)
        assert np.array_equal(first.slot_scores, second.slot_scores)
        assert np.array_equal(first.pooled_scores, second.pooled_scores)


def test_damage_is_noticed(tmp_path: Path) -> None:
    folder = tmp_path / "shortlist"
    with pytest.raises(Damaged, match="holds no shortlist"):
        open_shortlist(folder)
    save_shortlist(_build(SMALL), folder)
    path = folder / "members.npy"
    content = path.read_bytes()
    path.write_bytes(content[:-1] + bytes([content[-1] ^ 1]))
    open_shortlist(folder)
    with pytest.raises(Damaged, match="was altered"):
        open_shortlist(folder, deep=True)
    path.write_bytes(content[:-1])
    with pytest.raises(Damaged, match="bytes"):
        open_shortlist(folder)


@pytest.mark.parametrize("threads", [1, 2])
def test_full_keeps_the_best_of_each_vector(threads: int) -> None:
    shortlist = _build(replace(SMALL, method="full", storage="float32"), threads)
    for pooled, slots in zip(QUERIES.pooled, QUERIES.slots, strict=True):
        ids = shortlist.shortlist(pooled, slots).phrase_ids
        assert ids.tolist() == _union_of_best(SMALL.depth, pooled, slots)


@pytest.mark.parametrize("method", ["svd", "hire_low_rank"])
def test_a_copy_with_all_columns_finds_nearly_what_full_finds(method: str) -> None:
    shortlist = _build(replace(SMALL, method=method, window=WIDTH))
    for pooled, slots in zip(QUERIES.pooled, QUERIES.slots, strict=True):
        expected = set(_union_of_best(SMALL.depth, pooled, slots))
        found = set(shortlist.phrase_ids(pooled, slots).tolist())
        assert len(found & expected) >= 0.9 * len(expected)  # bfloat16 swaps a few at the end


@pytest.mark.parametrize(("copy", "share"), [("int8", 0.95), ("int4", 0.7)])
def test_a_quantised_copy_finds_most_of_what_full_finds(copy: str, share: float) -> None:
    shortlist = _build(replace(SMALL, method="hire_quantised", copy=copy))
    for pooled, slots in zip(QUERIES.pooled, QUERIES.slots, strict=True):
        expected = set(_union_of_best(SMALL.depth, pooled, slots))
        found = set(shortlist.phrase_ids(pooled, slots).tolist())
        assert len(found & expected) >= share * len(expected)


def test_low_rank_that_knows_the_queries_previews_better_than_svd() -> None:
    chance = np.random.default_rng(4)
    head = torch.from_numpy(chance.standard_normal((500, WIDTH), dtype=np.float32))
    plane = chance.standard_normal((4, WIDTH), dtype=np.float32)  # where all vectors lie
    vectors = chance.standard_normal((50, 1 + NUM_SLOTS, 4), dtype=np.float32) @ plane
    samples = Samples(vectors[:, 0], vectors[:, 1:])
    recalls = {}
    for method in ("svd", "hire_low_rank"):
        config = replace(SMALL, method=method, window=4, storage="float32")
        shortlist = build_shortlist(head, torch.zeros(500), config=config, samples=samples)
        scores = vectors[0] @ head.numpy().T
        best = np.unique(np.argsort(-scores, axis=1)[:, : SMALL.depth])
        found = shortlist.phrase_ids(vectors[0, 0], vectors[0, 1:])
        recalls[method] = float(np.isin(best, found).mean())
    assert recalls["hire_low_rank"] > 0.9 > recalls["svd"]


def test_all_centroids_with_all_phrases_give_every_phrase() -> None:
    shortlist = _build(replace(SMALL, num_lists=8, list_length=NUM_PHRASES))
    found = shortlist.shortlist(QUERIES.pooled[0], QUERIES.slots[0])
    assert found.phrase_ids.tolist() == list(range(NUM_PHRASES))


@pytest.mark.parametrize("assign", ["cosine", "dot"])
def test_centroids_join_the_lists_of_the_nearest(assign: str) -> None:
    shortlist = _build(replace(SMALL, assign=assign))
    assert isinstance(shortlist, CentroidShortlist)
    centroids = shortlist.own_arrays()["centroids"]
    lengths = np.linalg.norm(centroids, axis=1) if assign == "cosine" else 1.0
    best = np.argsort(-(centroids @ HEAD.T + BIAS), axis=1)[:, : SMALL.list_length]
    for pooled, slots in zip(QUERIES.pooled, QUERIES.slots, strict=True):
        chosen = np.argsort(-(centroids @ pooled) / lengths)[: SMALL.num_lists]
        assert set(shortlist.nearest_centroids(pooled)) == set(chosen)
        expected = np.unique(best[chosen])
        assert shortlist.phrase_ids(pooled, slots).tolist() == expected.tolist()


def test_shorter_lists_are_the_beginnings_of_longer_ones() -> None:
    long, short = _build(SMALL), _build(replace(SMALL, list_length=7))
    long.config = replace(SMALL, list_length=7)
    for pooled, slots in zip(QUERIES.pooled, QUERIES.slots, strict=True):
        assert np.array_equal(long.phrase_ids(pooled, slots), short.phrase_ids(pooled, slots))


def _stretches(places: np.ndarray) -> int:
    return 1 + int((np.diff(places) > 1).sum())


def test_rows_listed_together_lie_together() -> None:
    shortlist = _build(SMALL)
    for pooled, slots in zip(QUERIES.pooled, QUERIES.slots, strict=True):
        grouped = _stretches(shortlist.choose(pooled, slots))
        assert grouped < 0.7 * _stretches(shortlist.phrase_ids(pooled, slots))


def test_fast_vocabulary_finds_all_its_training_vectors_ranked_on_top() -> None:
    shortlist = _build(replace(SMALL, method="fast_vocabulary"))
    for pooled, slots in zip(SAMPLES.pooled, SAMPLES.slots, strict=True):
        wanted = _union_of_best(SMALL.depth, pooled, slots)
        assert np.isin(wanted, shortlist.phrase_ids(pooled, slots)).all()


def test_l2s_keeps_to_its_budget_and_covers_more_than_lists_of_one_length() -> None:
    coverage = {}
    for method in ("l2s", "projection"):
        shortlist = _build(replace(SMALL, method=method, list_length=30))
        assert isinstance(shortlist, CellShortlist)
        cells, lists = shortlist.own_arrays()["cells"], shortlist._lists
        vectors = SAMPLES.flat()
        owners = (vectors @ cells.T).argmax(axis=1)
        assert lists.lengths()[owners].mean() <= 30
        best = np.argsort(-(vectors @ HEAD.T + BIAS), axis=1)[:, : SMALL.depth]
        listed = [lists.join([owner], num_rows=NUM_PHRASES, length=NUM_PHRASES) for owner in owners]
        found = [np.isin(row, own).mean() for row, own in zip(best, listed, strict=True)]
        coverage[method] = float(np.mean(found))
    assert coverage["l2s"] > coverage["projection"]


def test_learned_methods_ask_for_samples() -> None:
    for method in sorted(set(METHODS) - set(WITHOUT_SAMPLES)):
        with pytest.raises(ConfigError, match="none were given"):
            build_shortlist(
                torch.from_numpy(HEAD),
                torch.from_numpy(BIAS),
                config=replace(SMALL, method=method),
            )


def test_vectors_of_another_width_are_an_error() -> None:
    shortlist = _build(replace(SMALL, method="projection"))
    places = np.array([0], dtype=np.int32)
    with pytest.raises(ConfigError, match="length 7, but the shortlist was built for a head of"):
        shortlist.score(places, np.zeros(7, np.float32), slots=np.zeros((2, 7), np.float32))


def test_all_problems_of_a_configuration_are_reported() -> None:
    with pytest.raises(ConfigError) as found:
        ShortlistConfig(method="beam", storage="int4", depth=0, num_centroids=2)
    for part in ("method is 'beam'", "storage is 'int4'", "depth is 0"):
        assert part in str(found.value)
    with pytest.raises(ConfigError, match="num_lists is 5, but there are 2 centroids"):
        ShortlistConfig(num_centroids=2)
