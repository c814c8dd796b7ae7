"""Check a phrase vocabulary on texts: what it covers, what it breaks, how long sequences get."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from quoth.vocabulary.phrases.config import NUM_BYTES
from quoth.vocabulary.phrases.text import encode_texts, find_inner_spaces, split_words
from quoth.vocabulary.phrases.vocabulary import PhraseVocabulary


@dataclass(frozen=True, slots=True)
class PhraseReport:
    """What cutting some texts with a vocabulary shows."""

    num_texts: int
    num_phrases: int
    coverage: float
    """Share of the bytes of the texts that the phrases give back; anything but 1 is an error."""
    single_bytes: float
    """Share of the bytes of the texts that no longer phrase covers."""
    split_words: int
    """Phrases of several words that start or end inside a word somewhere; must be 0."""
    minimum_use: int
    """Least use of a phrase other than the single bytes, over these texts."""
    mean_length: float
    p99_length: float


def report_phrases(vocabulary: PhraseVocabulary, texts: Sequence[str]) -> PhraseReport:
    """Cut texts and check the result against them."""
    sequences = vocabulary.segment(texts)
    strings = encode_texts(texts, lowercase=vocabulary.config.lowercase)
    sizes = np.diff(vocabulary.phrases.offsets)[sequences.ids]
    uses = np.bincount(sequences.ids, minlength=len(vocabulary))
    lengths = np.diff(sequences.offsets)
    total = len(strings.content)
    ends = np.cumsum(sizes)
    starts, _ = split_words(strings)
    several = find_inner_spaces(vocabulary.phrases)[sequences.ids]
    inside = ~(np.isin(ends, starts) & np.isin(ends - sizes, starts)) & several
    return PhraseReport(
        num_texts=len(texts),
        num_phrases=len(vocabulary),
        coverage=float(sizes.sum()) / total if total else 1.0,
        single_bytes=float(np.count_nonzero(sequences.ids < NUM_BYTES)) / total if total else 0.0,
        split_words=len(np.unique(sequences.ids[inside])),
        minimum_use=int(uses[NUM_BYTES:].min()) if len(vocabulary) > NUM_BYTES else 0,
        mean_length=float(lengths.mean()) if len(lengths) else 0.0,
        p99_length=float(np.percentile(lengths, 99)) if len(lengths) else 0.0,
    )
