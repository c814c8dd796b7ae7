"""Where the answer stands: what a reader says of all passages of a question, weighed together.

Every sentence gets one score, a weighted sum of signs: of the spans that begin in it, of its
evidence, of its passage's relevance, of "not here" in its passage and of where search ranked its
document; nearness to the question adds to those of the best. The softmax over all sentences is how
probable it is that the answer stands there, if it stands anywhere. Weights are fitted on held-out
training questions (`benchmarks.citations.sentence_signs`), the reader's stored beside it.

Pure: readings in, numbers and places out, but for the two functions that keep the weights.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from quoth.answer.nearness import Numbers, Sentence, holds_word, is_question, sentences_of
from quoth.answer.short_answers import LikelyAnswer
from quoth.artifact import write_text_atomically
from quoth.errors import Damaged
from quoth.models.reader.spans import (
    Reading,
    best_span,
    best_spans,
    log_sum_exp,
    sentence_scores,
    span_scores,
)
from quoth.records import Span
from quoth.vocabulary.dynamic import Source

SIGNS = ("spans", "evidence", "relevance", "silence", "standing")
"""What is weighed of a sentence."""

WEIGHTS_FILE = "sentences.json"
_BY_SPANS = (1.0, 0.0, 0.0, 0.0, 0.0)
MOST_ENCODED = 8
"""Sentences whose nearness is looked at."""
_MOST_SENTENCES, _MOST_SPANS = 8, 12  # that short answers are taken from
_LEAST_LIKELY = 0.001


def save_weights(folder: Path, weights: Sequence[float]) -> None:
    """Keep the weights of the signs beside the reader they were fitted with."""
    content = {"signs": SIGNS, "weights": [round(each, 4) for each in weights]}
    write_text_atomically(folder / WEIGHTS_FILE, json.dumps(content) + "\n")


def open_weights(folder: Path) -> tuple[float, ...]:
    """Read the weights of the signs; the spans alone count where a reader has none.

    A sign that an older fit did not know has no weight.
    """
    path = folder / WEIGHTS_FILE
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
        known = dict(zip(content["signs"], map(float, content["weights"]), strict=True))
        if not known.keys() <= set(SIGNS) or not np.isfinite(list(known.values())).all():
            raise ValueError(f"expected finite weights of {', '.join(SIGNS)}")
        return tuple(known.get(sign, 0.0) for sign in SIGNS)
    except FileNotFoundError:
        return _BY_SPANS
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise Damaged(
            f"{path} cannot be read ({error}); restore it, or remove it to go by spans alone"
        ) from error


@dataclass(frozen=True, slots=True)
class Findings:
    """What was found in the passages of one question."""

    sentences: tuple[Sentence, ...]
    probabilities: Numbers  # (N,) of holding the answer, if one holds it
    spans: tuple[Span | None, ...]
    """The best short answer of each sentence."""
    likely: tuple[LikelyAnswer, ...]
    """Short answers of the most probable sentences, most probable first."""
    margin: float
    """How far the best span of any passage is above "not here"."""
    relevance: float
    """Of the most relevant passage."""
    nearest: float = 0.0
    """The highest cosine of the question and a sentence with the one before it; 0 where nothing
    encodes sentences."""
    score: float = -np.inf
    """Of the most probable sentence: its weighted signs and nearness, which other questions'
    compare with."""


def standing_of(rank: int) -> float:
    """Say how far a document stands below the first that search found, its rank from 1.

    >>> standing_of(1), standing_of(4)
    (0.0, -0.75)
    """
    return 1.0 / rank - 1.0


def sentence_signs(
    passages: Sequence[str], readings: Sequence[Reading], *, standings: Sequence[float] = ()
) -> tuple[list[Sentence], Numbers]:  # (N, F)
    """Return the sentences of all passages with their signs.

    `standings` has that of each passage; without, nothing ranked them.
    """
    sentences = sentences_of(passages)
    rows = []
    for number, reading in enumerate(readings):
        own = [each.span for each in sentences if each.passage == number]
        standing = standings[number] if standings else 0.0
        whole = np.array([reading.relevance, reading.silence, standing])
        rows.append(np.column_stack([sentence_scores(reading, own), np.tile(whole, (len(own), 1))]))
    return sentences, np.concatenate([np.zeros((0, len(SIGNS))), *rows])


@dataclass(frozen=True, slots=True)
class Nearness:
    """How near stretches are to the question, and how much each 1.0 of cosine counts."""

    cosines: Callable[[Sequence[Sentence]], Numbers]
    weight: float


def find_answer(
    passages: Sequence[str],
    readings: Sequence[Reading],
    *,
    weights: Sequence[float],
    standings: Sequence[float] = (),
    nearness: Nearness | None = None,
) -> Findings:
    """Weigh what a reader says of passages, and how near the best sentences are to the question."""
    sentences, signs = sentence_signs(passages, readings, standings=standings)
    readable = np.asarray(np.isfinite(signs).all(axis=1))
    kept = tuple(each for each, is_kept in zip(sentences, readable, strict=True) if is_kept)
    scores = signs[readable] @ np.array(weights)
    cosines = _cosines_of_best(kept, scores, nearness)
    scores = scores + (nearness.weight if nearness else 0.0) * cosines
    probabilities = softmax(scores)
    margins = [
        found.score - reading.silence for reading in readings if (found := best_span(reading))
    ]
    spans = tuple(_best_within(readings[each.passage], each) for each in kept)
    return Findings(
        kept,
        probabilities,
        spans,
        _likely_answers(kept, probabilities, readings),
        max(margins, default=-np.inf),
        max((reading.relevance for reading in readings), default=-np.inf),
        float(cosines.max(initial=0.0)),
        float(scores.max(initial=-np.inf)),
    )


def _cosines_of_best(
    sentences: Sequence[Sentence], scores: Numbers, nearness: Nearness | None
) -> Numbers:  # (N,)
    """Return the cosines of the best sentences; the others count as the furthest of these.

    Encoding all sentences would take as long as reading them.
    """
    if nearness is None or not len(sentences):
        return np.zeros(len(sentences))
    best = np.argsort(-scores, kind="stable")[:MOST_ENCODED]
    own = nearness.cosines([with_the_one_before(sentences, at) for at in best.tolist()])
    found = np.full(len(sentences), own.min())
    found[best] = own
    return found


def with_the_one_before(sentences: Sequence[Sentence], at: int) -> Sentence:
    """Put before a sentence the one that stands before it in its passage, which it may lean on.

    >>> [with_the_one_before(sentences_of(["Owls? They hunt."]), at).text for at in (0, 1)]
    ['Owls?', 'Owls? They hunt.']
    """
    own = sentences[at]
    if at == 0 or sentences[at - 1].passage != own.passage:
        return own
    before = sentences[at - 1]
    span = Span(before.span.start, own.span.end)
    return Sentence(own.passage, span, f"{before.text} {own.text}")


def softmax(scores: Numbers) -> Numbers:
    """Turn scores into probabilities; none into none.

    >>> softmax(np.log([1.0, 3.0])).round(6).tolist(), softmax(np.zeros(0)).tolist()
    ([0.25, 0.75], [])
    """
    if not len(scores):
        return scores
    found: Numbers = np.exp(scores - log_sum_exp(scores, axis=0))
    return found


def _likely_answers(
    sentences: Sequence[Sentence], probabilities: Numbers, readings: Sequence[Reading]
) -> tuple[LikelyAnswer, ...]:
    """List the best spans of the most probable sentences, with how probable each is among them.

    Two estimates are averaged, for each knows what the other does not: one by the sentence, which
    search, nearness and evidence speak for as well, and by the span's share of it; one by how far
    the span alone is above "not here" in its passage.
    """
    found: list[tuple[Source, str]] = []
    by_sentence: list[float] = []
    alone: list[float] = []
    for at in np.argsort(-probabilities, kind="stable")[:_MOST_SENTENCES].tolist():
        sentence, reading = sentences[at], readings[sentences[at].passage]
        inside = _answering(reading, sentence)
        spans = [
            each
            for each in best_spans(inside, most=_MOST_SPANS)
            if holds_word(_stretch(sentence, each.span))
        ]
        if not spans or not probabilities[at]:
            continue
        total = log_sum_exp(span_scores(inside).ravel(), axis=0)
        share = float(np.log(probabilities[at]) - total)
        found += [
            (Source(sentence.passage, each.span), _stretch(sentence, each.span)) for each in spans
        ]
        by_sentence += [share + each.score for each in spans]
        alone += [each.score - reading.silence for each in spans]
    weights = (np.exp(np.array(by_sentence)) + softmax(np.array(alone))) / 2
    ordered = np.argsort(-weights, kind="stable").tolist()
    return tuple(
        LikelyAnswer(source, text, float(weights[at]))
        for at in ordered
        for source, text in [found[at]]
        if weights[at] >= _LEAST_LIKELY
    )


def _best_within(reading: Reading, sentence: Sentence) -> Span | None:
    found = best_span(_answering(reading, sentence))
    return None if found is None else found.span


def _answering(reading: Reading, sentence: Sentence) -> Reading:
    """Keep the subwords of a sentence, marks left out where the best span is no more than marks.

    Nothing is kept of a question, which answers nothing.
    """
    inside = _within(reading, sentence.span)
    if is_question(sentence.text):
        return _keep(inside, np.zeros(len(inside.spans), dtype=np.bool_))
    found = best_span(inside)
    if found is None or holds_word(_stretch(sentence, found.span)):
        return inside
    spans = [Span(int(start), int(end)) for start, end in inside.spans]
    return _keep(inside, np.array([holds_word(_stretch(sentence, each)) for each in spans]))


def _stretch(sentence: Sentence, span: Span) -> str:
    start = sentence.span.start
    return sentence.text[span.start - start : span.end - start]


def _within(reading: Reading, span: Span) -> Reading:
    """Keep what begins within a stretch of the text."""
    return _keep(reading, (reading.spans[:, 0] >= span.start) & (reading.spans[:, 0] < span.end))


def _keep(reading: Reading, own: NDArray[np.bool_]) -> Reading:
    """Keep some of the subwords."""
    return Reading(
        reading.spans[own],
        reading.starts[own],
        reading.ends[own],
        reading.evidence[own],
        reading.silence,
        reading.relevance,
    )
