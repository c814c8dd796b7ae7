"""From scores of subwords to spans and sentences: pure functions on arrays.

A span's score is the sum of the scores of its first and last subword; scores of all passages of one
question can be compared. What "not here" scores, the sum of the two scores of [CLS], is what a span
of its passage has to beat.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from quoth.records import Span

Floats = NDArray[np.float64]
MAX_SUBWORDS = 30
"""Longest short answer."""


@dataclass(frozen=True, slots=True)
class Reading:
    """What a reader says of one passage: scores of each subword of its text, and of the whole."""

    spans: NDArray[np.int64]  # (T, 2) the characters of each subword
    starts: Floats  # (T,)
    ends: Floats  # (T,)
    evidence: Floats  # (T,)
    silence: float
    """The score of the answer being not here."""
    relevance: float


@dataclass(frozen=True, slots=True)
class ScoredSpan:
    """A stretch of a passage's text as an answer."""

    span: Span
    score: float


def best_span(reading: Reading, *, max_subwords: int = MAX_SUBWORDS) -> ScoredSpan | None:
    """Find the stretch of at most so many subwords with the highest score; None in no text.

    >>> spans = np.array([[0, 3], [4, 7], [8, 9]])
    >>> reading = Reading(spans, np.array([0., 2., 1.]), np.array([3., 0., 1.5]), np.zeros(3), 0, 0)
    >>> best_span(reading), best_span(reading, max_subwords=1).span
    (ScoredSpan(span=Span(start=4, end=9), score=3.5), Span(start=0, end=3))
    """
    if not len(reading.spans):
        return None
    scores = span_scores(reading, max_subwords=max_subwords)
    first, last = np.unravel_index(int(scores.argmax()), scores.shape)
    span = Span(int(reading.spans[first, 0]), int(reading.spans[last, 1]))
    return ScoredSpan(span, float(scores[first, last]))


def best_spans(reading: Reading, *, most: int) -> list[ScoredSpan]:
    """List so many stretches with the highest scores, best first; where equal, as they stand.

    >>> spans = np.array([[0, 3], [4, 7], [8, 9]])
    >>> reading = Reading(spans, np.array([0., 2., 1.]), np.array([3., 0., 1.5]), np.zeros(3), 0, 0)
    >>> [(each.span.start, each.span.end, each.score) for each in best_spans(reading, most=2)]
    [(4, 9, 3.5), (0, 3, 3.0)]
    """
    if not len(reading.spans):
        return []
    scores = span_scores(reading).ravel()
    ordered = np.argsort(-scores, kind="stable")[:most]
    rows, columns = np.unravel_index(ordered, (len(reading.spans), len(reading.spans)))
    return [
        ScoredSpan(Span(int(reading.spans[first, 0]), int(reading.spans[last, 1])), float(score))
        for first, last, score in zip(rows, columns, scores[ordered], strict=True)
        if np.isfinite(score)
    ]


def span_scores(reading: Reading, *, max_subwords: int = MAX_SUBWORDS) -> Floats:  # (T, T)
    """Score all spans by first and last subword; −inf for what is no span, or too long."""
    scores = reading.starts[:, None] + reading.ends[None, :]
    places = np.arange(len(scores))
    length = places[None, :] - places[:, None] + 1
    found: Floats = np.where((length >= 1) & (length <= max_subwords), scores, -np.inf)
    return found


def sentence_scores(reading: Reading, sentences: Sequence[Span]) -> Floats:  # (N, 2)
    """Score sentences twice: by all spans that begin in them, and by their mean evidence.

    The first is the logarithm of the summed exponentials of the spans' scores, so that the softmax
    over all sentences of a question says how probable it is that the answer begins there.
    """
    found = np.full((len(sentences), 2), -np.inf)
    if not len(reading.spans):
        return found
    by_start = log_sum_exp(span_scores(reading), axis=1)
    for at, sentence in enumerate(sentences):
        own = (reading.spans[:, 0] >= sentence.start) & (reading.spans[:, 0] < sentence.end)
        if own.any():
            found[at] = log_sum_exp(by_start[own], axis=0), reading.evidence[own].mean()
    return found


def log_sum_exp(scores: Floats, *, axis: int) -> Floats:
    """Add up exponentials without leaving their range.

    >>> log_sum_exp(np.log([1.0, 3.0]) + 1000, axis=0) == np.log(4.0) + 1000
    np.True_
    """
    highest = scores.max(axis=axis, keepdims=True)
    total = np.log(np.exp(scores - highest).sum(axis=axis))
    return np.asarray(total + np.squeeze(highest, axis=axis))
