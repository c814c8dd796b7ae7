"""Choose what to show of a hit: its best passage, and where in it the query's words stand."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence

from quoth.compiled import is_compiled, quick
from quoth.index.lexical.passage_terms import (
    CutPassage,
    PassageTerms,
    cut_heaviest,
    weigh_terms,
    write_wanted_keys,
)
from quoth.records import Document, Passage, Snippet, Span
from quoth.search.near import Body
from quoth.text.passage_scores import add_nearness
from quoth.text.words import Analyser, PlacedTerm

_MOST_WORDS = 64
"""So many words may make up a cluster."""

_MOST_COMPILED = 64
"""Terms of a query up to which compiled code cuts snippets."""

KeyedPassage = tuple[Passage, bytes]
"""A passage with the keys of the terms in it, as the index keeps them; empty where it does not."""

_make_span, _make_passage, _make_snippet = quick(Span), quick(Passage), quick(Snippet)


class PassageChoice:
    """Chooses the passage of a document where the weighted terms of a query stand most.

    Where it is known how near passages are to the query, that counts as well, or alone if it is not
    to go by words. Fields named in `besides` are chosen only from documents that have no other.
    """

    def __init__(
        self,
        weights: Mapping[str, float],
        *,
        analyser: Analyser,
        besides: Collection[str] = (),
        by_words: bool = True,
    ) -> None:
        self._weights = weights
        self._analyser = analyser
        self._besides = besides
        self._by_words = by_words

    def among(self, passages: Sequence[Passage], *, near: Body | None = None) -> Passage | None:
        """Choose by analysing passages; the earliest of equals."""
        best = self._choose(
            [each.field for each in passages],
            lambda: [_passage_weight(each, self._weights, self._analyser) for each in passages],
            near,
        )
        return passages[best] if best >= 0 else None

    def among_kept(
        self, document: Document, kept: PassageTerms, *, near: Body | None = None
    ) -> KeyedPassage | None:
        """Choose by the terms that were kept of a document's passages; the earliest of equals."""
        names = list(document.fields)
        fields = [names[number] for number in kept.fields()]
        best = self._choose(fields, lambda: kept.weigh(self._weights), near)
        if best < 0:
            return None
        return _as_passage(document.docid, kept.cut(document.fields, best))

    def among_each_kept(
        self, documents: Sequence[Document], kept: Sequence[PassageTerms]
    ) -> list[KeyedPassage | None]:
        """Choose by the terms that were kept, for many documents at once; nothing else counts."""
        fields = [each.fields for each in documents]
        found = cut_heaviest(kept, fields, self._weights, besides=self._besides)
        return [
            None if own is None else _as_passage(document.docid, own)
            for document, own in zip(documents, found, strict=True)
        ]

    def _choose(
        self, fields: Sequence[str], weigh: Callable[[], Sequence[float]], near: Body | None
    ) -> int:
        """Choose one of the passages of these fields, -1 where there is none."""
        cosines = _by_place(fields, near) if near else {}
        nearest = max(cosines, key=cosines.__getitem__, default=-1)
        if cosines and not self._by_words:
            return nearest
        fit = [at for at, each in enumerate(fields) if each not in self._besides]
        fit = fit or list(range(len(fields)))
        if len(fit) < 2:
            return fit[0] if fit else -1
        weighed = weigh()
        own = [weighed[at] for at in fit]
        if not any(own):
            return nearest if cosines else fit[0]
        if not cosines:
            return fit[_first_best(own)]
        known = {number: cosines[at] for number, at in enumerate(fit) if at in cosines}
        return fit[_first_best(add_nearness(own, known))]


def _first_best(weights: Sequence[float]) -> int:
    return max(range(len(weights)), key=weights.__getitem__)


def _by_place(fields: Sequence[str], near: Body) -> dict[int, float]:
    """Give the passages of the body their cosines; none where they were cut otherwise.

    >>> _by_place(["title", "text", "text"], Body("text", [0.5, 0.25]))
    {1: 0.5, 2: 0.25}
    """
    own = [at for at, each in enumerate(fields) if each == near.field]
    fits = len(own) == len(near.cosines)
    return dict(zip(own, near.cosines, strict=True)) if fits else {}


def _as_passage(docid: str, found: CutPassage) -> KeyedPassage:
    field, instance, start, end, text, keys = found
    return _make_passage(docid, field, _make_span(start, end), text, instance, ""), keys


def make_snippet(
    passage: Passage, weights: Mapping[str, float], *, analyser: Analyser, max_chars: int = 240
) -> Snippet:
    """Cut a stretch of at most `max_chars` around the heaviest cluster of query words."""
    return make_snippets([(passage, b"")], weights, analyser=analyser, max_chars=max_chars)[0]


def make_snippets(
    passages: Sequence[KeyedPassage],
    weights: Mapping[str, float],
    *,
    analyser: Analyser,
    max_chars: int = 240,
) -> list[Snippet]:
    """Cut such a stretch of each of many passages."""
    if len(weights) > _MOST_COMPILED or not is_compiled():
        return [
            cut_around_slowly(each, analyser.place(each.text, weights), weights, max_chars)
            for each, _keys in passages
        ]
    from quoth.native import snippets

    wanted = write_wanted_keys(weights)

    def place(text: str, keys: bytes) -> list[PlacedTerm]:
        return analyser.place_known(text, weights, keys=keys, wanted_keys=wanted)

    return snippets(list(passages), place, weights, max_chars, _make_span, _make_snippet)


def cut_around_slowly(
    passage: Passage, words: Sequence[PlacedTerm], weights: Mapping[str, float], max_chars: int
) -> Snippet:
    """Cut a snippet around words of a passage without compiled code."""
    text, first = passage.text, passage.span.start
    if len(text) <= max_chars:
        return Snippet(text, passage.span, _highlight(words, 0, len(text)))
    start, end = _whole_words(text, _heaviest_cluster(words, weights, max_chars), max_chars)
    return Snippet(text[start:end], Span(first + start, first + end), _highlight(words, start, end))


def _passage_weight(passage: Passage, weights: Mapping[str, float], analyser: Analyser) -> float:
    terms = analyser.terms(passage.text)
    counts = Counter(filter(weights.__contains__, terms))
    return weigh_terms(counts, weights, num_terms=len(terms))


def _heaviest_cluster(
    words: Sequence[PlacedTerm], weights: Mapping[str, float], max_chars: int
) -> tuple[int, int]:
    """Find the stretch from one query word to another that holds the most distinct weight."""
    count = len(words)
    if words and words[-1][1] <= words[0][0] + max_chars and count <= _MOST_WORDS:
        return words[0][0], words[-1][1]
    best, best_weight, until = (0, 0), 0.0, 0
    starts, ends, terms = zip(*words, strict=True) if words else ((), (), ())
    most = math.fsum(map(weights.__getitem__, set(terms)))
    tfs: dict[str, int] = {}
    for at, first in enumerate(terms):
        limit, is_new = starts[at] + max_chars, False
        last = min(count, at + _MOST_WORDS)
        while until < last and ends[until] <= limit:
            term = terms[until]
            if term in tfs:
                tfs[term] += 1
            else:
                tfs[term], is_new = 1, True
            until += 1
        if is_new:  # or else it weighs no more than the stretch before
            weight = math.fsum(map(weights.__getitem__, tfs))
            if weight > best_weight:
                best, best_weight = (starts[at], ends[until - 1]), weight
                if weight >= most:
                    break
        if until == at:  # a word longer than what is shown
            until += 1
        elif tfs[first] > 1:
            tfs[first] -= 1
        else:
            del tfs[first]
    return best


def _whole_words(text: str, cluster: tuple[int, int], max_chars: int) -> tuple[int, int]:
    """Widen to the left for context and end at a word's end, within the allowance."""
    first, last = cluster
    lead = max(0, first - max_chars // 6, last - max_chars)
    if lead > 0:
        space = text.find(" ", lead, first)
        lead = space + 1 if space >= 0 else first
    end = min(len(text), lead + max_chars)
    if end < len(text):
        space = text.rfind(" ", max(last, lead + max_chars // 2), end)
        end = space if space >= 0 else end
    return lead, end


def _highlight(words: Sequence[PlacedTerm], start: int, end: int) -> tuple[Span, ...]:
    """Return the spans of words within a stretch, counted from its start.

    Overlapping ones, as pairs of characters give them, are joined.
    """
    spans: list[tuple[int, int]] = []
    last = 0
    for begin, until, _term in words:
        if begin < start or until > end:
            continue
        if begin < last:
            spans[-1] = (spans[-1][0], max(last, until) - start)
        else:
            spans.append((begin - start, until - start))
        last = until if until > last else last
    return tuple(Span(*each) for each in spans)
