"""The losses of a reader: where the answer is, in which sentence, and in which passage.

*own*: the first and last subword of the answer among those of its passage and "not here", which is
right for every passage that does not answer; the passage that a question was asked about, answered
or spoiled, counts twice. *shared*: the same among the subwords of all passages
of the question (shared normalisation, Clark and Gardner 2018), so that scores of different passages
can be compared. *evidence*: the sentence that answers among all sentences. *relevance*: the right
passage among all. Where several places are right, their probabilities are added up.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from quoth.models.reader.network import ReaderScores
from quoth.training.reading.groups import GroupBatch, RowBatch

_TINY = 1e-30
_NEVER = -1e4  # like −inf, but with gradients where nothing else is left


class ReadingLosses(NamedTuple):
    """Means over what each loss is about; 0 where there is nothing."""

    own: Tensor
    shared: Tensor
    evidence: Tensor
    relevance: Tensor


class RowSums(NamedTuple):
    """What the losses need of each row: log-sums over its places, and over those that are right.

    Each (R, 3): for first subwords, last subwords and sentences.
    """

    among: Tensor
    right: Tensor
    nowhere: Tensor  # (R, 2), the scores of [CLS] as first and last subword
    relevance: Tensor  # (R,)


def sum_rows(scores: ReaderScores, rows: RowBatch) -> RowSums:
    """Sum up the scores of rows."""
    means, holding = sentence_means(scores.evidence, rows)
    exists = means > _NEVER / 2
    sums = [
        (_masked_log_sum_exp(values, mask), _masked_log_sum_exp(values, right))
        for values, mask, right in (
            (scores.starts, rows.text_mask, rows.starts),
            (scores.ends, rows.text_mask, rows.ends),
            (means, exists, holding),
        )
    ]
    among, right = (torch.stack(each, dim=1) for each in zip(*sums, strict=True))
    nowhere = torch.stack([scores.starts[:, 0], scores.ends[:, 0]], dim=1)
    return RowSums(among, right, nowhere, scores.relevance)


def reading_losses(parts: Sequence[RowSums], batch: GroupBatch) -> ReadingLosses:
    """Return the losses of a batch, of which every part was summed up."""
    sums = RowSums(*(torch.cat(each) for each in zip(*parts, strict=True)))
    answered = _any_by_group(batch.is_answered, batch)
    sought = _any_by_group(batch.is_positive, batch)
    total = torch.logaddexp(sums.among[:, :2], sums.nowhere)
    right = torch.where(batch.is_answered[:, None], sums.right[:, :2], sums.nowhere)
    listwise = [
        _listwise(sums.among[:, at], sums.right[:, at], batch, counted=answered) for at in range(3)
    ]
    positive = sums.relevance.masked_fill(~batch.is_positive, _NEVER)
    return ReadingLosses(
        own=_mean((total - right).mean(1), batch.is_read * (1.0 + batch.is_own)),
        shared=(listwise[0] + listwise[1]) / 2,
        evidence=listwise[2],
        relevance=_listwise(sums.relevance, positive, batch, counted=sought),
    )


def sentence_means(evidence: Tensor, rows: RowBatch) -> tuple[Tensor, Tensor]:  # both (R, S)
    """Return the mean evidence of each sentence, and whether an answer begins in it."""
    size = (len(evidence), rows.num_sentences)
    kept = rows.text_mask.to(evidence.dtype)

    def add_up(values: Tensor) -> Tensor:
        return values.new_zeros(size).scatter_add(1, rows.sentences, values)

    lengths = add_up(kept)
    means = add_up(evidence * kept) / lengths.clamp_min(1.0)
    holding = add_up(rows.starts.to(evidence.dtype)) > 0
    return means.masked_fill(lengths == 0, _NEVER), holding


def group_log_sum_exp(values: Tensor, groups: Tensor, num_groups: int) -> Tensor:  # (R,) -> (G,)
    """Add up exponentials within groups.

    >>> values = torch.log(torch.tensor([1.0, 3.0, 5.0]))
    >>> group_log_sum_exp(values, torch.tensor([0, 0, 1]), 2).exp().round(decimals=4).tolist()
    [4.0, 5.0]
    """
    start = torch.full((num_groups,), 2 * _NEVER, device=values.device)
    highest = start.scatter_reduce(0, groups, values.detach(), "amax")
    shifted = (values - highest[groups]).exp()
    total = torch.zeros_like(highest).scatter_add(0, groups, shifted)
    return total.clamp_min(_TINY).log() + highest  # a group may have lost all its rows


def _listwise(among: Tensor, right: Tensor, batch: GroupBatch, *, counted: Tensor) -> Tensor:
    """Return the mean of −log p(right) over the groups that count."""
    whole, part = (
        group_log_sum_exp(each, batch.groups, batch.num_groups) for each in (among, right)
    )
    return _mean(whole - part, counted)


def _masked_log_sum_exp(values: Tensor, mask: Tensor) -> Tensor:  # (R, T) -> (R,)
    return values.masked_fill(~mask, _NEVER).logsumexp(1)


def _any_by_group(flags: Tensor, batch: GroupBatch) -> Tensor:  # (R,) -> (G,)
    counts = torch.zeros(batch.num_groups, device=flags.device)
    return counts.scatter_add(0, batch.groups, flags.float()) > 0


def _mean(values: Tensor, counted: Tensor) -> Tensor:
    kept = counted.float()  # flags, or how much each counts
    return (values * kept).sum() / kept.sum().clamp_min(1.0)
