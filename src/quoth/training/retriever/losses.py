"""What the dual encoder is trained to lower: pure functions on unit vectors.

`bce_with_sampled_negatives` is GLOW's loss as its released code computes it: one document of the
batch per query, drawn with a chance that grows with its likeness, is pushed away, and the query's
own document is pulled near. `info_nce` compares each query with all documents of the batch.
Likely duplicates never count as negatives: equal documents, and pairs whose queries are alike.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional

QUERY_SIMILARITY = 0.90
"""Queries more alike than this (cosine) are taken to ask the same thing, as in the paper."""


class PairScorer(nn.Module):
    """The trainable line that turns a cosine into a logit: scale · cos + bias."""

    def __init__(self, scale: float = 1.0, bias: float = 0.0) -> None:
        super().__init__()
        self.scale = nn.Parameter(torch.tensor(scale))
        self.bias = nn.Parameter(torch.tensor(bias))

    def forward(self, cosines: Tensor) -> Tensor:
        """Return the logits of cosines."""
        return self.scale * cosines + self.bias


def duplicate_mask(
    query_vectors: Tensor,  # (B, D)
    *,
    document_ids: Tensor | None = None,  # (B,)
    query_similarity: float = QUERY_SIMILARITY,
    centre: bool = False,
) -> Tensor:  # (B, B)
    """Mark the pairs (i, j) whose document j is no negative of query i; the diagonal is marked.

    The vectors of an encoder that is not yet trained lie in a narrow cone: all queries look alike,
    no negative is left and the encoder collapses. `centre` compares them seen from their mean.

    >>> duplicate_mask(torch.eye(3), document_ids=torch.tensor([7, 8, 7])).int().tolist()
    [[1, 0, 1], [0, 1, 0], [1, 0, 1]]
    >>> cone = functional.normalize(torch.eye(3) + 9.0, dim=1)
    >>> [int(duplicate_mask(cone, centre=centre).sum()) for centre in (False, True)]
    [9, 3]
    """
    mask = query_likeness(query_vectors, centre=centre) > query_similarity
    mask = mask | torch.eye(len(mask), dtype=torch.bool, device=mask.device)
    if document_ids is not None:
        mask = mask | (document_ids[:, None] == document_ids[None, :])
    return mask


def query_likeness(
    query_vectors: Tensor, others: Tensor | None = None, *, centre: bool = False
) -> Tensor:  # (B, N)
    """Return the cosines of queries with others (each other), without gradient.

    `centre` sees all from the others' mean.
    """
    first = query_vectors.detach()
    second = first if others is None else others.detach()
    if centre and len(second) > 2:  # two points lie opposite each other, whatever they are
        mean = second.mean(dim=0)
        first, second = (functional.normalize(each - mean, dim=1) for each in (first, second))
    return first @ second.T


def sample_negatives(
    cosines: Tensor,  # (B, B)
    *,
    mask: Tensor,  # (B, B), True where a document is no negative
    temperature: float,
    generator: torch.Generator,
) -> Tensor:  # (B,)
    """Draw one document per query from softmax(temperature · cosine) over the unmasked ones.

    Gumbel noise makes the argmax such a draw. A query whose documents are all masked gets an
    arbitrary one: leave its row out.
    """
    logits = (temperature * cosines.detach()).masked_fill(mask, float("-inf"))
    uniform = torch.rand(logits.shape, generator=generator, device=logits.device)
    gumbel = -torch.log(-torch.log(uniform.clamp(1e-20, 1 - 1e-7)))
    return (logits + gumbel).argmax(dim=1)


def bce_with_sampled_negatives(
    query_vectors: Tensor,  # (B, D)
    document_vectors: Tensor,  # (B, D)
    *,
    scale: Tensor,
    bias: Tensor,
    temperature: float,
    generator: torch.Generator,
    query_similarity: float = QUERY_SIMILARITY,
    centre: bool = False,
    document_ids: Tensor | None = None,  # (B,)
    labels: Tensor | None = None,  # (B,), 1 where a query and its document match
) -> Tensor:
    """Return half the loss of the given pairs and half that of one drawn negative per query."""
    cosines = query_vectors @ document_vectors.T
    mask = duplicate_mask(
        query_vectors,
        document_ids=document_ids,
        query_similarity=query_similarity,
        centre=centre,
    )
    chosen = sample_negatives(cosines, mask=mask, temperature=temperature, generator=generator)
    has_negative = (~mask).any(dim=1).to(cosines.dtype)
    negatives = scale * cosines.gather(1, chosen[:, None]).squeeze(1) + bias
    positives = scale * cosines.diagonal() + bias
    wanted = torch.ones_like(positives) if labels is None else labels.to(positives.dtype)
    against = functional.softplus(negatives) * has_negative  # BCE with label 0
    return 0.5 * (
        against.sum() / has_negative.sum().clamp_min(1)
        + functional.binary_cross_entropy_with_logits(positives, wanted)
    )


def info_nce(
    query_vectors: Tensor,  # (B, D)
    document_vectors: Tensor,  # (N, D), the first B belong to the queries
    *,
    scale: float | Tensor,
    mask: Tensor | None = None,  # (B, N), True where a document is no negative
    symmetric: bool = False,
) -> Tensor:
    """Return the mean of −log softmax(scale · cosine) at each query's own document.

    `symmetric` adds the same over the queries of each document, and halves the sum.
    """
    logits = scale * (query_vectors @ document_vectors.T)
    count = len(query_vectors)
    own = torch.arange(count, device=logits.device)
    if mask is not None:
        others = mask.clone()
        others[own, own] = False
        logits = logits.masked_fill(others, float("-inf"))
    loss = functional.cross_entropy(logits, own)
    if not symmetric:
        return loss
    return 0.5 * (loss + functional.cross_entropy(logits[:, :count].T, own))
