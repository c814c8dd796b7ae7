"""Choose what to show of a hit: its best passage, and where in it the query's words stand."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from itertools import starmap

from quoth.index.lexical.passage_terms import PassageTerms, PlacedPassage, weigh_terms
from quoth.records import Document, Passage, Snippet, Span
from quoth.text.words import Analyser, Word


class PassageChoice:
    """Chooses the passage of a document where the weighted terms of a query stand most.

    Fields named in `besides` are chosen only from documents that have no other. Where there is but
    one passage, it is not weighed unless asked for. The weight is 0 where none of the terms stands
    in any passage.
    """

    def __init__(
        self,
        weights: Mapping[str, float],
        *,
        analyser: Analyser,
        besides: Collection[str] = (),
    ) -> None:
        self._weights = weights
        self._analyser = analyser
        self._besides = besides

    def among(
        self, passages: Sequence[Passage], *, weigh: bool = False
    ) -> tuple[Passage | None, float]:
        """Choose by analysing passages; the earliest of equals."""
        passages = [each for each in passages if each.field not in self._besides] or passages
        if len(passages) == 1 and not weigh:
            return passages[0], 0.0
        weighed = [_passage_weight(each, self._weights, self._analyser) for each in passages]
        best = _first_best(weighed)
        return (passages[best], weighed[best]) if passages else (None, 0.0)

    def among_kept(
        self, document: Document, kept: PassageTerms, *, weigh: bool = False
    ) -> tuple[Passage | None, float]:
        """Choose by the terms that were kept of a document's passages; the earliest of equals."""
        names, passages = list(document.fields), kept.passages
        fit: Sequence[int] = range(len(passages))
        if self._besides and len(passages) > 1:
            own = [at for at in fit if names[passages[at].field] not in self._besides]
            fit = own or fit
        if not fit:
            return None, 0.0
        best, weight = fit[0], 0.0
        if len(fit) > 1 or weigh:
            weighed = kept.weigh(self._weights)
            best = fit[_first_best([weighed[at] for at in fit])]
            weight = weighed[best]
        return _cut(document, names[passages[best].field], passages[best]), weight


def _first_best(weights: Sequence[float]) -> int:
    return max(range(len(weights)), key=weights.__getitem__, default=0)


def _cut(document: Document, field: str, placed: PlacedPassage) -> Passage:
    _number, instance, start, end = placed
    text = document.fields[field][instance][start:end]
    return Passage(document.docid, field, Span(start, end), text, instance)


def make_snippet(
    passage: Passage, weights: Mapping[str, float], *, analyser: Analyser, max_chars: int = 240
) -> Snippet:
    """Cut a stretch of at most `max_chars` around the heaviest cluster of query words."""
    words = analyser.find(passage.text, weights)
    start, end = 0, len(passage.text)
    if end > max_chars:
        cluster = _heaviest_cluster(words, weights, max_chars)
        start, end = _whole_words(passage.text, cluster, max_chars)
    return Snippet(
        passage.text[start:end],
        Span(passage.span.start + start, passage.span.start + end),
        _highlight(words, start, end),
    )


def _passage_weight(passage: Passage, weights: Mapping[str, float], analyser: Analyser) -> float:
    terms = analyser.terms(passage.text)
    counts = Counter(filter(weights.__contains__, terms))
    return weigh_terms(counts, weights, num_terms=len(terms))


def _heaviest_cluster(words: Sequence[Word], weights: Mapping[str, float], max_chars: int) -> Span:
    """Find the stretch from one query word to another that holds the most distinct weight."""
    best, best_weight, until = Span(0, 0), 0.0, 0
    tfs: dict[str, int] = {}
    for at, first in enumerate(words):
        limit, is_new = first.start + max_chars, False
        while until < min(len(words), at + 64) and words[until].end <= limit:
            term = words[until].term
            is_new |= term not in tfs
            tfs[term] = tfs.get(term, 0) + 1
            until += 1
        if is_new:  # or else it weighs no more than the stretch before
            weight = math.fsum(map(weights.__getitem__, tfs))
            if weight > best_weight:
                best, best_weight = Span(first.start, words[until - 1].end), weight
        if until == at:  # a word longer than what is shown
            until += 1
        elif tfs[first.term] > 1:
            tfs[first.term] -= 1
        else:
            del tfs[first.term]
    return best


def _whole_words(text: str, cluster: Span, max_chars: int) -> tuple[int, int]:
    """Widen to the left for context and end at a word's end, within the allowance."""
    lead = max(0, cluster.start - max_chars // 6, cluster.end - max_chars)
    if lead > 0:
        space = text.find(" ", lead, cluster.start)
        lead = space + 1 if space >= 0 else cluster.start
    end = min(len(text), lead + max_chars)
    if end < len(text):
        space = text.rfind(" ", max(cluster.end, lead + max_chars // 2), end)
        end = space if space >= 0 else end
    return lead, end


def _highlight(words: Sequence[Word], start: int, end: int) -> tuple[Span, ...]:
    """Return the spans of words within a stretch, counted from its start.

    Overlapping ones, as pairs of characters give them, are joined.
    """
    spans: list[tuple[int, int]] = []
    last = 0
    for _term, begin, until in words:
        if begin < start or until > end:
            continue
        if begin < last:
            spans[-1] = (spans[-1][0], max(last, until) - start)
        else:
            spans.append((begin - start, until - start))
        last = max(last, until)
    return tuple(starmap(Span, spans))
