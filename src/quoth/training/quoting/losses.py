"""The three losses of a dynamic vocabulary: on mixed text, on plain text, and between the two.

L_p is cross entropy over subwords and phrases (V ∪ P) on the mixed sequence, L_t over subwords on
the plain one, L_kl the divergence of the mixed run's distribution over V from the plain run's where
both have read the same text. The paper leaves open how distributions over different supports are
compared: here the mixed one is restricted to V and normalised again.

Scores over V are made for some rows at a time, and once more for the gradient, so that no array of
all rows by all subwords exists. They are computed in full precision.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple, Protocol

import torch
from torch import Tensor
from torch.utils.checkpoint import checkpoint

CHUNK = 1024
"""Rows whose scores over the vocabulary are held at once."""


class Scorer(Protocol):
    """What scores tokens as the next ones; `DynamicNetwork` does."""

    num_subwords: int

    def subword_scores(self, states: Tensor) -> Tensor:
        """Score all subwords, (N, V)."""
        ...

    def phrase_scores(self, states: Tensor, phrase_vectors: Tensor) -> Tensor:
        """Score phrases, (N, C)."""
        ...


class MixedTerms(NamedTuple):
    """The losses of mixed targets, and what would have been chosen."""

    losses: Tensor  # (N,)
    choices: Tensor  # (N,) −log p(target) among phrases alone; 0 where a subword is right
    is_right: Tensor  # (N,) bool: the target has the highest score
    is_phrase: Tensor  # (N,) bool: a phrase has the highest score


def mixed_terms(
    scorer: Scorer,
    states: Tensor,  # (N, D)
    targets: Tensor,  # (N,) tokens; V + c is column c
    *,
    phrase_vectors: Tensor,  # (C, D)
    blocked: Tensor | None = None,  # (blocked, 2) int64: row, column that does not count there
    offered: Tensor | None = None,  # (N, C) bool: columns that count in a row; None for all
    num_learnt: int | None = None,
    chunk: int = CHUNK,
) -> MixedTerms:
    """Return −log p(target) over V ∪ P for each row.

    Choices are among the first `num_learnt` columns, None for all: others were kept from a batch
    before, and an encoder that cannot move them would raise all that it can above them.
    """
    barred = torch.zeros(0, 2, dtype=torch.int64) if blocked is None else blocked
    parts = []
    for start in range(0, len(states), chunk):
        rows = slice(start, start + chunk)
        own = barred[(barred[:, 0] >= start) & (barred[:, 0] < start + chunk)].to(states.device)
        own = own - torch.tensor([start, 0], device=own.device)
        mask = None if offered is None else offered[rows]
        parts.append(
            _again(
                _mixed_chunk,
                scorer,
                states[rows],
                targets[rows],
                phrase_vectors,
                own,
                mask,
                num_learnt,
            )
        )
    joined = [torch.cat(each) for each in zip(*parts, strict=True)] if parts else []
    if not joined:
        empty = states.new_zeros(0)
        return MixedTerms(empty, empty, empty.bool(), empty.bool())
    return MixedTerms(*joined)


def plain_losses(
    scorer: Scorer,
    states: Tensor,  # (N, D)
    targets: Tensor,  # (N,) subwords
    *,
    chunk: int = CHUNK,
) -> Tensor:  # (N,)
    """Return −log p(target) over V for each row."""
    return _by_chunks(_plain_chunk, scorer, (states, targets), chunk)


def divergences(
    scorer: Scorer,
    mixed_states: Tensor,  # (N, D)
    plain_states: Tensor,  # (N, D) of the same places
    *,
    chunk: int = CHUNK,
) -> Tensor:  # (N,)
    """Return KL(mixed ‖ plain) over V for each row."""
    return _by_chunks(_divergence_chunk, scorer, (mixed_states, plain_states), chunk)


class SentenceTerms(NamedTuple):
    """The losses of sentences told apart, and which were found."""

    losses: Tensor  # (R,)
    is_right: Tensor  # (R,) bool: the sentence that answers has the highest score


def sentence_terms(
    scorer: Scorer,
    states: Tensor,  # (R, D)
    columns: Tensor,  # (K, 3) which of the R, sentence (0 is right), column
    *,
    phrase_vectors: Tensor,  # (C, D)
) -> SentenceTerms:
    """Return −log p of the right sentence among some, by the phrases that begin in each."""
    rows, sentences, own = columns.T
    with torch.autocast(states.device.type, enabled=False):
        found = scorer.phrase_scores(states.float(), phrase_vectors.float())[rows, own]
    wide = int(sentences.max()) + 1 if len(sentences) else 1
    groups = rows * wide + sentences
    size = len(states) * wide
    highest = found.new_full((size,), float("-inf"))
    highest = highest.scatter_reduce(0, groups, found.detach(), "amax")
    total = found.new_zeros(size).index_add(0, groups, (found - highest[groups]).exp())
    exists = total > 0
    scores = torch.where(exists, total.clamp_min(1e-30).log() + highest, float("-inf"))
    scores = scores.view(-1, wide)  # (R, S)
    losses = scores.logsumexp(1) - scores[:, 0]
    return SentenceTerms(losses, scores.detach().argmax(1) == 0)


def mean_or_zero(losses: Tensor) -> Tensor:
    """Average losses; of none, give a zero that still belongs to the graph."""
    return losses.mean() if len(losses) else losses.sum()


def _by_chunks(
    compute: Callable[..., Tensor], scorer: Scorer, rows: tuple[Tensor, ...], chunk: int
) -> Tensor:
    parts = [
        _again(compute, scorer, *(each[start : start + chunk] for each in rows))
        for start in range(0, len(rows[0]), chunk)
    ]
    return torch.cat(parts) if parts else rows[0].new_zeros(0)


def _again(compute: Callable[..., Any], *arguments: Any) -> Any:
    """Compute now, and once more when gradients are asked for, rather than keep what is between."""
    return checkpoint(compute, *arguments, use_reentrant=False)


def _mixed_chunk(
    scorer: Scorer,
    states: Tensor,
    targets: Tensor,
    phrase_vectors: Tensor,
    blocked: Tensor,
    offered: Tensor | None,
    num_learnt: int | None,
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    with torch.autocast(states.device.type, enabled=False):
        exact = states.float()
        of_subwords = scorer.subword_scores(exact)
        of_phrases = scorer.phrase_scores(exact, phrase_vectors.float())
    if offered is not None:
        of_phrases = of_phrases.masked_fill(~offered, float("-inf"))
    if len(blocked):
        mask = torch.zeros_like(of_phrases, dtype=torch.bool)
        mask[blocked[:, 0], blocked[:, 1]] = True
        of_phrases = of_phrases.masked_fill(mask, float("-inf"))
    scores = torch.cat((of_subwords, of_phrases), dim=1)
    losses = torch.nn.functional.cross_entropy(scores, targets, reduction="none")
    choices = torch.zeros_like(losses)
    is_phrase = targets >= scorer.num_subwords
    if of_phrases.shape[1]:
        columns = targets[is_phrase] - scorer.num_subwords
        learnt = of_phrases[is_phrase, :num_learnt]
        among = torch.nn.functional.cross_entropy(learnt, columns, reduction="none")
        choices = choices.masked_scatter(is_phrase, among)
    best = scores.detach().argmax(1)
    return losses, choices, best == targets, best >= scorer.num_subwords


def _plain_chunk(scorer: Scorer, states: Tensor, targets: Tensor) -> Tensor:
    with torch.autocast(states.device.type, enabled=False):
        scores = scorer.subword_scores(states.float())
    return torch.nn.functional.cross_entropy(scores, targets, reduction="none")


def _divergence_chunk(scorer: Scorer, mixed: Tensor, plain: Tensor) -> Tensor:
    with torch.autocast(mixed.device.type, enabled=False):
        of_mixed = scorer.subword_scores(mixed.float()).log_softmax(1)
        of_plain = scorer.subword_scores(plain.float()).log_softmax(1)
    return (of_mixed.exp() * (of_mixed - of_plain)).sum(1)
