"""How a reader guides a language model: what it found at a place counts for the phrases there.

A phrase's vector knows nothing of the sentence around it; the reader has read that sentence with
the question. So a phrase is scored by how much less probable its sentence is than the best one, in
logarithms, and by how much of the sentence's short answer it holds. Where it stands in several
places, the best one counts. Pure: findings in, numbers and places out.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from quoth.answer.nearness import Sentence
from quoth.answer.reading import Findings
from quoth.answer.short_answers import LikelyAnswer, choose_short
from quoth.records import Answer, ShortAnswer, Span
from quoth.vocabulary.dynamic import DynamicVocabulary, Source

_LEAST = -12.0  # of a sentence, and of what the reader did not read


def best_passages(findings: Findings, *, most: int) -> list[int]:
    """List the passages of the most probable sentences, best first."""
    ordered = np.argsort(-findings.probabilities, kind="stable").tolist()
    return list(dict.fromkeys(findings.sentences[at].passage for at in ordered))[:most]


@dataclass(frozen=True, slots=True)
class Guide:
    """What a reader says of the places in some passages, best sentence 0."""

    starts: tuple[tuple[int, int], ...]
    """Where its sentences begin, in order: the passage's number, and the place there."""
    scores: tuple[float, ...]
    answers: tuple[Span | None, ...]
    """The short answers of the sentences."""
    strength: float

    @classmethod
    def of(cls, findings: Findings, passages: Sequence[int], *, strength: float) -> Guide:
        """Guide by findings; the writer sees some of their passages, in this order."""
        number_by_passage = {passage: number for number, passage in enumerate(passages)}
        logs = np.log(np.maximum(findings.probabilities, np.exp(2 * _LEAST)))
        scores = np.maximum(logs - logs.max(initial=-np.inf), _LEAST).tolist()
        rows = sorted(
            ((number_by_passage[each.passage], each.span.start), at)
            for at, each in enumerate(findings.sentences)
            if each.passage in number_by_passage
        )
        return cls(
            tuple(start for start, _at in rows),
            tuple(scores[at] for _start, at in rows),
            tuple(findings.spans[at] for _start, at in rows),
            strength,
        )

    def rank(self, sentences: Sequence[Sentence]) -> list[int]:
        """Order sentences as the reader would; where equal, as they stand."""
        found = [self._score(Source(each.passage, Span(each.span.start, 0))) for each in sentences]
        return sorted(range(len(sentences)), key=lambda at: (-found[at], at))

    def bonuses(self, vocabulary: DynamicVocabulary) -> tuple[float, ...]:
        """Return what is added to the score of each row."""
        return tuple(
            self.strength * max(map(self._score, each.sources), default=_LEAST)
            for each in vocabulary.candidates
        )

    def _score(self, source: Source) -> float:
        at = bisect_right(self.starts, (source.passage, source.span.start)) - 1
        if at < 0 or self.starts[at][0] != source.passage:
            return _LEAST
        return self.scores[at] + held_share(source.span, self.answers[at])


def held_share(phrase: Span, answer: Span | None) -> float:
    """Return the share of a short answer that a phrase holds.

    >>> held_share(Span(4, 12), Span(8, 16)), held_share(Span(0, 9), None)
    (0.5, 0.0)
    """
    if answer is None or answer.end <= answer.start:
        return 0.0
    shared = min(phrase.end, answer.end) - max(phrase.start, answer.start)
    return max(0, shared) / (answer.end - answer.start)


def find_short(
    answer: Answer, likely: Sequence[LikelyAnswer], passages: Sequence[int], *, support: float
) -> ShortAnswer | None:
    """Say where the short answer stands in an answer: the likely one that a quotation holds."""
    places = [
        Source(passages[answer.passages.index(each.passage)], each.passage_span)
        for each in answer.citations
    ]
    chosen = choose_short(likely, places)
    if chosen is None:
        return None
    span = chosen.source.span
    for each, place in zip(answer.citations, places, strict=True):
        if place.holds(chosen.source):
            start = each.answer_span.start + span.start - place.span.start
            text = answer.text[start : start + span.end - span.start]
            return ShortAnswer(text, Span(start, start + len(text)), support * chosen.probability)
    return None
