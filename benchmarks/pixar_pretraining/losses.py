"""What is lost on a batch, over the identifiers of its passages; pure functions.

bag       passages compete for a query by their identifiers' cosines c = s·cos(x₀, b):
          log Σ e^c + half the mean of c
words     likewise, each phrase scored by x₀ and by the word of the query that knows it best
teacher   KL to a mix of an untrained encoder's cosines and BM25, over single identifiers
ordered   passages compete by the paper's own scores: mean over slots of x_t · w + bias
paper     ℓ₁ + λ₂ ℓ₂ + λ₃ ℓ₃ over the whole vocabulary, its other rows refreshed now and then
"""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional

from quoth.models.pixar.network import PixarVectors


def count_phrases(spots: Tensor, is_there: Tensor, *, count: int) -> Tensor:  # (I, V)
    """Count how often each phrase stands in each identifier."""
    sheet = torch.zeros(len(spots), count, device=spots.device)
    return sheet.scatter_add_(1, spots, is_there.float())


def match_words(words: Tensor | None, rows: Tensor, *, at_once: int = 64) -> Tensor:  # (B, V)
    """Score phrases by the word of the query that knows each best, if any does at all."""
    assert words is not None
    kind = choose_kind(rows)
    table = rows.to(kind).T
    found = [(some.to(kind) @ table).amax(1) for some in words.split(at_once)]
    return torch.cat(found).float().clamp_min(0.0)


def choose_kind(tensor: Tensor) -> torch.dtype:
    """Compute large products in half the bits where a GPU does."""
    return torch.bfloat16 if tensor.is_cuda else torch.float32


def compete(
    scores: Tensor,  # (B, I)
    owner: Tensor,  # (I,)
    place: Tensor,  # (B,)
    *,
    count: int,
    mean_share: float,
    lent: Tensor | None = None,
) -> Tensor:
    """Let passages compete by their best identifiers, softly, and a share of the mean of all."""
    if lent is None:
        lent = torch.zeros_like(scores, dtype=torch.bool)
    legal = scores.masked_fill(lent, -1e4)
    top = legal.detach().amax(1, keepdim=True)
    empty = torch.zeros(len(scores), count, device=scores.device)
    logs = empty.index_add(1, owner, (legal - top).exp()).clamp_min(1e-30).log()
    counts = empty.index_add(1, owner, (~lent).float()).clamp_min(1.0)
    means = empty.index_add(1, owner, scores.masked_fill(lent, 0.0)) / counts
    return functional.cross_entropy(logs + mean_share * means, place)


def follow(scores: Tensor, wanted: Tensor) -> Tensor:  # both (B, I)
    """Return KL from what a teacher wants to what is found, both as scores."""
    wanted, found = wanted.log_softmax(1), scores.log_softmax(1)
    return (wanted.exp() * (wanted - found)).sum(1).mean()


def score_slots(
    vectors: PixarVectors, found: Tensor, ids: Tensor, *, bias: Tensor
) -> Tensor:  # (B, I)
    """Return the paper's scores of identifiers: means over slots of x_t · w + bias."""
    is_there = ids >= 0  # (I, S)
    kind = choose_kind(found)
    flat = (found * is_there[..., None]).flatten(1).to(kind)
    biases = (bias[ids.clamp_min(0)] * is_there).sum(1)
    slots = vectors.slots.flatten(1).to(kind)
    return ((slots @ flat.T).float() + biases) / is_there.sum(1)


def paper_losses(
    vectors: PixarVectors, target: Tensor, *, table: Tensor, bias: Tensor, some: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    """Return ℓ₁, ℓ₂ and ℓ₃ of some queries, each with one identifier (L,) as its target."""
    is_there = target >= 0
    kind = choose_kind(table)
    slots = vectors.slots[some][is_there]  # (targets, D)
    logits = (slots.to(kind) @ table.T.to(kind)).float() + bias
    normalisers = logits.logsumexp(1)
    first = (normalisers - logits.gather(1, target[is_there][:, None])[:, 0]).mean()
    pooled = (vectors.pooled[some].to(kind) @ table.T.to(kind)).float() + bias
    known = pooled.logsumexp(1, keepdim=True) - pooled.gather(1, target.clamp_min(0))
    second = (known * is_there).sum() / is_there.sum()
    return first, second, normalisers.square().mean()
