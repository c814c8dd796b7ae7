"""Phrases of an index beside those of its model: words that the model's vocabulary lacks.

A model never changes once it is in place, but documents come with new words. Where the model is one
that phrases never trained have valid rows in, the row of a new word is the network's own vector of
it, and both are kept with the state of the index that needs them. Their numbers follow those of the
vocabulary. Weights of phrases do not change with them: a new word counts as one that was used once.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from quoth.models.pixar.head import HeadVectors
from quoth.models.pixar.pixar import Pixar
from quoth.search.generative.decode.config import COSINES
from quoth.search.generative.decode.score_table import PhraseScores
from quoth.vocabulary.identifiers import PhraseIds
from quoth.vocabulary.phrases.added import AddedWords, list_texts
from quoth.vocabulary.phrases.rarity import rarities
from quoth.vocabulary.phrases.text import Strings, join_strings
from quoth.vocabulary.phrases.vocabulary import PhraseVocabulary

MOST_ADDED = 100_000
"""Words that an index may add; beyond that, they are cut into parts."""

Float32 = NDArray[np.float32]


@dataclass(frozen=True, slots=True, eq=False)
class AddedPhrases:
    """Words and their rows."""

    strings: Strings
    rows: NDArray[np.float16]  # (A, D)

    def __len__(self) -> int:
        return len(self.rows)


def no_phrases(width: int = 0) -> AddedPhrases:
    """Return no words at all."""
    return AddedPhrases(join_strings([]), np.empty((0, width), dtype=np.float16))


def can_add(pixar: Pixar) -> bool:
    """Whether phrases that a model never saw have valid rows: those of a pretrained network do."""
    return pixar.config.row_lengths and pixar.network.projection is None


def read_new(pixar: Pixar, known: AddedPhrases, words: AddedWords) -> AddedPhrases:
    """Give the words that joined those known their rows."""
    texts = list_texts(words.strings)[len(known) :]
    if not texts:
        return known
    fresh = pixar.encode_phrases(texts).astype(np.float16)
    rows = np.concatenate((known.rows, fresh)) if len(known) else fresh
    return AddedPhrases(words.strings, rows)


def take_rows(head: HeadVectors, added: AddedPhrases, phrase_ids: PhraseIds) -> Float32:
    """Return the rows of phrases, of the vocabulary or added."""
    is_added = phrase_ids >= head.num_phrases
    rows = np.empty((len(phrase_ids), head.rows.shape[1]), dtype=np.float32)
    rows[~is_added] = head.rows[phrase_ids[~is_added]]
    if len(added):
        rows[is_added] = added.rows[phrase_ids[is_added] - head.num_phrases]
    return rows


def weigh_phrases(uses: NDArray[np.int64], weighting: str, *, num_added: int = 0) -> Float32:
    """Say how much each phrase counts, added ones last: by its rarity, or all alike.

    The uses are those of the vocabulary's own training, so that new documents change no weight.

    >>> weigh_phrases(np.array([2, 0]), "none", num_added=1).tolist()
    [1.0, 1.0, 1.0]
    >>> np.exp(-weigh_phrases(np.array([2, 0]), "rarity", num_added=1)).round(6).tolist()  # 2 of 4
    [0.75, 0.25, 0.5]
    """
    if weighting == "none" or len(uses) < 2:
        return np.ones(len(uses) + num_added, dtype=np.float32)
    once = np.log(np.sum(np.asarray(uses, dtype=np.float64) + 1.0)) - np.log(2.0)
    return np.append(rarities(uses), np.full(num_added, once, dtype=np.float32))


def score_added(
    scores: PhraseScores, head: HeadVectors, added: AddedPhrases, order: str
) -> PhraseScores:
    """Score the added phrases as well, by the vectors that the others were scored by."""
    if not len(added) or scores.pooled is None or scores.vectors is None:
        return scores
    rows = added.rows.astype(np.float32)
    bias = np.full(len(rows), head.bias[: head.num_phrases].min(initial=0.0), dtype=np.float32)
    by_pooled, by_vector = rows @ scores.pooled + bias, scores.vectors @ rows.T + bias
    own = combine_scores(by_pooled, by_vector, bias, order=order, length=scores.length)
    phrase_ids = np.arange(len(rows), dtype=np.int32) + np.int32(head.num_phrases)
    slots = scores.slot_scores
    return replace(
        scores,
        phrase_ids=np.concatenate((scores.phrase_ids, phrase_ids)),
        pooled_scores=np.concatenate((_given(scores.pooled_scores), own)),
        slot_scores=None if slots is None else np.concatenate((slots, by_vector), axis=1),
    )


def combine_scores(
    by_pooled: Float32, by_vector: Float32, bias: Float32, *, order: str, length: float
) -> Float32:  # (M,)
    """Make of the scores by x₀ (M,), and by words of the query (T, M), what an order goes by.

    Cosines count neither how common phrases are nor the length of x₀; to them, the word that knows
    a phrase best adds what it knows.
    """
    if order not in COSINES:
        return by_pooled
    found: Float32 = (by_pooled - bias) / np.float32(length)
    if len(by_vector):
        found = found + np.maximum(by_vector.max(axis=0) - bias, np.float32(0.0))
    return found


class PhraseTexts:
    """The texts of phrases, of the vocabulary or added."""

    def __init__(self, vocabulary: PhraseVocabulary, added: AddedPhrases) -> None:
        self._vocabulary = vocabulary
        self._added = added

    def text_of(self, phrase_id: int) -> str:
        """Return a phrase's text, its leading space included."""
        place = phrase_id - len(self._vocabulary)
        if place < 0:
            return self._vocabulary.text_of(phrase_id)
        start, end = self._added.strings.offsets[place : place + 2]
        return self._added.strings.content[start:end].tobytes().decode()

    def join(self, phrase_ids: Iterable[int]) -> str:
        """Put phrases together to a text, without the space in front of it."""
        known, parts = len(self._vocabulary), [b""]
        for each in map(int, phrase_ids):
            part = self.text_of(each).encode() if each >= known else self._vocabulary.bytes_of(each)
            parts.append(part)
        return b"".join(parts).decode("utf-8", "replace").removeprefix(" ")


def _given(scores: Float32 | None) -> Float32:
    assert scores is not None
    return scores
