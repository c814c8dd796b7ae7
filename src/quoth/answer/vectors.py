"""Vectors of phrases, each encoded once.

A phrase is encoded alone, so its vector depends on its subwords only and serves every question.
Phrases that begin another one come from the same causal pass: what is encoded are the longest.

Kept in memory by subwords, the least recently used given up first; and, where a cache is given, on
disk by passage, so that a collection's passages need no encoding in the next session. Vectors are
rounded to the disk's half precision as soon as they are encoded: an answer must not depend on
whether its phrases were encoded just now or read from disk.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence

import torch
from torch import Tensor

from quoth.answer.phrase_vector_cache import PhraseVectorCache
from quoth.models.dynamic_lm.dynamic_lm import DynamicLM
from quoth.vocabulary.dynamic import Candidate, DynamicVocabulary

Subwords = tuple[int, ...]


class PhraseVectors:
    """Gives the vectors of a vocabulary, encoding only what is not known."""

    def __init__(
        self, model: DynamicLM, *, max_phrases: int = 50_000, cache: PhraseVectorCache | None = None
    ) -> None:
        self._model = model
        self._max_phrases = max_phrases
        self._cache = cache
        self._kept: OrderedDict[Subwords, Tensor] = OrderedDict()  # each (D,)

    def encode(self, vocabulary: DynamicVocabulary, passages: Sequence[str]) -> Tensor:  # (C, D)
        """Return a vector per row; `passages` are the texts that sources count."""
        read = [self._as_read(each) for each in vocabulary.candidates]
        if not read:
            network = self._model.network
            return torch.zeros((0, network.phrase_width), device=self._model.device)
        self._fetch(read, vocabulary, passages)
        missing = sorted({each for each in read if each not in self._kept})
        if missing:
            self._encode(missing)
            self._put_away(read, vocabulary, passages)
        for each in read:
            self._kept.move_to_end(each)
        vectors = torch.stack([self._kept[each] for each in read])
        while len(self._kept) > max(self._max_phrases, len(read)):
            self._kept.popitem(last=False)
        return vectors

    def _as_read(self, candidate: Candidate) -> Subwords:
        """Return the subwords to encode: with the passage's marker, if the model wants it."""
        if not candidate.sources:
            return candidate.subword_ids
        marker = self._model.passage_marker(candidate.sources[0].passage)
        return (*candidate.subword_ids, *marker)

    def _encode(self, phrases: Sequence[Subwords]) -> None:
        rows, lengths = share_rows(phrases)
        exact = self._model.encode_phrases(rows, lengths=lengths)
        vectors = exact.to(torch.float16).to(exact.dtype)  # the same as after a trip to the disk
        encoded = (row[:length] for row, own in zip(rows, lengths, strict=True) for length in own)
        self._kept.update(zip(encoded, vectors, strict=True))

    def _fetch(
        self, read: Sequence[Subwords], vocabulary: DynamicVocabulary, passages: Sequence[str]
    ) -> None:
        if self._cache is None:
            return
        unknown = {each for each in read if each not in self._kept}
        for number in sorted(_passages_of(read, vocabulary, unknown)):
            for phrase, vector in self._cache.read(passages[number]).items():
                if phrase in unknown:
                    self._kept[phrase] = torch.from_numpy(vector).to(
                        self._model.device, next(self._model.network.parameters()).dtype
                    )

    def _put_away(
        self, read: Sequence[Subwords], vocabulary: DynamicVocabulary, passages: Sequence[str]
    ) -> None:
        if self._cache is None:
            return
        for number, phrases in sorted(_passages_of(read, vocabulary, set(read)).items()):
            vectors = {each: self._kept[each].float().cpu().numpy() for each in phrases}
            self._cache.write(passages[number], vectors)


def share_rows(phrases: Sequence[Subwords]) -> tuple[list[Subwords], list[list[int]]]:
    """Find the fewest rows that hold sorted, distinct phrases as prefixes, and their lengths there.

    >>> share_rows([(1,), (1, 2), (1, 2, 3), (1, 4)])
    ([(1, 4), (1, 2, 3)], [[2], [3, 2, 1]])
    """
    rows: list[Subwords] = []
    lengths: list[list[int]] = []
    for phrase in reversed(phrases):
        if rows and rows[-1][: len(phrase)] == phrase:
            lengths[-1].append(len(phrase))
        else:
            rows.append(phrase)
            lengths.append([len(phrase)])
    return rows, lengths


def _passages_of(
    read: Sequence[Subwords], vocabulary: DynamicVocabulary, wanted: set[Subwords]
) -> dict[int, list[Subwords]]:
    """Group wanted phrases by the first passage they stand in."""
    groups: dict[int, list[Subwords]] = {}
    for phrase, candidate in zip(read, vocabulary.candidates, strict=True):
        if phrase in wanted and candidate.sources:
            groups.setdefault(candidate.sources[0].passage, []).append(phrase)
    return groups
