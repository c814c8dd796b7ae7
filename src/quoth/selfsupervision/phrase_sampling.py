"""Which stretches of a text become phrases while a language model learns to read and write them.

Follows Generation with Dynamic Vocabulary: N-words takes runs of words, N-ids runs of subwords, FMM
stretches that occur in related texts; between two phrases at least some plain subwords remain.
Everything is counted in subwords of the text as it stands, so a phrase keeps its leading space and
is cut exactly as in its context. Phrases are drawn anew for every epoch.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from quoth.models.dynamic_lm.inputs import TokenisedText
from quoth.selfsupervision.phrase_matching import (
    Flags,
    Ids,
    MatchLimits,
    SubwordText,
    match_forward,
)
from quoth.selfsupervision.sampling_config import PhraseSamplingConfig

_JOINERS = frozenset("'’-–./,:_@&")
"""Between two letters or digits these belong to the word: don't, 3.5, well-known."""


@dataclass(frozen=True, slots=True)
class MixedSample:
    """A sequence of subwords of which some stretches are phrases."""

    subword_ids: Ids  # (T,)
    phrases: Ids  # (phrases, 2) start and end, in order, apart from each other
    learn_from: int = 1
    """The first subword that is learnt; what stands before it is only read."""
    markers: tuple[bytes, ...] = ()
    """What each phrase is encoded with behind it, as keys; none where all are encoded bare."""


@dataclass(frozen=True, slots=True)
class SubwordKinds:
    """What a sampler has to know about the subwords of a vocabulary."""

    is_punctuation: Flags  # (V,) without a letter or digit
    opens_word: Flags  # (V,) with a leading space

    @classmethod
    def of(cls, texts: Sequence[str]) -> SubwordKinds:
        """Sort subwords by what they spell.

        >>> kinds = SubwordKinds.of([" owl", "ls", ","])
        >>> kinds.is_punctuation.tolist(), kinds.opens_word.tolist()
        ([False, False, True], [True, False, False])
        """
        return cls(
            np.array([not any(map(str.isalnum, text)) for text in texts], dtype=np.bool_),
            np.array([text[:1].isspace() for text in texts], dtype=np.bool_),
        )


def as_subwords(text: str, tokenised: TokenisedText) -> SubwordText:
    """Join the subwords of a text with the places where it may be cut."""
    spans = list(zip(tokenised.starts, tokenised.ends, strict=True))
    return SubwordText(
        np.array(tokenised.subword_ids, dtype=np.int64).reshape(-1), word_starts(text, spans)
    )


def word_starts(text: str, spans: Sequence[tuple[int, int]]) -> Flags:
    """Say before which subwords a text may be cut without cutting a word or losing its space.

    `spans` are the characters of each subword; a mark between words counts as a word of its own.

    >>> word_starts("It's 3.5, ok", [(0, 2), (2, 4), (4, 6), (6, 8), (8, 9), (9, 12)]).tolist()
    [True, False, True, False, True, True]
    """
    return np.array(
        [
            not at or (start >= spans[at - 1][1] and _may_cut(text, start))
            for at, (start, _end) in enumerate(spans)
        ],
        dtype=np.bool_,
    )


def draw_phrases(
    text: SubwordText,
    config: PhraseSamplingConfig,
    *,
    chance: np.random.Generator,
    is_punctuation: NDArray[np.bool_],  # (V,)
    support: Sequence[SubwordText] = (),
) -> Ids:  # (phrases, 2)
    """Draw the phrases of a text; `support` is where fmm looks for them."""
    if config.method == "fmm":
        return _space_out(_matches(text, config, is_punctuation, support), config, chance)
    starts = text.word_starts if config.method == "n_words" else np.ones_like(text.word_starts)
    cuts = np.append(np.flatnonzero(starts), len(text.subword_ids))
    phrases: list[tuple[int, int]] = []
    at = 0
    while True:
        at += int(chance.integers(config.gap_min, config.gap_max + 1))
        first = int(np.searchsorted(cuts, at))
        length = int(chance.integers(config.min_length, config.max_length + 1))
        if first + length >= len(cuts):
            return _as_array(phrases)
        start = int(cuts[first])
        fitting = int(np.searchsorted(cuts, start + config.max_subwords, side="right")) - 1
        last = min(first + length, fitting)
        at = start
        if last - first >= config.min_length and cuts[last] - start >= 2:
            at = int(cuts[last])
            phrases.append((start, at))


def _matches(
    text: SubwordText,
    config: PhraseSamplingConfig,
    is_punctuation: NDArray[np.bool_],
    support: Sequence[SubwordText],
) -> Ids:
    limits = MatchLimits(config.min_length, config.fmm_max_words, config.max_subwords)
    is_stop = is_punctuation[text.subword_ids]
    return match_forward(text, support, is_stop=is_stop, limits=limits)[:, :2]


def _space_out(matches: Ids, config: PhraseSamplingConfig, chance: np.random.Generator) -> Ids:
    """Keep matches from left to right, each at least a drawn gap behind the one before."""
    kept, free_from = [], 0
    for start, end in matches.tolist():
        if start >= free_from:
            kept.append((start, end))
            free_from = end + int(chance.integers(config.gap_min, config.gap_max + 1))
    return _as_array(kept)


def _as_array(phrases: Sequence[tuple[int, int]]) -> Ids:
    return np.array(phrases, dtype=np.int64).reshape(-1, 2)


def _may_cut(text: str, at: int) -> bool:
    """Whether a phrase may begin with this character, its leading space included."""
    before, here = text[at - 1], text[at]
    if here.isspace() or before.isspace():
        return not before.isspace() if here.isspace() else before != " "
    if here in _JOINERS:
        return not (before.isalnum() and text[at + 1 : at + 2].isalnum())
    if before in _JOINERS:
        return not (text[max(at - 2, 0) : at - 1].isalnum() and here.isalnum())
    return not (before.isalnum() and here.isalnum())
