"""Both methods alike: exact scores, saving and opening; and what is particular to each."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from shortlist_world import BIAS, HEAD, NUM_PHRASES, QUERIES, SAMPLES, union_of_best

from quoth.artifact import open_artifact, save_artifact
from quoth.errors import ConfigError, Damaged
from quoth.models.pixar.shortlist.centroids import (
    CentroidShortlist,
    build_centroids,
    start_centroids,
)
from quoth.models.pixar.shortlist.config import METHODS, ShortlistConfig
from quoth.models.pixar.shortlist.files import KIND, VERSION, open_shortlist, save_shortlist
from quoth.models.pixar.shortlist.full import build_full
from quoth.models.pixar.shortlist.interface import Shortlist

SMALL = ShortlistConfig(num_centroids=8, list_length=50, num_lists=2, depth=20, iterations=5)


def _build(config: ShortlistConfig, threads: int = 1) -> Shortlist:
    head, bias = torch.from_numpy(HEAD), torch.from_numpy(BIAS)
    if config.method == "full":
        return build_full(head, bias, config=config, threads=threads)
    start = start_centroids(torch.from_numpy(SAMPLES[0]), config)
    return build_centroids(head, bias, centroids=start, config=config, threads=threads)


@pytest.mark.parametrize(
    ("storage", "error"), [("float32", 1e-4), ("bfloat16", 0.3), ("int8", 0.8)]
)
@pytest.mark.parametrize("method", METHODS)
def test_scores_are_those_of_brute_force(method: str, storage: str, error: float) -> None:
    shortlist = _build(replace(SMALL, method=method, storage=storage))
    for pooled, slots in QUERIES:
        each = shortlist.shortlist(pooled, slots)
        ids = each.phrase_ids
        assert 0 < len(ids) < NUM_PHRASES and np.all(np.diff(ids) > 0)
        assert each.pooled_scores == pytest.approx(pooled @ HEAD[ids].T + BIAS[ids], abs=error)
        assert each.slot_scores == pytest.approx(slots @ HEAD[ids].T + BIAS[ids], abs=error)
        assert ids.dtype == np.int32 and each.slot_scores.dtype == np.float32


@pytest.mark.parametrize("method", METHODS)
def test_an_opened_shortlist_does_as_the_saved_one(method: str, tmp_path: Path) -> None:
    shortlist = _build(replace(SMALL, method=method))
    save_shortlist(shortlist, tmp_path / "shortlist")
    save_shortlist(shortlist, tmp_path / "shortlist")  # takes the place of the first
    opened = open_shortlist(tmp_path / "shortlist", threads=2, deep=True)
    assert [path.name for path in tmp_path.iterdir()] == ["shortlist"]
    assert opened.config == shortlist.config
    for pooled, slots in QUERIES:
        first, second = (each.shortlist(pooled, slots) for each in (shortlist, opened))
        assert np.array_equal(first.phrase_ids, second.phrase_ids)
        assert np.array_equal(first.slot_scores, second.slot_scores)
        assert np.array_equal(first.pooled_scores, second.pooled_scores)


def test_settings_of_methods_that_are_gone_do_not_matter(tmp_path: Path) -> None:
    folder = tmp_path / "shortlist"
    save_shortlist(_build(SMALL), folder)
    saved = open_artifact(folder, kind=KIND, version=VERSION)
    assert saved is not None
    older = {**saved.config["shortlist"], "window": 96, "copy": "int4"}
    save_artifact(folder, replace(saved, config={**saved.config, "shortlist": older}))
    assert open_shortlist(folder).config == SMALL


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
    for pooled, slots in QUERIES:
        ids = shortlist.shortlist(pooled, slots).phrase_ids
        assert ids.tolist() == union_of_best(SMALL.depth, pooled, slots)


def test_all_centroids_with_all_phrases_give_every_phrase() -> None:
    shortlist = _build(replace(SMALL, num_lists=8, list_length=NUM_PHRASES))
    found = shortlist.shortlist(*QUERIES[0])
    assert found.phrase_ids.tolist() == list(range(NUM_PHRASES))


@pytest.mark.parametrize("assign", ["cosine", "dot"])
def test_centroids_join_the_lists_of_the_nearest(assign: str) -> None:
    shortlist = _build(replace(SMALL, assign=assign))
    assert isinstance(shortlist, CentroidShortlist)
    centroids = shortlist.own_arrays()["centroids"]
    lengths = np.linalg.norm(centroids, axis=1) if assign == "cosine" else 1.0
    best = np.argsort(-(centroids @ HEAD.T + BIAS), axis=1)[:, : SMALL.list_length]
    for pooled, slots in QUERIES:
        chosen = np.argsort(-(centroids @ pooled) / lengths)[: SMALL.num_lists]
        assert set(shortlist.nearest_centroids(pooled)) == set(chosen)
        expected = np.unique(best[chosen])
        assert shortlist.shortlist(pooled, slots).phrase_ids.tolist() == expected.tolist()


def test_shorter_lists_are_the_beginnings_of_longer_ones() -> None:
    long, short = _build(SMALL), _build(replace(SMALL, list_length=7))
    long.config = replace(SMALL, list_length=7)
    for pooled, slots in QUERIES:
        assert np.array_equal(*(each.shortlist(pooled, slots).phrase_ids for each in (long, short)))


def _stretches(places: np.ndarray) -> int:
    return 1 + int((np.diff(places) > 1).sum())


def test_rows_listed_together_lie_together() -> None:
    shortlist = _build(SMALL)
    for pooled, slots in QUERIES:
        grouped = _stretches(shortlist.choose(pooled, slots))
        assert grouped < 0.7 * _stretches(shortlist.shortlist(pooled, slots).phrase_ids)


def test_vectors_of_another_width_are_an_error() -> None:
    shortlist = _build(SMALL)
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
