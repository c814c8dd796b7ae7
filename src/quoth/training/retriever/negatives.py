"""Which passages a query is told apart from: negative types and layouts of the thesis' Table 6.1.

Types: random (any passage), bm25 (further down BM25's list), labelled (judged not relevant),
retriever (what the encoder being trained finds itself), none (only what the batch holds anyway).
Layouts: one_of_n compares each query with its own few negatives; in_batch with the positives of the
whole batch and, where a type is chosen, with one more negative per query, shared by all.

The thesis found in-batch positives enough, and negatives mined by the retriever destructive where
relevant passages are unlabelled.
"""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from quoth.errors import ConfigError
from quoth.training.retriever.passage_set import NONE, PassageSet

NEGATIVES = ("none", "random", "bm25", "labelled", "retriever")
LAYOUTS = ("in_batch", "one_of_n")

Rows = NDArray[np.int64]


def draw_negatives(
    passage_set: PassageSet,
    rows: Rows,  # (B,) queries
    *,
    kind: str,
    count: int,
    chance: np.random.Generator,
    retrieved: Rows | None = None,  # (B, K) what the retriever finds, for that kind
) -> Rows:  # (B, count)
    """Draw negatives for queries, none of them its positive or excluded; random ones fill up."""
    pool = _pool(passage_set, rows, kind=kind, retrieved=retrieved)
    drawn = np.empty((len(rows), count), dtype=np.int64)
    for at, row in enumerate(rows):
        forbidden = {int(passage_set.positive_rows[row]), *passage_set.excluded_rows[row].tolist()}
        own = [each for each in pool[at].tolist() if each != NONE and each not in forbidden]
        if len(own) > count:
            own = chance.permutation(own)[:count].tolist()
        own += _any_passages(passage_set, count - len(own), {*forbidden, *own}, chance)
        drawn[at] = own
    return drawn


def chance_from(generator: torch.Generator) -> np.random.Generator:
    """Seed numpy from a torch generator, whose state is part of every checkpoint."""
    seed = torch.randint(2**31, (), generator=generator, device=generator.device)
    return np.random.default_rng(int(seed))


def in_batch_mask(
    positives: Rows,  # (B,)
    columns: Rows,  # (N,) what each query is compared with; the first B are the positives
    excluded: Rows,  # (B, E)
) -> Tensor:  # (B, N)
    """Mark columns that are no negative of a query: its own positive again, and what it excludes.

    >>> mask = in_batch_mask(np.array([4, 5]), np.array([4, 5, 4, 6]), np.array([[6], [-1]]))
    >>> mask.int().tolist()
    [[1, 0, 1, 1], [0, 1, 0, 0]]
    """
    same = positives[:, None] == columns[None, :]
    forbidden = (excluded[:, :, None] == columns[None, None, :]).any(1)
    return torch.from_numpy(same | forbidden)


def _pool(
    passage_set: PassageSet, rows: Rows, *, kind: str, retrieved: Rows | None
) -> Rows:  # (B, any)
    """List what may be drawn first; random has no list."""
    if kind == "bm25":
        return passage_set.lexical_rows[rows, 1:]
    if kind == "labelled":
        own = passage_set.negative_rows[rows]
        if (passage_set.negative_rows == NONE).all():
            raise ConfigError(
                "no query has passages judged not relevant; choose other negatives than labelled"
            )
        return own
    if kind == "retriever":
        assert retrieved is not None, "who asks for these negatives retrieves them"
        return retrieved
    return np.full((len(rows), 1), NONE, dtype=np.int64)


def _any_passages(
    passage_set: PassageSet, count: int, forbidden: set[int], chance: np.random.Generator
) -> list[int]:
    """Draw passages uniformly, without repeats."""
    free = passage_set.num_passages - len([each for each in forbidden if each >= 0])
    if free < count:
        raise ConfigError(
            f"{passage_set.num_passages} passages are too few for {count} negatives of a query;"
            " lower num_negatives"
        )
    drawn: list[int] = []
    while len(drawn) < count:
        each = int(chance.integers(passage_set.num_passages))
        if each not in forbidden and each not in drawn:
            drawn.append(each)
    return drawn
