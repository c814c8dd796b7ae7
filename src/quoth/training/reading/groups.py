"""Examples to batches: every question with several passages, of which one answers, or none does.

Passages are cut at random, since what is retrieved seldom begins and ends where its author meant it
to; questions lose their question mark, as those typed into a search box do; some are asked without
the passage that answers, or with the sentences that answer cut out of it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from quoth.constraints import AtLeastOne, CheckedConfig, Share
from quoth.models.reader.inputs import ReaderInputs, SubwordSequence
from quoth.models.reader.network import SequenceBatch
from quoth.training.reading.set import ANSWERED, PAIR, ReadingSet

Rows = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class GroupConfig(CheckedConfig, title="reader groups"):
    """How examples become groups of passages."""

    num_passages: AtLeastOne = 5
    """Passages that a question is put to."""

    num_unanswered_passages: AtLeastOne = 3
    """Passages that a question without an answer is put to."""

    num_pair_passages: AtLeastOne = 12
    """Passages that the query of a pair is put to."""

    without_share: Share = 0.15
    """Share of answered questions that are put to neighbours alone."""

    cut_share: Share = 0.06
    """Share of answered questions whose passage has lost the sentences that answer."""

    crop_share: Share = 0.3
    """Share of passages that are cut to a shorter stretch."""

    least_crop: AtLeastOne = 48
    """Fewest subwords of such a stretch."""

    unmarked_share: Share = 0.4
    """Share of questions without their question mark."""

    untitled_share: Share = 0.5
    """Share of groups whose passages are read without titles."""

    num_parts: AtLeastOne = 4
    """Parts of like length that a batch is computed in."""


class RowBatch(NamedTuple):
    """Passages of like length, each as it is read for a question."""

    sequences: SequenceBatch
    text_mask: Tensor  # (R, T), True for subwords of the passage's text
    starts: Tensor  # (R, T), True where an answer begins
    ends: Tensor  # (R, T), True where one ends
    sentences: Tensor  # (R, T), the number of each subword's sentence within its row
    num_sentences: int

    def to(self, device: torch.device) -> RowBatch:
        """Move all tensors."""
        sequences = SequenceBatch(*(each.to(device, non_blocking=True) for each in self.sequences))
        return self._replace(
            sequences=sequences,
            text_mask=self.text_mask.to(device, non_blocking=True),
            starts=self.starts.to(device, non_blocking=True),
            ends=self.ends.to(device, non_blocking=True),
            sentences=self.sentences.to(device, non_blocking=True),
        )


class GroupBatch(NamedTuple):
    """Passages of some groups in parts of like length, and what is known of them."""

    parts: tuple[RowBatch, ...]
    groups: Tensor  # (R,), the group of each row, in the order of the parts
    is_read: Tensor  # (R,), False for rows of pairs, whose answers are unknown
    is_answered: Tensor  # (R,), whether an answer stands in a passage
    is_positive: Tensor  # (R,), whether a passage belongs to the question
    is_own: Tensor  # (R,), whether it is the one that the question was asked about
    num_groups: int

    def to(self, device: torch.device) -> GroupBatch:
        """Move all tensors."""
        return self._replace(
            parts=tuple(part.to(device) for part in self.parts),
            groups=self.groups.to(device, non_blocking=True),
            is_read=self.is_read.to(device, non_blocking=True),
            is_answered=self.is_answered.to(device, non_blocking=True),
            is_positive=self.is_positive.to(device, non_blocking=True),
            is_own=self.is_own.to(device, non_blocking=True),
        )


class _Row(NamedTuple):
    """One passage as it is read for one question."""

    sequence: SubwordSequence
    sentences: NDArray[np.int64]  # (T,) of the text
    answers: NDArray[np.int64]  # (A, 2), first and last subword within the text
    group: int
    is_read: bool
    is_positive: bool
    is_own: bool = False


class GroupMaker:
    """Makes batches of a set's examples."""

    def __init__(
        self, reading: ReadingSet, inputs: ReaderInputs, config: GroupConfig, *, mark_id: int
    ) -> None:
        """`mark_id` is the subword of the question mark."""
        self._set = reading
        self._inputs = inputs
        self._config = config
        self._mark_id = mark_id

    def make(self, rows: Rows, chance: np.random.Generator) -> GroupBatch:
        """Put the questions of some examples to passages."""
        made = [row for at, each in enumerate(rows) for row in self._group(at, int(each), chance)]
        return collate(made, num_parts=self._config.num_parts)

    def _group(self, group: int, example: int, chance: np.random.Generator) -> Iterator[_Row]:
        config, reading = self._config, self._set
        kind = reading.kinds[example]
        is_pair = kind == PAIR
        question = self._question(example, chance)
        titled = chance.random() >= config.untitled_share
        fate = chance.random() if kind == ANSWERED else 1.0
        is_without = fate < config.without_share
        is_cut = not is_without and fate < config.without_share + config.cut_share
        count = self._count(kind)
        near = reading.neighbours[example]
        near = near[near >= 0]
        chosen = _draw(len(near), count - (not is_without), chance)
        if not is_without:
            yield self._own(group, example, question, chance, titled=titled, is_cut=is_cut)
        for at in chosen:
            sequence, sentences, _none = self._passage(
                question, int(near[at]), _NO_ANSWERS, chance, titled=titled
            )
            yield _Row(sequence, sentences, _NO_ANSWERS, group, not is_pair, False)

    def _count(self, kind: int) -> int:
        config = self._config
        if kind == PAIR:
            return config.num_pair_passages
        return config.num_passages if kind == ANSWERED else config.num_unanswered_passages

    def _own(
        self,
        group: int,
        example: int,
        question: NDArray[np.int64],
        chance: np.random.Generator,
        *,
        titled: bool,
        is_cut: bool,
    ) -> _Row:
        """Return the example's own passage, whole or without the sentences that answer."""
        kind, row = self._set.kinds[example], int(self._set.passage_rows[example])
        answers = self._set.answers[example].reshape(-1, 2).astype(np.int64)
        if is_cut:
            sentences = self._set.sentences[row]
            kept = ~np.isin(sentences, np.concatenate([sentences[a : b + 1] for a, b in answers]))
            if kept.any():
                sequence = self._inputs.join(
                    question, self._title(row, titled), self._set.texts[row][kept]
                )
                fitting = sentences[kept][: _text_length(sequence)].astype(np.int64)
                return _Row(sequence, fitting, _NO_ANSWERS, group, True, False, is_own=True)
        sequence, sentences, inside = self._passage(question, row, answers, chance, titled=titled)
        is_positive = kind == PAIR or (kind == ANSWERED and len(inside) > 0)
        return _Row(sequence, sentences, inside, group, kind != PAIR, is_positive, is_own=True)

    def _passage(
        self,
        question: NDArray[np.int64],
        row: int,
        answers: NDArray[np.int64],
        chance: np.random.Generator,
        *,
        titled: bool,
    ) -> tuple[SubwordSequence, NDArray[np.int64], NDArray[np.int64]]:
        """Cut a passage to what fits, or to less, around one of its answers if it has any."""
        text, title = self._set.texts[row], self._title(row, titled)
        length = min(len(text), self._inputs.room(question, title))
        if len(text) > self._config.least_crop and chance.random() < self._config.crop_share:
            length = int(chance.integers(min(self._config.least_crop, length), length + 1))
        start = _place(len(text), length, answers, chance)
        sequence = self._inputs.join(question, title, text[start : start + length])
        inside = (answers[:, 0] >= start) & (answers[:, 1] < start + length)
        sentences = self._set.sentences[row][start : start + length].astype(np.int64)
        return sequence, sentences, answers[inside] - start

    def _question(self, example: int, chance: np.random.Generator) -> NDArray[np.int64]:
        ids: NDArray[np.int64] = self._set.questions[example].astype(np.int64)
        drops = chance.random() < self._config.unmarked_share
        return ids[:-1] if drops and len(ids) > 1 and ids[-1] == self._mark_id else ids

    def _title(self, row: int, titled: bool) -> NDArray[np.int64]:
        ids: NDArray[np.int64] = self._set.titles[row].astype(np.int64)
        return ids if titled else ids[:0]


_NO_ANSWERS = np.zeros((0, 2), dtype=np.int64)


def _draw(count: int, wanted: int, chance: np.random.Generator) -> list[int]:
    """Draw places without repeating, the first ones three times as often as the last."""
    if count <= wanted:
        return list(range(count))
    shares = np.linspace(3.0, 1.0, count)
    drawn = chance.choice(count, size=wanted, replace=False, p=shares / shares.sum())
    return [int(each) for each in drawn]


def _place(total: int, length: int, answers: NDArray[np.int64], chance: np.random.Generator) -> int:
    """Choose where a stretch begins, so that it holds one of the answers, if it can."""
    if length >= total:
        return 0
    low, high = 0, total - length
    if len(answers):
        first, last = answers[int(chance.integers(len(answers)))].tolist()
        low, high = max(low, last - length + 1), min(high, first)
        if low > high:  # the answer is longer than the stretch
            return int(max(0, min(first, total - length)))
    return int(chance.integers(low, high + 1))


def _text_length(sequence: SubwordSequence) -> int:
    return len(sequence.subword_ids) - 1 - sequence.text


def collate(rows: Sequence[_Row], *, num_parts: int = 1) -> GroupBatch:
    """Sort rows by length and pad each part to its longest."""
    ordered = sorted(rows, key=lambda row: len(row.sequence.subword_ids))
    bounds = np.linspace(0, len(ordered), min(num_parts, len(ordered)) + 1).astype(int)
    parts = tuple(_pad(ordered[low:high]) for low, high in pairwise(bounds.tolist()))
    return GroupBatch(
        parts,
        groups=torch.tensor([row.group for row in ordered]),
        is_read=torch.tensor([row.is_read for row in ordered]),
        is_answered=torch.tensor([len(row.answers) > 0 for row in ordered]),
        is_positive=torch.tensor([bool(row.is_positive) for row in ordered]),
        is_own=torch.tensor([row.is_own for row in ordered]),
        num_groups=1 + max(row.group for row in rows),
    )


def _pad(rows: Sequence[_Row]) -> RowBatch:
    size = (len(rows), max(len(row.sequence.subword_ids) for row in rows))
    ids, fields, sentences = (np.zeros(size, dtype=np.int64) for _part in range(3))
    mask, text_mask, starts, ends = (np.zeros(size, dtype=bool) for _part in range(4))
    for at, row in enumerate(rows):
        total, first = len(row.sequence.subword_ids), row.sequence.text
        ids[at, :total] = row.sequence.subword_ids
        fields[at, row.sequence.second : total] = 1
        mask[at, :total] = True
        text_mask[at, first : total - 1] = True
        if len(row.sentences):
            sentences[at, first : total - 1] = row.sentences - row.sentences[0]
        starts[at, first + row.answers[:, 0]] = True
        ends[at, first + row.answers[:, 1]] = True
    sequences = SequenceBatch(*(torch.from_numpy(each) for each in (ids, fields, mask)))
    return RowBatch(
        sequences,
        text_mask=torch.from_numpy(text_mask),
        starts=torch.from_numpy(starts),
        ends=torch.from_numpy(ends),
        sentences=torch.from_numpy(sentences),
        num_sentences=int(sentences.max(initial=0)) + 1,
    )
