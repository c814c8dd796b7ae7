"""Tell identifiers apart as bags of phrases: a loss that PIXAR's paper does not have.

Decoding by `bag_cos` compares the pooled vector with the weighted sum of an identifier's rows. The
paper's losses teach which phrases are likely, one by one; here whole identifiers of a batch compete
for each query:

    −log e^{s·cos(x₀, b⁺)} / (e^{s·cos(x₀, b⁺)} + Σ_b e^{s·cos(x₀, b)})    b = Σ_p w_p r_p

with b over the identifiers drawn for the batch's other passages. Where processes split the head,
each adds up the rows that it holds, and the sums of all are added.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn import functional

from quoth.training.distribution import add_up
from quoth.training.split_table import TableSplit

SCALE = 20.0
"""What cosines are multiplied by."""


class Bags(NamedTuple):
    """How phrases are weighed, and whose identifiers were drawn for a batch."""

    weights: Tensor  # (P,)
    passages: Tensor  # (B,)


def bag_contrast(
    pooled: Tensor,  # (B, D)
    rows: Tensor,  # (P, D) the head's
    *,
    phrase_ids: Tensor,  # (B, K, S) int64, below 0 where there is none
    bags: Bags,
    unit: bool = True,
    scale: float = SCALE,
    split: TableSplit | None = None,
) -> Tensor:
    """Return the mean loss of all identifiers drawn; of none, zero."""
    found, is_there = bag_vectors(
        rows, phrase_ids=phrase_ids, weights=bags.weights, unit=unit, split=split
    )
    with torch.autocast(pooled.device.type, enabled=False):
        queries = functional.normalize(pooled.float(), dim=-1)
        scores = scale * queries @ found.flatten(0, 1).T  # (B, B · K)
    count = found.shape[1]
    owners = bags.passages.repeat_interleave(count)
    hidden = (bags.passages[:, None] == owners) | ~is_there.flatten()
    others = scores.masked_fill(hidden, -torch.inf).logsumexp(1, keepdim=True)
    own = scale * torch.einsum("bd,bkd->bk", queries, found)
    losses = functional.softplus(others - own)[is_there]
    return losses.mean() if len(losses) else losses.sum()


def bag_vectors(
    rows: Tensor,
    *,
    phrase_ids: Tensor,
    weights: Tensor,
    unit: bool,
    split: TableSplit | None = None,
) -> tuple[Tensor, Tensor]:  # (B, K, D), (B, K) bool
    """Return the direction of each identifier's weighted sum, and which identifiers there are.

    >>> rows, ids = torch.eye(2), torch.tensor([[[0, 1], [1, -1], [-1, -1]]])
    >>> weights = torch.tensor([3.0, 4.0])
    >>> bags, is_there = bag_vectors(rows, phrase_ids=ids, weights=weights, unit=True)
    >>> [[round(each, 2) for each in bag] for bag in bags[0].tolist()], is_there[0].tolist()
    ([[0.6, 0.8], [0.0, 1.0], [0.0, 0.0]], [True, True, False])
    """
    is_phrase = phrase_ids >= 0
    share = weights[phrase_ids.clamp_min(0)] * is_phrase
    places = phrase_ids - (0 if split is None else split.rows.start)
    if split is not None:
        share = share * ((places >= 0) & (places < len(rows)))
    own = rows[places.clamp(0, len(rows) - 1)].float()
    if unit:
        own = functional.normalize(own, dim=-1)
    sums = torch.einsum("bksd,bks->bkd", own, share)
    if split is not None:
        sums = add_up(sums)
    return functional.normalize(sums, dim=-1), is_phrase.any(2)
