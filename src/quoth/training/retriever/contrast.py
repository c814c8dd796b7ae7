"""The contrastive loss of queries against passages, in either layout of the thesis' Table 6.1.

`info_nce` of `losses` in terms of scores instead of cosines, so that it serves every similarity.
"""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import functional

from quoth.training.retriever.negatives import in_batch_mask
from quoth.training.retriever.neighbourhood import Distinct
from quoth.training.retriever.passage_set import PassageSet
from quoth.training.retriever.retriever import VectorMaker
from quoth.training.retriever.similarity import score_all

Rows = NDArray[np.int64]


def in_batch_loss(
    scores: Tensor,  # (B, N), the first B columns are the queries' own positives
    mask: Tensor,  # (B, N), True where a column is no negative of the query
    *,
    scale: float,
) -> Tensor:
    """Return the mean of −log softmax(scale · score) at each query's own positive (Eq. 4.4).

    >>> scores = torch.tensor([[1.0, 0.0], [0.0, 1.0]])
    >>> round(in_batch_loss(scores, torch.eye(2).bool(), scale=1.0).item(), 4)  # ln(1 + 1/e)
    0.3133
    """
    own = torch.arange(len(scores), device=scores.device)
    others = mask.to(scores.device, copy=True)
    others[own, own] = False
    return functional.cross_entropy((scale * scores).masked_fill(others, float("-inf")), own)


def one_of_n_loss(scores: Tensor, *, scale: float) -> Tensor:  # (B, 1 + N)
    """Return the mean of −log softmax(scale · score) at the first column, each query's positive.

    >>> round(one_of_n_loss(torch.tensor([[0.0, 0.0, 0.0]]), scale=1.0).item(), 4)  # ln 3
    1.0986
    """
    first = torch.zeros(len(scores), dtype=torch.long, device=scores.device)
    return functional.cross_entropy(scale * scores, first)


def contrast_in_batch(
    retriever: VectorMaker,
    query_vectors: Tensor,  # (B, D)
    passage_set: PassageSet,
    rows: Rows,  # (B,)
    columns: Rows,  # (N,) passages, the first B the queries' positives
    *,
    scale: float,
) -> Tensor:
    """Encode the passages of a batch and give the in-batch loss."""
    distinct = Distinct.of(columns, query_vectors.device)
    vectors = retriever.encode_passages(passage_set.passage_batch(distinct.rows))[distinct.places]
    return compare_in_batch(
        query_vectors, vectors, passage_set, rows, columns, scale=scale, how=retriever.similarity
    )


def compare_in_batch(
    query_vectors: Tensor,  # (B, D)
    vectors: Tensor,  # (N, D)
    passage_set: PassageSet,
    rows: Rows,  # (B,)
    columns: Rows,  # (N,)
    *,
    scale: float,
    how: str,
) -> Tensor:
    """Return the in-batch loss of vectors that are there already."""
    mask = in_batch_mask(columns[: len(rows)], columns, passage_set.excluded_rows[rows])
    with torch.autocast(query_vectors.device.type, enabled=False):
        scores = score_all(query_vectors, vectors, similarity=how)
        return in_batch_loss(scores, mask, scale=scale)
