"""The order of hits by the signs of a table: pure functions on arrays.

Shapes: Q queries, P places (the hybrid's hits in their order, then documents beside them), K hits.
NaN stands where a sign is not known.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]
DEPTH, WIDTH, FEEDBACK, FEEDBACK_HITS = 30, 16.0, 0.6, 2
JUDGING = {"msmarco-dl1920": "dl19", "squad-train-slice": "train"}
"""Splits that judge, where they are not called test."""
_LEAST = -1e9


@dataclass(frozen=True)
class Table:
    """What is known of the hits of one collection's queries."""

    name: str
    about: dict[str, Any]
    columns: dict[str, Array]

    @classmethod
    def read(cls, path: Path) -> Table:
        """Read what `benchmarks.learn.ranking.table` wrote."""
        with np.load(path) as found:
            columns = {name: found[name] for name in found.files}
        about = json.loads(str(columns.pop("about")))
        return cls(about["set"], about, columns)

    def __getitem__(self, name: str) -> Array:
        return self.columns[name]

    @property
    def judges(self) -> Array:  # (Q,)
        """Which queries only judge; the others may choose."""
        splits = np.array([qid.split("/", 1)[0] for qid in self["qids"].tolist()])
        own: Array = splits == JUDGING.get(self.name, "test")
        return own

    @property
    def chooses(self) -> Array:  # (Q,)
        """Which queries may choose settings."""
        return ~self.judges


def ndcg(table: Table, scores: Array) -> Array:  # (Q, P) -> (Q,)
    """Return nDCG@10 of each query; what has no score is not ranked."""
    discounts = 1 / np.log2(np.arange(2, 12))
    known = np.where(np.isfinite(scores), scores, _LEAST)
    order = np.argsort(-known, axis=1, kind="stable")[:, :10]
    gains = np.take_along_axis(np.maximum(table["grade"], 0).astype(float), order, 1)
    gains *= np.take_along_axis(known, order, 1) > _LEAST
    ideal = (table["ideal"].astype(float) * discounts).sum(1)
    found: Array = (gains * discounts).sum(1) / np.maximum(ideal, 1e-9)
    return found


def mixed(
    table: Table, *, share: Array | float | None = None, depth: int = DEPTH
) -> Array:  # (Q, K)
    """Mix fused scores and relevance as the product does."""
    read = table["relevance"][:, :depth]
    weight = table.about["share"] if share is None else share
    scaled = (read - np.nanmin(read, 1, keepdims=True)) / WIDTH
    found: Array = (1 - weight) * table["fused"][:, :depth] + weight * scaled
    return found


def raised(
    table: Table, scores: Array, *, weight: float = FEEDBACK, hits: int = FEEDBACK_HITS
) -> Array:  # (Q, K)
    """Raise hits that are like the best ones, as `quoth.search.feedback` does."""
    known = np.where(np.isfinite(scores), scores, _LEAST)
    count = scores.shape[1]
    best = np.argsort(-known, axis=1, kind="stable")[:, :hits]  # (Q, R)
    alike = table["alike"][:, :count, :count].astype(np.float32) / 127
    ranks = (np.take_along_axis(known, best, 1) > _LEAST) / np.arange(1, best.shape[1] + 1)
    own = np.take_along_axis(alike, best[:, :, None], 1)  # (Q, R, K)
    among = np.take_along_axis(own, best[:, None, :], 2)  # (Q, R, R)
    length = np.sqrt(np.einsum("qi,qij,qj->q", ranks, among, ranks))
    cosines = np.einsum("qr,qrk->qk", ranks, own) / np.maximum(length, 1e-9)[:, None]
    cosines = np.where(np.isfinite(scores), cosines, np.nan)
    lifted: Array = scores + weight * (cosines - np.nanmin(cosines, 1, keepdims=True))
    return lifted


def counted(sign: Array, scores: Array, *, hits: int = DEPTH) -> Array:  # (Q, K)
    """Count a sign of the best hits so far from its mean over them; 0 for the others."""
    known = np.where(np.isfinite(scores), scores, _LEAST)
    best = np.argsort(-known, axis=1, kind="stable")[:, :hits]
    is_best = np.zeros(scores.shape, bool)
    np.put_along_axis(is_best, best, True, 1)
    seen = np.where(is_best & (known > _LEAST), sign[:, : scores.shape[1]], np.nan)
    found: Array = np.nan_to_num(seen - np.nanmean(seen, 1, keepdims=True))
    return found
