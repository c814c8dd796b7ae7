"""Exact search: every chosen vector is scored.

Two steps, so that the result is defined by `score_codes` alone and is the same however the vectors
are spread over segments. A matrix product in float32 first keeps every vector that could be among
the k best rows, given how far its rounding can be off; those few are then scored and ranked.
Memory stays bounded: vectors are converted a block at a time, and kept converted only where all of
them are few (`vectors.KEPT_BYTES`).
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from quoth.index.dense.rank import Found, kth_row_score, rank
from quoth.index.dense.storage import Floats, score_codes, widen
from quoth.index.dense.vectors import Block, Places, StoredVectors

BLOCK_BYTES = 1 << 24
"""Most that one block of vectors takes once converted."""

_QUERIES_AT_ONCE = 256
_ROUNDING = 2.0**-24  # half the distance of float32 numbers next to 1


def block_size(width: int) -> int:
    """How many vectors of this width make a block."""
    return max(1, BLOCK_BYTES // (4 * max(1, width)))


def top_k_exact(
    vectors: StoredVectors, places: Places, query_vectors: Floats, *, k: int
) -> list[list[Found]]:
    """Find the k best rows of each query among the vectors at some places, best first."""
    found: list[list[Found]] = []
    for start in range(0, len(query_vectors), _QUERIES_AT_ONCE):
        queries = query_vectors[start : start + _QUERIES_AT_ONCE]
        kept = _contenders(vectors, places, queries, k=k)
        pairs = zip(kept, queries, strict=True)
        found += [rank_places(vectors, each, query, k=k) for each, query in pairs]
    return found


def rank_places(
    vectors: StoredVectors, places: Places, query_vector: Floats, *, k: int
) -> list[Found]:
    """Score the vectors at some places and list their k best rows."""
    labels, scores = [], []
    for block in vectors.blocks(places, num_vectors=block_size(2 * vectors.width)):
        labels.append(block.labels)
        scores.append(score_codes(block.codes, block.labels["scale"], query_vector))
    if not labels:
        return []
    every = np.concatenate(labels)
    return rank(every["row"], every["unit"], np.concatenate(scores), k=k)


def _contenders(
    vectors: StoredVectors, places: Places, query_vectors: Floats, *, k: int
) -> list[Places]:
    """Keep, for each query, the places that can hold one of its k best rows."""
    slack = 2 * _ROUNDING * (vectors.width + 8) * vectors.longest
    lengths = np.linalg.norm(query_vectors.astype(np.float64), axis=1)
    kept = [_Contenders(k, slack * float(each)) for each in lengths]
    for block in vectors.blocks(places, num_vectors=block_size(vectors.width)):
        rows = vectors.rows[block.places]
        for each, scores in zip(kept, _multiply(block, query_vectors), strict=True):
            each.offer(block.places, rows, scores)
    return [each.places for each in kept]


def _multiply(block: Block, query_vectors: Floats) -> Floats:
    """Score a block against all queries, (B, N), with the rounding errors of a matrix product."""
    wide = widen(block.codes) if block.wide is None else block.wide
    scores = query_vectors @ wide.T
    if block.codes.dtype == np.int8:
        scores *= block.labels["scale"]
    return scores


class _Contenders:
    """The places that one query cannot rule out yet."""

    def __init__(self, k: int, slack: float) -> None:
        self._k = k
        self._slack = slack
        self._floor = -math.inf
        self.places: Places = np.empty(0, dtype=np.int64)
        self._rows: NDArray[np.int64] = np.empty(0, dtype=np.int64)
        self._scores: Floats = np.empty(0, dtype=np.float32)

    def offer(self, places: Places, rows: NDArray[np.int64], scores: Floats) -> None:
        """Take what may be among the k best rows of all that was offered."""
        worth = scores >= self._floor
        if not worth.any():
            return
        self.places = np.concatenate([self.places, places[worth]])
        self._rows = np.concatenate([self._rows, rows[worth]])
        self._scores = np.concatenate([self._scores, scores[worth]])
        # Any k-th row is at least this good once scored exactly, and any of the k best looks at
        # most one error worse than it is: hence twice the error below the k-th.
        self._floor = kth_row_score(self._rows, self._scores, k=self._k) - self._slack
        self._keep(self._scores >= self._floor)

    def _keep(self, worth: NDArray[np.bool_]) -> None:
        self.places, self._rows = self.places[worth], self._rows[worth]
        self._scores = self._scores[worth]
