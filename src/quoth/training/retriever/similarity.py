"""How near a query is to a passage: cosine, dot product, or squared distance. Pure.

Everything that searches or trains takes raw vectors through `shape_vectors` first, so that one
choice decides both. Higher is nearer, always.
"""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional

SIMILARITIES = ("cosine", "dot", "l2")


def shape_vectors(vectors: Tensor, *, similarity: str) -> Tensor:  # (…, D)
    """Bring vectors to unit length where the similarity is the cosine; at least in fp32.

    >>> shape_vectors(torch.tensor([3.0, 4.0]), similarity="cosine").tolist()
    [0.6000000238418579, 0.800000011920929]
    """
    whole = vectors.to(torch.promote_types(vectors.dtype, torch.float32))
    return functional.normalize(whole, dim=-1) if similarity == "cosine" else whole


def score_all(query_vectors: Tensor, vectors: Tensor, *, similarity: str) -> Tensor:  # (B, N)
    """Score every vector for every query.

    >>> queries, others = torch.tensor([[1.0, 0.0]]), torch.tensor([[2.0, 0.0], [0.0, 1.0]])
    >>> score_all(queries, others, similarity="dot").tolist()
    [[2.0, 0.0]]
    >>> score_all(queries, others, similarity="l2").tolist()
    [[-1.0, -2.0]]
    """
    products = query_vectors @ vectors.T
    if similarity != "l2":
        return products
    lengths = query_vectors.square().sum(-1)[:, None] + vectors.square().sum(-1)[None, :]
    return 2 * products - lengths


def score_own(query_vectors: Tensor, vectors: Tensor, *, similarity: str) -> Tensor:  # (B, K)
    """Score each query's own vectors (B, K, D).

    >>> queries, own = torch.tensor([[1.0, 0.0]]), torch.tensor([[[2.0, 0.0], [0.0, 1.0]]])
    >>> score_own(queries, own, similarity="l2").tolist()
    [[-1.0, -2.0]]
    """
    if similarity == "l2":
        return -(vectors - query_vectors[:, None, :]).square().sum(-1)
    return torch.einsum("bd,bkd->bk", query_vectors, vectors)
