"""Rivals of PIXAR's shortlist: exact scores, and what is particular to each."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch
from benchmarks.pixar_latency.rivals.build import build_rival
from benchmarks.pixar_latency.rivals.cells import CellShortlist
from benchmarks.pixar_latency.rivals.config import RIVALS, RivalConfig
from benchmarks.pixar_latency.rivals.samples import Samples
from shortlist_world import BIAS, HEAD, NUM_PHRASES, NUM_SLOTS, QUERIES, WIDTH, union_of_best
from shortlist_world import SAMPLES as VECTORS

from quoth.models.pixar.shortlist.interface import Shortlist
from quoth.models.pixar.shortlist.rows import Rows

SAMPLES = Samples(*VECTORS)
SMALL = RivalConfig(
    method="svd",
    num_centroids=8,
    list_length=50,
    depth=20,
    window=8,
    iterations=5,
)


def _build(
    config: RivalConfig,
    head: torch.Tensor | None = None,
    bias: torch.Tensor | None = None,
    samples: Samples = SAMPLES,
) -> Shortlist:
    head = torch.from_numpy(HEAD) if head is None else head
    bias = torch.from_numpy(BIAS) if bias is None else bias
    rows = Rows.store(head, bias, storage=config.storage)
    return build_rival(head, bias, rows=rows, samples=samples, config=config)


@pytest.mark.parametrize(
    ("storage", "error"), [("float32", 1e-4), ("bfloat16", 0.3), ("int8", 0.8)]
)
@pytest.mark.parametrize("method", RIVALS)
def test_scores_are_those_of_brute_force(method: str, storage: str, error: float) -> None:
    shortlist = _build(replace(SMALL, method=method, storage=storage))
    for pooled, slots in QUERIES:
        each = shortlist.shortlist(pooled, slots)
        ids = each.phrase_ids
        assert 0 < len(ids) < NUM_PHRASES and np.all(np.diff(ids) > 0)
        assert each.pooled_scores == pytest.approx(pooled @ HEAD[ids].T + BIAS[ids], abs=error)
        assert each.slot_scores == pytest.approx(slots @ HEAD[ids].T + BIAS[ids], abs=error)
        assert ids.dtype == np.int32 and each.slot_scores.dtype == np.float32


@pytest.mark.parametrize("method", ["svd", "hire_low_rank"])
def test_a_copy_with_all_columns_finds_nearly_what_full_finds(method: str) -> None:
    shortlist = _build(replace(SMALL, method=method, window=WIDTH))
    for pooled, slots in QUERIES:
        expected = set(union_of_best(SMALL.depth, pooled, slots))
        found = set(shortlist.shortlist(pooled, slots).phrase_ids.tolist())
        assert len(found & expected) >= 0.9 * len(expected)  # bfloat16 swaps a few at the end


@pytest.mark.parametrize(("copy", "share"), [("int8", 0.95), ("int4", 0.7)])
def test_a_quantised_copy_finds_most_of_what_full_finds(copy: str, share: float) -> None:
    shortlist = _build(replace(SMALL, method="hire_quantised", copy=copy))
    for pooled, slots in QUERIES:
        expected = set(union_of_best(SMALL.depth, pooled, slots))
        found = set(shortlist.shortlist(pooled, slots).phrase_ids.tolist())
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
        shortlist = _build(config, head, torch.zeros(500), samples)
        scores = vectors[0] @ head.numpy().T
        best = np.unique(np.argsort(-scores, axis=1)[:, : SMALL.depth])
        found = shortlist.shortlist(vectors[0, 0], vectors[0, 1:]).phrase_ids
        recalls[method] = float(np.isin(best, found).mean())
    assert recalls["hire_low_rank"] > 0.9 > recalls["svd"]


def test_fast_vocabulary_finds_all_its_training_vectors_ranked_on_top() -> None:
    shortlist = _build(replace(SMALL, method="fast_vocabulary"))
    for pooled, slots in zip(SAMPLES.pooled, SAMPLES.slots, strict=True):
        wanted = union_of_best(SMALL.depth, pooled, slots)
        assert np.isin(wanted, shortlist.shortlist(pooled, slots).phrase_ids).all()


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
