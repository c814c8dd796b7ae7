"""Batches of mixed and plain sequences, each a function of its number alone.

A batch holds texts or quotations, not both: which of them follows from the share of quotations, so
that a run that was interrupted goes on with the very batches it would have had. Phrases and
negatives are drawn from seed, epoch and sample.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from itertools import chain
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from quoth.errors import ConfigError
from quoth.selfsupervision.phrase_matching import Flags, Ids, OccurrenceIndex
from quoth.selfsupervision.phrase_sampling import MixedSample, draw_phrases
from quoth.training.batching import Batches
from quoth.training.quoting.phrase_negatives import (
    PhraseColumns,
    PhraseString,
    candidate_strings,
    make_columns,
    marked,
    negative_strings,
    phrase_key,
    phrase_prefix,
    valid_alternatives,
)
from quoth.training.quoting.set import DynamicSet
from quoth.training.recipes.dynamic_lm_config import DynamicLMRecipe

_PHRASES, _NEGATIVES, _QUOTATIONS = 0, 1, 2  # what chance is drawn for

Mark = Callable[[int], Sequence[int]]
"""The number of a passage to the subwords of its marker."""


@dataclass(frozen=True, slots=True)
class DynamicBatch:
    """Tensors of one batch; rows below count (B, U) mixed or (B, T) plain places in one line."""

    plain_ids: Tensor  # (B, T)
    plain_mask: Tensor  # (B, T)
    plain_rows: Tensor  # (M,) places that predict a subword
    plain_targets: Tensor  # (M,)
    mixed_ids: Tensor  # (B, U) V + c is column c
    mixed_mask: Tensor  # (B, U)
    mixed_rows: Tensor  # (N,) places that predict a token
    targets: Tensor  # (N,)
    after_rows: Tensor  # (N,) plain places where the same text has been read
    prompt_lengths: Tensor  # (B,) tokens that both begin with, none of them a phrase
    literal_rows: Tensor  # (N,) plain places that predict the last subword of the target
    blocked: Tensor  # (blocked, 2) which of the N, and a column that is right there as well
    column_ids: Tensor  # (R, L) strings to encode
    column_mask: Tensor  # (R, L)
    column_rows: Tensor  # (C,)
    column_ends: Tensor  # (C,)
    offered: Tensor  # (N, C) bool: columns that count; (0, 0) where all do
    sentence_places: Tensor  # (R,) which of the N begins a quotation
    sentence_columns: Tensor  # (K, 3) which of the R, sentence (0 answers), column beginning in it
    phrases: tuple[bytes, ...]
    """What each column spells."""
    is_quotation: bool

    def to(self, device: torch.device) -> DynamicBatch:
        """Move all tensors to a device."""
        moved: dict[str, Any] = {
            each.name: value.to(device, non_blocking=True)
            for each in fields(self)
            if isinstance(value := getattr(self, each.name), Tensor)
        }
        return replace(self, **moved)


class DrawnSample(NamedTuple):
    """A sample with its phrases, and the other strings that are offered with it."""

    sample: MixedSample
    strings: list[PhraseString]
    told: tuple[tuple[int, PhraseString], ...] = ()
    """Which of them begin in which of the sentences that are told apart."""


class BatchMaker:
    """An endless, seeded sequence of batches; `maker[number]` is always the same."""

    def __init__(
        self, dynamic_set: DynamicSet, recipe: DynamicLMRecipe, *, mark: Mark | None = None
    ) -> None:
        """`mark` where phrases of passages are encoded with a marker, as when answering."""
        self._set = dynamic_set
        self._recipe = recipe
        self._mark = mark
        needs = [
            (recipe.quote_share < 1, len(dynamic_set.texts), "texts"),
            (recipe.quote_share > 0, len(dynamic_set.quotations), "quotations"),
        ]
        missing = [name for is_needed, count, name in needs if is_needed and not count]
        if missing:
            raise ConfigError(
                f"the training set holds no {missing[0]}, but quote_share is {recipe.quote_share}"
            )
        self._texts = _Order(dynamic_set.texts.lengths, recipe.batch_size, recipe.seed)
        lengths = dynamic_set.quotations.lengths
        self._quotations = _Order(lengths, recipe.quote_batch_size, recipe.seed)
        self._occurrences = None
        if recipe.negatives.corpus_retrieval:
            texts = dynamic_set.texts
            self._occurrences = OccurrenceIndex(texts.subword_ids, texts.offsets)

    def __getitem__(self, number: int) -> DynamicBatch:
        """Make a batch."""
        drawn = self.draw(number)
        is_quotation = self.is_quotation(number)
        columns = make_columns(string for each in drawn for string in each.strings)
        offered = None
        if is_quotation and self._recipe.quote_columns == "own":
            offered = _own_columns([each.strings for each in drawn], columns)
        return make_batch(
            [each.sample for each in drawn],
            columns,
            num_subwords=self._set.num_subwords,
            blocks=self._recipe.negatives.mask_valid_alternatives,
            offered=offered,
            told=[each.told for each in drawn],
            is_quotation=is_quotation,
        )

    def is_quotation(self, number: int) -> bool:
        """Whether a batch holds quotations; they are spread evenly."""
        share = self._recipe.quote_share
        return int((number + 1) * share) > int(number * share)

    def draw(self, number: int) -> list[DrawnSample]:
        """Draw the samples of a batch."""
        before = int(number * self._recipe.quote_share)
        if self.is_quotation(number):
            epoch, rows = self._quotations.batch(before)
            return [self._draw_quotation(row, epoch) for row in rows]
        epoch, rows = self._texts.batch(number - before)
        return [self._draw_text(row, epoch) for row in rows]

    def _draw_text(self, row: int, epoch: int) -> DrawnSample:
        text = self._set.texts[row]
        recipe = self._recipe
        if not recipe.mixed_weight:
            return DrawnSample(MixedSample(text.subword_ids, _no_phrases()), [])
        support = self._set.support(row) if recipe.sampling.method == "fmm" else ()
        phrases = draw_phrases(
            text,
            recipe.sampling,
            chance=self._chance(_PHRASES, epoch, row),
            is_punctuation=self._set.is_punctuation,
            support=support,
        )
        sample = MixedSample(text.subword_ids, phrases)
        return DrawnSample(
            sample, self._negatives(sample, row, self._chance(_NEGATIVES, epoch, row))
        )

    def _draw_quotation(self, row: int, epoch: int) -> DrawnSample:
        quotation = self._set.quotations[row]
        before = len(quotation.prompt_ids)
        ids = np.concatenate((quotation.prompt_ids, quotation.target_ids))
        if not self._recipe.mixed_weight:
            return DrawnSample(MixedSample(ids, _no_phrases(), before), [])
        start, end, passage, place = quotation.phrases.T
        markers = tuple(map(self._marker, passage.tolist()))
        sample = MixedSample(ids, quotation.phrases[:, :2] + before, before, markers)
        chance = self._chance(_QUOTATIONS, epoch, row)
        strings = self._negatives(sample, -1, chance)
        found = candidate_strings(
            quotation.passages,
            np.column_stack((passage, place, end - start)),
            opens_word=self._set.opens_word,
            budget=self._recipe.candidate_budget,
            max_subwords=self._recipe.max_candidate_subwords,
            chance=chance,
            sentences=quotation.sentences,
        )
        offered = {place: marked(string, self._marker(place[0])) for place, string in found.items()}
        told = _begin_in(quotation.sentences, offered) if self._recipe.sentence_weight else ()
        return DrawnSample(sample, [*strings, *chain(*offered.values())], told)

    def _marker(self, passage: int) -> bytes:
        return phrase_key(self._mark(passage)) if self._mark else b""

    def _negatives(
        self, sample: MixedSample, row: int, chance: np.random.Generator
    ) -> list[PhraseString]:
        return negative_strings(
            sample,
            self._recipe.negatives,
            continuations=self._set.continuations,
            occurrences=self._occurrences,
            chance=chance,
            row=row,
        )

    def _chance(self, purpose: int, epoch: int, row: int) -> np.random.Generator:
        return np.random.default_rng([self._recipe.seed, purpose, epoch, row])


def make_batch(
    samples: Sequence[MixedSample],
    columns: PhraseColumns,
    *,
    num_subwords: int,
    blocks: bool = False,
    offered: Flags | None = None,
    told: Sequence[Sequence[tuple[int, PhraseString]]] = (),
    is_quotation: bool = False,
) -> DynamicBatch:
    """Pad samples on the right, and say which place predicts what.

    `offered` (B, C) says which columns count in which sample, None that all do; `told` which
    strings begin in which of a sample's sentences.
    """
    laid = [_lay_out(sample, columns, num_subwords=num_subwords) for sample in samples]
    plain_ids, plain_mask = _pad([sample.subword_ids for sample in samples])
    mixed_ids, mixed_mask = _pad([each.token_ids for each in laid])
    wide, narrow = plain_ids.shape[1], mixed_ids.shape[1]
    rows = range(len(samples))
    plain = [np.arange(each.learn_from, len(each.subword_ids)) for each in samples]
    blocked = [_blocked(*each, columns, num_subwords) for each in zip(samples, laid, strict=True)]
    first = np.cumsum([0, *(len(each.learnt) for each in laid)])
    counts = np.zeros((0, 0), dtype=np.bool_)
    if offered is not None:
        counts = np.repeat(offered, [len(each.learnt) for each in laid], axis=0)
    sentence_places, sentence_columns = _sentence_columns(laid, first, told, columns, num_subwords)
    return DynamicBatch(
        plain_ids=plain_ids,
        plain_mask=plain_mask,
        plain_rows=_tensor([plain[at] - 1 + at * wide for at in rows]),
        plain_targets=_tensor([samples[at].subword_ids[plain[at]] for at in rows]),
        mixed_ids=mixed_ids,
        mixed_mask=mixed_mask,
        mixed_rows=_tensor([laid[at].learnt - 1 + at * narrow for at in rows]),
        targets=_tensor([laid[at].token_ids[laid[at].learnt] for at in rows]),
        after_rows=_tensor([laid[at].last[laid[at].learnt - 1] + at * wide for at in rows]),
        prompt_lengths=torch.tensor([max(each.learn_from, 1) for each in samples]),
        literal_rows=_tensor([laid[at].last[laid[at].learnt] - 1 + at * wide for at in rows]),
        blocked=_tensor([blocked[at] + np.array([first[at], 0]) for at in rows if blocks], (0, 2)),
        column_ids=torch.from_numpy(columns.subword_ids),
        column_mask=torch.from_numpy(columns.mask),
        column_rows=torch.from_numpy(columns.rows),
        column_ends=torch.from_numpy(columns.ends),
        offered=torch.from_numpy(counts),
        sentence_places=torch.from_numpy(sentence_places),
        sentence_columns=torch.from_numpy(sentence_columns),
        phrases=tuple(columns.column_by_phrase),
        is_quotation=is_quotation,
    )


class _LaidOut(NamedTuple):
    """A sample as tokens."""

    token_ids: Ids  # (U,)
    last: Ids  # (U,) the last subword of each token: σ of the paper
    learnt: Ids  # tokens that are targets; never the first


class _Order:
    """Which rows make up a batch, and which epoch it belongs to."""

    def __init__(self, lengths: Ids, size: int, seed: int) -> None:
        self._batches: Batches | None = None
        if len(lengths):
            size = min(size, len(lengths))
            each = np.arange(len(lengths))
            self._batches = Batches(each, each, batch_size=size, seed=seed, lengths=lengths)
            self._per_epoch = len(lengths) // size

    def batch(self, number: int) -> tuple[int, list[int]]:
        assert self._batches is not None, "checked when the maker was made"
        return number // self._per_epoch, self._batches[number].tolist()


def _lay_out(sample: MixedSample, columns: PhraseColumns, *, num_subwords: int) -> _LaidOut:
    ids = sample.subword_ids
    begins: Flags = np.ones(len(ids), dtype=np.bool_)
    for start, end in sample.phrases.tolist():
        begins[start + 1 : end] = False
    starts = np.flatnonzero(begins)
    token_ids = ids[starts]
    markers = sample.markers or (b"",) * len(sample.phrases)
    for (start, end), marker in zip(sample.phrases.tolist(), markers, strict=True):
        column = columns.column_by_phrase[phrase_key(ids[start:end]) + marker]
        token_ids[np.searchsorted(starts, start)] = num_subwords + column
    learnt = np.flatnonzero(starts >= max(sample.learn_from, 1))
    return _LaidOut(token_ids, np.append(starts[1:], len(ids)) - 1, learnt)


def _blocked(
    sample: MixedSample, laid: _LaidOut, columns: PhraseColumns, num_subwords: int
) -> Ids:  # (blocked, 2): which of the learnt, column
    """Where a subword is right, find the phrases that spell what follows."""
    at = np.flatnonzero(laid.token_ids[laid.learnt] < num_subwords)
    found = valid_alternatives(sample.subword_ids, laid.last[laid.learnt[at]], columns)
    return np.column_stack((at[found[:, 0]], found[:, 1]))


def _own_columns(
    strings: Sequence[Sequence[PhraseString]], columns: PhraseColumns
) -> Flags:  # (B, C)
    """Find the columns that each sample named itself."""
    offered = np.zeros((len(strings), len(columns)), dtype=np.bool_)
    for row, own in enumerate(strings):
        for key, lengths in own:
            named = [columns.column_by_phrase[phrase_prefix(key, length)] for length in lengths]
            offered[row, named] = True
    return offered


def _begin_in(
    sentences: Ids, strings: Mapping[tuple[int, int], Sequence[PhraseString]]
) -> tuple[tuple[int, PhraseString], ...]:
    """Find the strings that begin in each sentence."""
    return tuple(
        (number, string)
        for number, (passage, first, last) in enumerate(sentences.tolist())
        for (own, place), found in strings.items()
        if own == passage and first <= place < last
        for string in found
    )


def _sentence_columns(
    laid: Sequence[_LaidOut],
    first: Ids,  # (B + 1,) where the learnt tokens of each sample begin among the N
    told: Sequence[Sequence[tuple[int, PhraseString]]],
    columns: PhraseColumns,
    num_subwords: int,
) -> tuple[Ids, Ids]:  # (R,), (K, 3)
    """Say where each quotation's first phrase is predicted, and by which columns its sentences."""
    places: list[int] = []
    rows: list[tuple[int, int, int]] = []
    for row, own in enumerate(told):
        quoted = np.flatnonzero(laid[row].token_ids[laid[row].learnt] >= num_subwords)
        if not len(quoted) or not any(number == 0 for number, _string in own):
            continue
        found = {
            (len(places), number, columns.column_by_phrase[phrase_prefix(key, length)])
            for number, (key, lengths) in own
            for length in lengths
        }
        rows += sorted(found)
        places.append(int(first[row] + quoted[0]))
    return np.array(places, dtype=np.int64), np.array(rows, dtype=np.int64).reshape(-1, 3)


def _no_phrases() -> Ids:
    return np.zeros((0, 2), dtype=np.int64)


def _pad(sequences: Sequence[Ids]) -> tuple[Tensor, Tensor]:
    shape = (len(sequences), max(map(len, sequences)))
    ids, mask = np.zeros(shape, dtype=np.int64), np.zeros(shape, dtype=np.bool_)
    for row, own in enumerate(sequences):
        ids[row, : len(own)], mask[row, : len(own)] = own, True
    return torch.from_numpy(ids), torch.from_numpy(mask)


def _tensor(pieces: Sequence[Ids], empty: tuple[int, ...] = (0,)) -> Tensor:
    return torch.from_numpy(np.concatenate([np.zeros(empty, dtype=np.int64), *pieces]))
