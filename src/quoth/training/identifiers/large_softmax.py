"""Softmax over a vocabulary too large to hold one logit per row and phrase.

The head is read chunk by chunk: forward keeps one running log-normaliser per row and picks the
logits of the targets; backward computes each chunk again. Normalisers are added up in fp32 whatever
the products are in, and products of bf16 give fp32, since a logit near 30 has steps of 1/8 in bf16.
Rows may be brought to unit length inside the chunk, so no second copy of the head ever exists.

With a `VocabularySplit` each process holds a stretch of the head and all hold the same rows; terms
and gradients are those of the whole head.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
from torch import Tensor, distributed

from quoth.errors import ConfigError

CHUNK = 8192
"""Rows of the head whose logits are held at once."""


class SoftmaxTerms(NamedTuple):
    """What every loss over the softmax is made of; log p(target) = logit − log-normaliser."""

    logits: Tensor  # (targets,)
    log_normalisers: Tensor  # (N,)


@dataclass(frozen=True, slots=True)
class VocabularySplit:
    """Which stretch of the vocabulary this process holds, and who holds the others."""

    first: int
    """The phrase that the first row of this process's head stands for."""

    group: distributed.ProcessGroup | None = None
    """The processes that share the vocabulary; None is all of them."""


def large_softmax(
    rows: Tensor,  # (N, D)
    head: Tensor,  # (P, D)
    *,
    targets: Tensor,  # (targets,) int64 phrases
    target_rows: Tensor | None = None,  # (targets,) int64; None is one target per row
    bias: Tensor | None = None,  # (P,)
    unit: bool = False,
    chunk: int = CHUNK,
    dtype: torch.dtype | None = None,
    split: VocabularySplit | None = None,
) -> SoftmaxTerms:
    """Return the targets' logits and each row's log-normaliser; both carry gradients.

    A row may have several targets, or none. `unit` takes the head's rows at unit length; `dtype` is
    what products are computed in, the rows' own where it is None.
    """
    if target_rows is None:
        target_rows = torch.arange(len(rows), device=rows.device)
    if chunk < 1 or targets.shape != target_rows.shape:
        raise ConfigError(
            f"chunk is {chunk}, expected ≥ 1; {tuple(targets.shape)} targets belong to"
            f" {tuple(target_rows.shape)} rows, expected as many"
        )
    settings = _Settings(unit, chunk, dtype or rows.dtype, split)
    with torch.autocast(rows.device.type, enabled=False):
        logits, normalisers = _LargeSoftmax.apply(  # type: ignore[no-untyped-call]
            rows, head, bias, targets, target_rows, settings
        )
    return SoftmaxTerms(logits, normalisers)


class _Settings(NamedTuple):
    unit: bool
    chunk: int
    dtype: torch.dtype
    split: VocabularySplit | None


class _Chunk(NamedTuple):
    """A stretch of the head, ready for products, and the targets that lie in it."""

    start: int
    end: int
    vectors: Tensor  # (C, D) in the products' type
    lengths: Tensor | None  # (C, 1) of the rows, where they were brought to unit length
    chosen: Tensor  # positions among the targets
    columns: Tensor  # the same targets, counted from `start`


class _LargeSoftmax(torch.autograd.Function):
    """Forward and backward over the same chunks; only what is as large as its inputs is saved."""

    @staticmethod
    def forward(
        context: Any,
        rows: Tensor,
        head: Tensor,
        bias: Tensor | None,
        targets: Tensor,
        target_rows: Tensor,
        settings: _Settings,
    ) -> tuple[Tensor, Tensor]:
        left = rows.to(settings.dtype)
        kind = torch.promote_types(rows.dtype, torch.float32)
        normalisers = torch.full((len(rows),), float("-inf"), dtype=kind, device=rows.device)
        logits = torch.zeros(len(targets), dtype=kind, device=rows.device)
        for part in _chunks(head, targets, settings):
            scores = _scores(left, part, bias, kind)
            normalisers = torch.logaddexp(normalisers, scores.logsumexp(1))
            logits[part.chosen] = scores[target_rows[part.chosen], part.columns]
        if settings.split is not None:
            normalisers = _join_normalisers(normalisers, settings.split)
            distributed.all_reduce(logits, group=settings.split.group)
        context.save_for_backward(rows, head, bias, targets, target_rows, normalisers)
        context.settings = settings
        return logits, normalisers

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(
        context: Any, of_logits: Tensor, of_normalisers: Tensor
    ) -> tuple[Tensor | None, ...]:
        rows, head, bias, targets, target_rows, normalisers = context.saved_tensors
        settings: _Settings = context.settings
        left, kind = rows.to(settings.dtype), normalisers.dtype
        of_rows = torch.zeros(rows.shape, dtype=kind, device=rows.device)
        of_head = torch.empty_like(head) if context.needs_input_grad[1] else None
        of_bias = torch.empty_like(bias) if context.needs_input_grad[2] else None
        with torch.autocast(rows.device.type, enabled=False):
            for part in _chunks(head, targets, settings):
                scores = _scores(left, part, bias, kind)
                scores.sub_(normalisers[:, None]).exp_().mul_(of_normalisers[:, None])
                places = (target_rows[part.chosen], part.columns)
                scores.index_put_(places, of_logits[part.chosen], accumulate=True)
                if of_bias is not None:
                    of_bias[part.start : part.end] = scores.sum(0)
                small = scores.to(settings.dtype)
                of_rows += _product(small, part.vectors)
                if of_head is not None:
                    of_head[part.start : part.end] = _through_length(
                        _product(small.T, left), part, head
                    )
            if settings.split is not None:
                distributed.all_reduce(of_rows, group=settings.split.group)
        return of_rows.to(rows.dtype), of_head, of_bias, None, None, None


def _chunks(head: Tensor, targets: Tensor, settings: _Settings) -> Iterator[_Chunk]:
    """Cut the head, and share out the targets: sorted once, they lie chunk by chunk."""
    first = 0 if settings.split is None else settings.split.first
    ordered, order = (targets - first).sort(stable=True)
    starts = range(0, len(head), settings.chunk)
    edges = torch.tensor([*starts, len(head)], device=targets.device)
    bounds = torch.searchsorted(ordered, edges).tolist()
    for at, start in enumerate(starts):
        end = min(start + settings.chunk, len(head))
        vectors, lengths = head[start:end], None
        if settings.unit:
            lengths = torch.linalg.vector_norm(vectors, dim=1, keepdim=True).clamp_min(1e-12)
            vectors = vectors / lengths
        own = slice(bounds[at], bounds[at + 1])
        yield _Chunk(
            start, end, vectors.to(settings.dtype), lengths, order[own], ordered[own] - start
        )


def _scores(left: Tensor, part: _Chunk, bias: Tensor | None, kind: torch.dtype) -> Tensor:
    """Return the logits of all rows in one chunk, (N, C)."""
    scores = _product(left, part.vectors.T).to(kind)
    if bias is not None:
        scores += bias[part.start : part.end]
    return scores


def _product(left: Tensor, right: Tensor) -> Tensor:
    """Multiply matrices; half precision is added up, and given, in fp32."""
    if left.dtype not in (torch.bfloat16, torch.float16):
        return left @ right
    if left.device.type == "cuda":
        return torch.mm(left, right, out_dtype=torch.float32)
    return left.float() @ right.float()


def _through_length(gradient: Tensor, part: _Chunk, head: Tensor) -> Tensor:
    """Carry the gradient of unit rows back to the rows: what points along a row changes nothing."""
    if part.lengths is None:
        return gradient
    unit = head[part.start : part.end] / part.lengths
    along = (gradient * unit).sum(1, keepdim=True)
    return (gradient - along * unit) / part.lengths


def _join_normalisers(own: Tensor, split: VocabularySplit) -> Tensor:
    """Add up what the processes found: the highest first, so that nothing overflows."""
    highest = own.clone()
    distributed.all_reduce(highest, distributed.ReduceOp.MAX, group=split.group)
    share = (own - highest).exp()
    distributed.all_reduce(share, group=split.group)
    return highest + share.log()
