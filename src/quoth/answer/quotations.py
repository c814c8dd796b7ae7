"""Which stretches of the passages an answer quotes: pure functions on what a reader found.

The most probable sentence comes first. Others follow where they are nearly as probable and say
something else: another sentence may be needed to answer, or give another answer. A long sentence is
quoted from one comma, or its like, to another around what answers.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from quoth.answer.nearness import Sentence
from quoth.answer.reading import Findings
from quoth.records import Span
from quoth.vocabulary.dynamic import Source

_BREAK = re.compile(r"[,;:)\]]\s+|\s+(?=[-–—(\[]\s?)")
_EMPTY_LINE = re.compile(r"\n[ \t]*\n\s*")
_EDGES = " ,;:\n\t"


@dataclass(frozen=True, slots=True)
class QuotationLimits:
    """How many sentences are quoted, and how much of each."""

    most: int
    share: float
    words: int


def choose_quotations(findings: Findings, limits: QuotationLimits) -> list[Source]:
    """Choose what is quoted, most probable first; none where there is no sentence."""
    chosen: list[Source] = []
    said: set[str] = set()
    ordered = np.argsort(-findings.probabilities, kind="stable").tolist()
    for at in ordered[: 2 * limits.most]:
        is_near = findings.probabilities[at] >= limits.share * findings.probabilities[ordered[0]]
        text = " ".join(findings.sentences[at].text.casefold().split())
        if len(chosen) < limits.most and is_near and text not in said:
            said.add(text)
            chosen.append(_quote(findings.sentences[at], findings.spans[at], limits.words))
    return _in_order(chosen)


def _quote(sentence: Sentence, answer: Span | None, words: int) -> Source:
    if answer is None:
        return Source(sentence.passage, sentence.span)
    first, last = answer.start, min(answer.end, sentence.span.end)
    shift = sentence.span.start
    block = _block(sentence.text, Span(first - shift, last - shift))
    shift += block.start
    text = sentence.text[block.start : block.end]
    kept = trim(text, Span(first - shift, last - shift), words=words)
    return Source(sentence.passage, Span(shift + kept.start, shift + kept.end))


def _block(text: str, answer: Span) -> Span:
    r"""Keep what stands between the empty lines around an answer: no heading goes with it.

    >>> text = "# Owls\n\nThey hunt at night."
    >>> found = _block(text, Span(21, 26))
    >>> text[found.start : found.end]
    'They hunt at night.'
    """
    start = max((each.end() for each in _EMPTY_LINE.finditer(text, 0, answer.start)), default=0)
    found = _EMPTY_LINE.search(text, answer.end)
    return Span(start, found.start() if found else len(text))


def trim(sentence: str, answer: Span, *, words: int) -> Span:
    """Cut a sentence at commas and their like, around an answer, to at most so many words.

    What comes before the answer is kept first, since it says what the answer is about. The stretch
    between two breaks that the answer stands in is kept, however long it is.

    >>> text = "In 1856, when it was rebuilt, the harbour got a lighthouse, which still stands."
    >>> found = trim(text, Span(48, 58), words=9)
    >>> text[found.start : found.end]
    'when it was rebuilt, the harbour got a lighthouse'
    """
    if len(sentence.split()) <= words:
        return Span(0, len(sentence))
    breaks = [0, *(found.end() for found in _BREAK.finditer(sentence)), len(sentence)]
    low = max(each for each in breaks if each <= answer.start)
    high = min(each for each in breaks if each >= answer.end)
    for earlier in [each for each in reversed(breaks) if each < low]:
        if len(sentence[earlier:high].split()) > words:
            break
        low = earlier
    for later in [each for each in breaks if each > high]:
        if len(sentence[low:later].split()) > words:
            break
        high = later
    if high < len(sentence):
        high = max(answer.end, low + len(sentence[low:high].rstrip(_EDGES)))
    return Span(low, high)


def _in_order(chosen: Sequence[Source]) -> list[Source]:
    """Let sentences of one passage that stand side by side follow each other as they stand.

    >>> first, second, other = Source(0, Span(0, 9)), Source(0, Span(10, 20)), Source(1, Span(0, 5))
    >>> _in_order([second, other, first]) == [first, second, other]
    True
    """
    ordered: list[Source] = []
    for each in chosen:
        at = next((at for at, known in enumerate(ordered) if known.passage == each.passage), None)
        if at is None:
            ordered.append(each)
            continue
        while (
            at < len(ordered)
            and ordered[at].passage == each.passage
            and ordered[at].span < each.span
        ):
            at += 1
        ordered.insert(at, each)
    return ordered
