"""Judge a retriever by pseudo-queries that were held out: where does it rank their positive?

What should be found is the passage a query was generated from, or that a stretch was taken from
and held out; for other queries it is BM25's choice, and rising above that with reason looks like
a loss. It is what there is without labels: enough to see overtraining, not to claim a gain.
"""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from quoth.errors import ConfigError
from quoth.selfsupervision.pseudo_pairs import KINDS
from quoth.training.retriever.learning import Validate
from quoth.training.retriever.passage_set import NONE, PassageSet
from quoth.training.retriever.refresh import encode_passages, encode_queries, top_k
from quoth.training.retriever.retriever import VectorMaker

Rows = NDArray[np.int64]


def held_out_mrr(
    passage_set: PassageSet,
    *,
    k: int = 10,
    most: int = 2000,
    targets: Rows | None = None,
    most_passages: int | None = None,
) -> Validate:
    """Make a validation: MRR@k of the held-out queries' passages among all.

    At most `most` queries are used, evenly spread. `targets` (Q,) names the passages to find.
    Where encoding is slow, `most_passages` lets them be found among fewer: the targets, and what is
    easily taken for them, the best passages of BM25. The figure is higher then, but still tells a
    better retriever from a worse one.
    """
    rows = passage_set.held_out_rows
    if not len(rows):
        raise ConfigError("no query is held out; raise held_out_share to validate")
    rows = rows[np.linspace(0, len(rows) - 1, min(most, len(rows))).astype(int)]
    wanted = (natural_targets(passage_set) if targets is None else targets)[rows]
    excluded = passage_set.excluded_rows[rows]
    excluded = np.where(excluded == wanted[:, None], NONE, excluded)
    among = _hardest(wanted, passage_set, passage_set.lexical_rows[rows], most_passages)
    places = places_in(among, wanted)

    def judge(retriever: VectorMaker) -> float:
        found = top_k(
            encode_queries(retriever, passage_set, rows),
            encode_passages(retriever, passage_set, among),
            k=min(k, len(among)),
            similarity=retriever.similarity,
            excluded=places_in(among, excluded),
        )
        return mean_reciprocal_rank(found, torch.from_numpy(places).to(found.device))

    return judge


def places_in(among: Rows, rows: Rows) -> Rows:
    """Return the place of each row in a sorted choice of rows, NONE where it was not chosen.

    >>> places_in(np.array([2, 5, 9]), np.array([[9, 3], [2, -1]])).tolist()
    [[2, -1], [0, -1]]
    """
    places = np.minimum(np.searchsorted(among, rows), len(among) - 1)
    return np.where(among[places] == rows, places, NONE)


def _hardest(wanted: Rows, passage_set: PassageSet, lexical_rows: Rows, most: int | None) -> Rows:
    """Choose the passages to find others among: all, or the wanted ones and BM25's best first."""
    every = np.arange(passage_set.num_passages)
    if most is None or most >= len(every):
        return np.unique(np.concatenate((wanted, every)))
    by_rank = lexical_rows.T.reshape(-1)  # the first of all queries, the second of all, …
    ranked = np.concatenate((wanted, by_rank[by_rank != NONE], every))
    first = np.sort(np.unique(ranked, return_index=True)[1])
    return np.sort(ranked[first[: max(most, len(np.unique(wanted)))]])


def natural_targets(passage_set: PassageSet) -> Rows:  # (Q,)
    """Return the passage each query should find: its source where it is free text or held out.

    The positives of other queries are passages that can be found, as BM25 did.
    """
    is_copy = passage_set.positive_rows >= passage_set.num_passages
    is_generated = passage_set.kinds == KINDS.index("generated")
    from_source = (is_copy | is_generated) & (passage_set.source_rows != NONE)
    return np.where(from_source, passage_set.source_rows, passage_set.positive_rows)


def mean_reciprocal_rank(found: Tensor, wanted: Tensor) -> float:  # (B, K), (B,)
    """Return the mean of one over the rank of each query's passage, 0 where it was not found.

    >>> mean_reciprocal_rank(torch.tensor([[4, 7], [5, 6]]), torch.tensor([7, 9]))
    0.25
    """
    hits = (found == wanted[:, None]).float()
    ranks = torch.arange(1, found.shape[1] + 1, device=found.device)
    return float((hits / ranks).sum(1).mean())
