"""The losses of PIXAR: what each slot is taught, and the three terms in one pass over the head."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from quoth.models.pixar.head import NUM_SYMBOLS
from quoth.models.pixar.network import PhraseHead, PixarVectors
from quoth.training.identifiers.large_softmax import CHUNK, VocabularySplit, large_softmax
from quoth.training.identifiers.pairs import NONE, TargetBatch
from quoth.training.split_table import TableSplit


class PixarLosses(NamedTuple):
    """The three sums, each over the number of phrases."""

    slots: Tensor  # ℓ₁
    pooled: Tensor  # ℓ₂
    normalisers: Tensor  # ℓ₃


def add_tail(targets: TargetBatch, *, tail: str, eos_id: int) -> Tensor:  # (B, K, S)
    """Say what slots after an identifier are taught; padding follows the end in the head.

    >>> two = TargetBatch(torch.tensor([[[7, 8, -1, -1]]]), torch.tensor([[2]]))
    >>> [add_tail(two, tail=tail, eos_id=9).flatten().tolist() for tail in ("eos", "pad", "none")]
    [[7, 8, 9, -1], [7, 8, 9, 10], [7, 8, -1, -1]]
    """
    wanted, lengths = targets.phrase_ids, targets.lengths[..., None]
    slots = torch.arange(wanted.shape[-1], device=wanted.device)
    if tail in ("eos", "pad"):
        wanted = wanted.masked_fill((slots == lengths) & (lengths > 0), eos_id)
    if tail == "pad":
        wanted = wanted.masked_fill((slots > lengths) & (lengths > 0), eos_id + 1)
    return wanted


def pixar_losses(
    vectors: PixarVectors,
    head: PhraseHead,
    *,
    wanted: Tensor,  # (B, K, S) int64 rows of the head, NONE where nothing is taught
    chunk: int = CHUNK,
    dtype: torch.dtype = torch.float32,
    split: TableSplit | None = None,
) -> PixarLosses:
    """Compute the three terms in one pass over the head; products are made in `dtype`."""
    num_rows = len(head.bias) if split is None else split.total
    is_wanted = wanted != NONE
    count = is_wanted.any(2).sum(1).clamp_min(1)  # (B,) targets of each query
    shares = is_wanted / count[:, None, None]  # (B, K, S)
    use = shares.sum(1)  # (B, S) share of the targets that teach a slot
    active = use > 0
    number = active.flatten().cumsum(0).view_as(active) - 1  # which active slot each is
    query, target, slot = is_wanted.nonzero(as_tuple=True)
    phrases, share = wanted[query, target, slot], shares[query, target, slot]
    is_phrase = phrases < num_rows - NUM_SYMBOLS
    slot_rows = number[query, slot]
    pooled_rows = active.sum() + query[is_phrase]
    terms = large_softmax(
        torch.cat((vectors.slots[active], vectors.pooled)),
        head.rows,
        targets=torch.cat((phrases, phrases[is_phrase])),
        target_rows=torch.cat((slot_rows, pooled_rows)),
        bias=head.bias,
        unit=head.unit,
        chunk=chunk,
        dtype=dtype,
        split=None if split is None else VocabularySplit(split.rows.start),
    )
    normalisers, total = terms.log_normalisers, share.sum().clamp_min(1e-12)
    of_slots = share * (normalisers[slot_rows] - terms.logits[: len(phrases)])
    of_pooled = share[is_phrase] * (normalisers[pooled_rows] - terms.logits[len(phrases) :])
    squares = use[active] * normalisers[: len(normalisers) - len(vectors.pooled)].square()
    return PixarLosses(of_slots.sum() / total, of_pooled.sum() / total, squares.sum() / total)
