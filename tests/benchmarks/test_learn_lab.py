"""The laboratory fuses, weighs and scores as the product does."""

from __future__ import annotations

import random

import numpy as np
import pytest
import torch
from benchmarks.learn.lab.bm25 import Bm25
from benchmarks.learn.lab.fusion import DEPTH, Side, Weighing, fuse, ndcg, weigh
from benchmarks.learn.lab.pack import count_terms

from quoth.records import Document, Hit, Run
from quoth.search.hybrid.calibration import Target, calibrate
from quoth.search.hybrid.fusion import convex
from quoth.search.hybrid.fusion_config import CalibrationConfig

QUERIES, DOCUMENTS = 40, 130


def make_sides() -> tuple[Side, Side]:
    chance = torch.Generator().manual_seed(0)
    lexical = torch.rand((QUERIES, DOCUMENTS), generator=chance) * 20
    lexical[: QUERIES // 2, 60:] = 0.0  # half of the queries match few documents
    dense = torch.rand((QUERIES, DOCUMENTS), generator=chance) - 0.2
    return Side(lexical, is_lexical=True), Side(dense, is_lexical=False)


def as_run(name: str, side: Side) -> Run:
    hits = {}
    for query, row in enumerate(side.scores.tolist()):
        found = [Hit(f"{at:03}", s) for at, s in enumerate(row) if s > 0 or not side.is_lexical]
        ranked = sorted(found, key=lambda hit: (-hit.score, hit.docid))
        hits[str(query)] = tuple(ranked[:DEPTH])
    return Run(name, hits)


def test_weights_and_fused_scores_are_those_of_the_product() -> None:
    lexical, dense = make_sides()
    chance = random.Random(0)
    targets = [(chance.randrange(DOCUMENTS), chance.random()) for _ in range(QUERIES)]
    runs = [as_run("lexical", lexical), as_run("dense", dense)]
    found = calibrate(
        runs,
        [Target(str(at), f"{row:03}", each) for at, (row, each) in enumerate(targets)],
        CalibrationConfig(normalise="range", depth=DEPTH),
    )
    ours = weigh(lexical, dense, targets)
    assert ours.weights == (found.weights["lexical"], found.weights["dense"])
    assert ours.widths == pytest.approx((found.ranges["lexical"], found.ranges["dense"]), rel=1e-4)

    mixed = Weighing((0.6, 0.4), ours.widths)
    fused = convex(
        runs,
        weights={"lexical": 0.6, "dense": 0.4},
        normalise="range",
        ranges=found.usual_ranges(),
        k=10,
    )
    scores, rows = fuse(lexical, dense, mixed).topk(10, dim=1)
    for query in range(QUERIES):
        hits = fused.hits[str(query)]
        assert [int(hit.docid) for hit in hits] == rows[query].tolist()
        assert [hit.score for hit in hits] == pytest.approx(scores[query].tolist(), rel=1e-4)


def test_bm25_is_the_formula() -> None:
    documents = [
        Document("a", {"title": ("Owls",), "text": ("barn owls hunt at night",)}),
        Document("b", {"title": ("Hens",), "text": ("hens sleep",)}),
    ]
    keep = np.arange(2)
    own = Bm25(count_terms(documents), keep=keep, device=torch.device("cpu"))
    (scores,) = own.scores(["owls barn"])
    idf = np.log1p((2 - 1 + 0.5) / (1 + 0.5))

    def part(tf: float, length: float, mean: float) -> float:
        return float(idf * tf * 2.2 / (tf + 1.2 * (0.25 + 0.75 * length / mean)))

    expected = part(2, 6, 4.5) + part(1, 6, 4.5) + 0.3 * part(1, 1, 1)
    assert scores.tolist() == pytest.approx([expected, 0.0], rel=1e-5)


def test_ndcg_counts_the_first_ten() -> None:
    grades = np.array([[0.0, 2.0, 0.0], [0.0, 0.0, 0.0]])
    found = ndcg(grades, np.array([2.0, 1.0]))
    assert found.tolist() == pytest.approx([1 / np.log2(3), 0.0])
