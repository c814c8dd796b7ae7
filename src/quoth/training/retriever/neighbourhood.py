"""The passages that the queries of a step are explained by: found, explored, encoded afresh.

The stale index picks; a few exploration passages (BM25's, or random ones) take the last places, so
that there is always something to be told apart from. What is picked is encoded again with the
current weights and with gradient, each distinct passage of the batch once.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from quoth.training.retriever.negatives import draw_negatives
from quoth.training.retriever.passage_set import NONE, PassageSet
from quoth.training.retriever.refresh import PassageIndex
from quoth.training.retriever.retriever import VectorMaker
from quoth.training.retriever.similarity import score_own

EXPLORATIONS = ("bm25", "random")

Rows = NDArray[np.int64]


class Distinct(NamedTuple):
    """The distinct passages of a batch, and where each place of an array finds its own."""

    rows: Rows  # (U,)
    places: Tensor  # of the array's shape

    @classmethod
    def of(cls, rows: Rows, device: torch.device) -> Distinct:
        """Find the distinct rows of an array of any shape."""
        unique, places = np.unique(rows, return_inverse=True)
        return cls(unique, torch.from_numpy(places.reshape(rows.shape)).to(device))


def find_neighbours(
    index: PassageIndex,
    query_vectors: Tensor,  # (B, D)
    passage_set: PassageSet,
    rows: Rows,  # (B,) the queries
    *,
    k: int,
    similarity: str,
) -> Rows:  # (B, K)
    """Look up neighbours of queries, leaving out what they must not find."""
    with torch.no_grad(), torch.autocast(query_vectors.device.type, enabled=False):
        found = index.top_k(
            query_vectors.detach(),
            k=k,
            similarity=similarity,
            excluded=passage_set.excluded_rows[rows],
        )
    return np.asarray(found.cpu().numpy(), dtype=np.int64)


def explore(
    neighbours: Rows,  # (B, K)
    passage_set: PassageSet,
    rows: Rows,  # (B,) the queries
    *,
    count: int,
    kind: str,
    chance: np.random.Generator,
) -> Rows:  # (B, K)
    """Put exploration passages in the last places: BM25's best that are missing, or random ones."""
    if not count:
        return neighbours
    drawn = draw_negatives(passage_set, rows, kind="random", count=2 * count, chance=chance)
    mixed = neighbours.copy()
    for at, row in enumerate(rows):
        kept = neighbours[at, :-count].tolist()
        listed = passage_set.lexical_rows[row].tolist() if kind == "bm25" else []
        free = [each for each in [*listed, *drawn[at].tolist()] if each not in kept]
        chosen = list(dict.fromkeys(each for each in free if each != NONE))[:count]
        mixed[at, len(kept) : len(kept) + len(chosen)] = chosen
    return mixed


def score_neighbours(
    retriever: VectorMaker,
    query_vectors: Tensor,  # (B, D)
    vectors: Tensor,  # (U, D) of the distinct passages
    places: Tensor,  # (B, K)
) -> Tensor:  # (B, K)
    """Score each query's neighbours in full precision."""
    with torch.autocast(vectors.device.type, enabled=False):
        return score_own(query_vectors, vectors[places], similarity=retriever.similarity)
