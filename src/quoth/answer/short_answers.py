"""Which of the likely short answers is marked: the one that agrees best with all of them.

The most probable stretch need not be the best short answer. Where "a barn owl", "barn owl" and
"the barn owl of Ravenna" share the probability, any other stretch may come first, though fewer
speak for it. So what is chosen is what agrees with the others most, each counted by its probability
(minimum Bayes risk): by the words that two answers share, and once more if they are equal. Pure:
likely answers in, one of them out.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from quoth.answer.nearness import Numbers
from quoth.vocabulary.dynamic import Source

_MARKS = re.compile(r"[^\w\s]|_")
_ARTICLES = frozenset(("a", "an", "the"))


@dataclass(frozen=True, slots=True)
class LikelyAnswer:
    """A stretch that may be the short answer, and how probable it is among all of them."""

    source: Source
    text: str
    probability: float


def choose_short(likely: Sequence[LikelyAnswer], quoted: Sequence[Source]) -> LikelyAnswer | None:
    """Choose the short answer among those within what is quoted; None where none is.

    Its probability is that of all likely answers in the same words, wherever they stand.
    """
    kept = [at for at, each in enumerate(likely) if any(own.holds(each.source) for own in quoted)]
    if not kept:
        return None
    words = [_words(each.text) for each in likely]
    weights = np.array([each.probability for each in likely])
    best = kept[int(expected_agreement(words, weights)[kept].argmax())]
    alike = [
        each.probability for each, own in zip(likely, words, strict=True) if own == words[best]
    ]
    return LikelyAnswer(likely[best].source, likely[best].text, min(1.0, sum(alike)))


def expected_agreement(words: Sequence[tuple[str, ...]], weights: Numbers) -> Numbers:  # (N,)
    """Return how far each answer agrees with all, by their weights: F1 of words, 1 more if equal.

    >>> words = [("barn", "owl"), ("owl",), ("raven",)]
    >>> expected_agreement(words, np.array([0.25, 0.25, 0.5])).round(3).tolist()
    [0.667, 0.667, 1.0]
    """
    distinct = list(dict.fromkeys(words))
    place_by_words = {each: at for at, each in enumerate(distinct)}
    places = [place_by_words[each] for each in words]
    totals = np.bincount(places, weights=weights, minlength=len(distinct))
    agreements = _overlaps(distinct) + np.eye(len(distinct))
    found: Numbers = (agreements @ totals)[places]
    return found


def _overlaps(distinct: Sequence[tuple[str, ...]]) -> Numbers:  # (N, N)
    """Return the F1 of the words of each pair; 0 where they share none."""
    known = {word: at for at, word in enumerate(dict.fromkeys(w for own in distinct for w in own))}
    counts = np.zeros((len(distinct), len(known)))
    for row, own in enumerate(distinct):
        for word, count in Counter(own).items():
            counts[row, known[word]] = count
    shared = np.stack([np.minimum(counts, own).sum(axis=1) for own in counts])
    lengths = counts.sum(axis=1)
    sums = lengths[:, None] + lengths[None, :]
    found: Numbers = 2.0 * shared / np.maximum(sums, 1.0)
    return found


def _words(text: str) -> tuple[str, ...]:
    """Return the words of an answer, without marks and articles, in any case.

    >>> _words("The Barn-Owl."), _words("the")
    (('barnowl',), ('the',))
    """
    words = _MARKS.sub("", text.casefold()).split()
    return tuple(each for each in words if each not in _ARTICLES) or tuple(words)
