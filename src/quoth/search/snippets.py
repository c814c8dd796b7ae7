"""Choose what to show of a hit: its best passage, and where in it the query's words stand."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

from quoth.records import Passage, Snippet, Span
from quoth.text.words import Analyser, Word
from quoth.vocabulary.weighting import saturate

_TELLING_LENGTH = 10


def best_passage(
    passages: Sequence[Passage], weights: Mapping[str, float], *, analyser: Analyser
) -> tuple[Passage | None, float]:
    """Pick the passage where the weighted terms stand most, the earliest of equals.

    Its weight is 0 where none of them stands in any passage.
    """
    best, most = None, -1.0
    for passage in passages:
        weight = _passage_weight(passage, weights, analyser)
        if weight > most:
            best, most = passage, weight
    return best, max(most, 0.0)


def make_snippet(
    passage: Passage, weights: Mapping[str, float], *, analyser: Analyser, max_chars: int = 240
) -> Snippet:
    """Cut a stretch of at most `max_chars` around the heaviest cluster of query words."""
    words = analyser.find(passage.text, weights)
    cluster = _heaviest_cluster(words, weights, max_chars)
    start, end = _whole_words(passage.text, cluster, max_chars)
    highlights = _join([word for word in words if start <= word.start and word.end <= end])
    return Snippet(
        passage.text[start:end],
        Span(passage.span.start + start, passage.span.start + end),
        tuple(Span(span.start - start, span.end - start) for span in highlights),
    )


def _passage_weight(passage: Passage, weights: Mapping[str, float], analyser: Analyser) -> float:
    """Weigh a passage; one of a few words, such as a title, counts only in proportion."""
    terms = analyser.terms(passage.text)
    counts = Counter(filter(weights.__contains__, terms))
    matched = sum(weights[term] * saturate(tf, 1.0) for term, tf in counts.items())
    return matched * min(1.0, len(terms) / _TELLING_LENGTH)


def _heaviest_cluster(words: Sequence[Word], weights: Mapping[str, float], max_chars: int) -> Span:
    """Find the stretch from one query word to another that holds the most distinct weight."""
    best, best_weight = Span(0, 0), 0.0
    for at, first in enumerate(words):
        inside = [word for word in words[at : at + 64] if word.end <= first.start + max_chars]
        weight = sum(weights[term] for term in {word.term for word in inside})
        if weight > best_weight:
            best, best_weight = Span(first.start, inside[-1].end), weight
    return best


def _whole_words(text: str, cluster: Span, max_chars: int) -> tuple[int, int]:
    """Widen to the left for context and end at a word's end, within the allowance."""
    if len(text) <= max_chars:
        return 0, len(text)
    lead = max(0, cluster.start - max_chars // 6, cluster.end - max_chars)
    if lead > 0:
        space = text.find(" ", lead, cluster.start)
        lead = space + 1 if space >= 0 else cluster.start
    end = min(len(text), lead + max_chars)
    if end < len(text):
        space = text.rfind(" ", max(cluster.end, lead + max_chars // 2), end)
        end = space if space >= 0 else end
    return lead, end


def _join(words: Sequence[Word]) -> list[Span]:
    """Join overlapping spans, as overlapping pairs of characters give them."""
    spans: list[Span] = []
    for word in words:
        if spans and word.start < spans[-1].end:
            spans[-1] = Span(spans[-1].start, max(spans[-1].end, word.end))
        else:
            spans.append(Span(word.start, word.end))
    return spans
