"""The product's fusion, calibration and reranking over whole matrices of scores.

The formulas are those of `quoth.search.hybrid.fusion` and `quoth.search.rerank`; only that all
documents of all queries are scored at once. The choice among weights and shares is the product's
own code.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from quoth.records import Hit
from quoth.search.hybrid import calibration as product
from quoth.search.hybrid.calibration import Target, choose_weights, stratify, weight_grid
from quoth.search.hybrid.fusion_config import CalibrationConfig
from quoth.search.rerank_share import RerankTrial, calibrate_share

DEPTH, READ = 100, 30
WIDTH, SHARE = 16.0, 0.4
NAMES = ("lexical", "dense")


@dataclass(frozen=True)
class Weighing:
    """What a collection's calibration found."""

    weights: tuple[float, float]  # of BM25 and of the vectors
    widths: tuple[float, float] | None
    share: float = SHARE


@dataclass(frozen=True)
class Side:
    """One searcher's scores of all documents, of which the first hundred count."""

    scores: Tensor  # (Q, N)
    is_lexical: bool

    def offsets(self) -> tuple[Tensor, Tensor]:
        """Return the score at the depth of fusion and the best score of each query, (Q, 1)."""
        best = self.scores.topk(min(DEPTH, self.scores.shape[1]), dim=1).values
        last = best[:, -1:]
        return last.clamp_min(0.0) if self.is_lexical else last, best[:, :1]

    def usual_width(self) -> float:
        """Return how far scores reach on average."""
        last, best = self.offsets()
        found = (
            best[:, 0] != 0 if self.is_lexical else torch.ones_like(best[:, 0], dtype=torch.bool)
        )
        return float((best - last)[found].mean())

    def scaled(self, width: float | None) -> Tensor:  # (Q, N)
        """Bring scores to the usual range, or each query's to its own; 0 below the depth."""
        last, best = self.offsets()
        if width is None:
            floor = self.scores.masked_fill(self.scores <= 0, torch.inf).amin(1, keepdim=True)
            last = (
                torch.maximum(last, floor.where(floor < torch.inf, 0.0))
                if self.is_lexical
                else last
            )
            return (self.scores - last).clamp_min(0.0) / (best - last).clamp_min(1e-9)
        return (self.scores - last).clamp_min(0.0) / width


def fuse(lexical: Side, dense: Side, how: Weighing) -> Tensor:  # (Q, N)
    """Fuse as the product does."""
    widths = how.widths or (None, None)
    own = (lexical.scaled(widths[0]), dense.scaled(widths[1]))
    return how.weights[0] * own[0] + how.weights[1] * own[1]


def weigh(
    lexical: Side, dense: Side, targets: Sequence[tuple[int, float]], *, seed: int = 0
) -> Weighing:
    """Calibrate the weights of fusion by known items: each one's document, and its overlap."""
    config = CalibrationConfig(normalise="range", depth=DEPTH, seed=seed)
    if len(targets) < config.min_queries:
        return Weighing((0.5, 0.5), None)
    widths = lexical.usual_width(), dense.usual_width()
    scaled = lexical.scaled(widths[0]), dense.scaled(widths[1])
    rows = torch.tensor([row for row, _overlap in targets], device=lexical.scores.device)
    gains = {
        weights: _worth(weights[0] * scaled[0] + weights[1] * scaled[1], rows, config)
        for weights in weight_grid(2, steps=config.steps)
    }
    named = [Target(str(at), str(row), each) for at, (row, each) in enumerate(targets)]
    strata = tuple(stratify([each for _row, each in targets], config=config).values())
    columns = {
        "lexical": gains[1.0, 0.0],
        "dense": gains[0.0, 1.0],
        product.FUSED: product._cross_validate(gains, named, strata=strata, config=config),
    }
    chosen, _fell_back, _reason = product._decide(
        columns, choose_weights(gains, strata=strata), strata=strata, config=config
    )
    return Weighing((chosen[0], chosen[1]), widths)


def _worth(fused: Tensor, rows: Tensor, config: CalibrationConfig) -> list[float]:
    """Return the reciprocal rank of each query's document, 0 beyond the cut or unfound."""
    own = fused.gather(1, rows[:, None])
    ranks = (fused > own).sum(1) + 1
    found = (own[:, 0] > 0) & (ranks <= config.k)
    return torch.where(found, 1.0 / ranks, 0.0).tolist()


def choose_share(
    hits: Sequence[Sequence[tuple[int, float]]],
    scores: Sequence[Sequence[float]],
    targets: Sequence[tuple[int, float]],
) -> float:
    """Calibrate the share of reranking by what was read of the known items' hits."""
    trials = [
        RerankTrial(str(row), overlap, [Hit(str(r), s) for r, s in own], read)
        for own, read, (row, overlap) in zip(hits, scores, targets, strict=True)
        if row in {r for r, _score in own}
    ]
    config = CalibrationConfig(normalise="range", depth=DEPTH)
    return calibrate_share(trials, default=SHARE, model="", config=config, width=WIDTH).share


def rerank(
    fused: NDArray[np.float32], read: NDArray[np.float32], share: float
) -> NDArray[np.int64]:
    """Return the new order of each query's first hits (Q, READ)."""
    mixed = (1 - share) * fused + share * (read - read.min(1, keepdims=True)) / WIDTH
    return np.argsort(-mixed, axis=1, kind="stable")


def ndcg(grades: NDArray[np.float64], ideal: NDArray[np.float64]) -> NDArray[np.float64]:  # (Q,)
    """Return nDCG@10 of ranked grades (Q, ≥ 10); `ideal` is the DCG of the best order."""
    first = np.maximum(grades[:, :10], 0)
    reached = (first / np.log2(2 + np.arange(first.shape[1]))).sum(1)
    return np.divide(reached, ideal, out=np.zeros_like(reached), where=ideal > 0)
