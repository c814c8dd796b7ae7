"""Count terms in memory: what a batch of documents adds to the statistics."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain, repeat
from operator import add

EVERYTHING = "*"
"""The view that joins all fields of a document."""

FieldTerms = Mapping[str, Sequence[Sequence[str]]]
"""A document after the analyser: field → its instances → their terms."""

JoinedTerms = Mapping[str, Sequence[str]]
"""The same with the terms of each instance in one text, parted by spaces."""


CountedView = tuple[str | None, bool, int, Mapping[str, int]]
"""A field (None for all together), whether of documents with no other, terms, documents by term."""


def join_terms(document: FieldTerms) -> JoinedTerms:
    """Join the terms of each instance.

    >>> join_terms({"text": [["an", "owl"], ["hunts"]]})
    {'text': ['an owl', 'hunts']}
    """
    return {name: [" ".join(terms) for terms in own] for name, own in document.items()}


def view_terms(document: FieldTerms) -> Iterator[tuple[str, list[str]]]:
    """Yield each view of a document with all its terms in order, `EVERYTHING` last.

    >>> list(view_terms({"title": [["red"]], "text": [["a"], ["b"]]}))
    [('title', ['red']), ('text', ['a', 'b']), ('*', ['red', 'a', 'b'])]
    """
    everything: list[str] = []
    for name, instances in document.items():
        terms = [term for instance in instances for term in instance]
        everything += terms
        yield name, terms
    yield EVERYTHING, everything


def _counters() -> defaultdict[str, Counter[str]]:
    return defaultdict(Counter)


@dataclass(slots=True)
class BatchCounts:
    """Documents per view and term, and terms per view; negative where documents are taken out.

    >>> counts = BatchCounts()
    >>> counts.count({"text": [["an", "owl"]]})
    >>> counts.count({"title": [["owl"]], "text": [["owl"]]})
    >>> [(term, df) for view, term, df in counts.frequencies() if view == EVERYTHING]
    [('an', 1), ('owl', 2)]
    """

    num_documents: int = 0
    lengths: Counter[str] = field(default_factory=Counter)
    _shared: defaultdict[str, Counter[str]] = field(default_factory=_counters)
    _alone: defaultdict[str, Counter[str]] = field(default_factory=_counters)
    """Of documents with one field: the whole document holds what the field does."""

    @classmethod
    def of(cls, counted: Iterable[CountedView], *, num_documents: int) -> BatchCounts:
        """Take over what was counted of documents elsewhere."""
        counts = cls(num_documents)
        for view, is_alone, length, frequencies in counted:
            found = counts._alone if is_alone else counts._shared
            dict.update(found[EVERYTHING if view is None else view], frequencies)
            if view is not None:
                counts.lengths[view] += length
        return counts

    def count(self, document: FieldTerms, *, sign: int = 1) -> None:
        """Count a document in (sign 1) or out (sign −1)."""
        self.num_documents += sign
        everything: set[str] = set()
        counted = self._alone if len(document) == 1 else self._shared
        for view, instances in document.items():
            distinct = set(instances[0]) if len(instances) == 1 else set().union(*instances)
            self.lengths[view] += sign * sum(map(len, instances))
            _count_distinct(counted[view], distinct, sign)
            everything = everything | distinct if everything else distinct
        if len(document) != 1:
            _count_distinct(self._shared[EVERYTHING], everything, sign)

    def add(self, other: BatchCounts) -> None:
        """Add what was counted elsewhere."""
        self.num_documents += other.num_documents
        self.lengths.update(other.lengths)
        for own, more in ((self._shared, other._shared), (self._alone, other._alone)):
            for view, counts in more.items():
                _add_counts(own[view], counts)

    @property
    def num_pending(self) -> int:
        """Terms of the view that has most."""
        return max(map(len, chain(self._shared.values(), self._alone.values())), default=0)

    def frequencies(self) -> Iterator[tuple[str, str, int]]:
        """Yield view, term and documents, sorted, but for terms that no document has left."""
        counts, terms = Counter[str](), list[str]()
        for view in sorted({*self._shared, *self._alone, *([EVERYTHING] if self._alone else [])}):
            before, counts = counts, self._of_view(view)
            if counts is not before:  # often the whole document has one field and no other
                terms = sorted(term for term, df in counts.items() if df)
            yield from zip(repeat(view), terms, map(counts.__getitem__, terms), strict=False)

    def _of_view(self, view: str) -> Counter[str]:
        every = self._alone if view == EVERYTHING else [view]
        alone = [self._alone.get(each) for each in every]
        parts = [each for each in (self._shared.get(view), *alone) if each]
        if len(parts) == 1:
            return parts[0]
        total = Counter[str]()
        for each in parts:
            _add_counts(total, each)  # not by +, which leaves out what is below zero
        return total

    def total_lengths(self) -> dict[str, int]:
        """Return terms per view."""
        return {**self.lengths, EVERYTHING: self.lengths.total()} if self.lengths else {}


def _add_counts(counts: Counter[str], more: Mapping[str, int]) -> None:
    """Do what `Counter.update` does, without a line of Python for each term.

    >>> counts = Counter(owl=1)
    >>> _add_counts(counts, {"owl": -1, "barn": 2})
    >>> counts
    Counter({'barn': 2, 'owl': 0})
    """
    known = map(counts.get, more, repeat(0))
    dict.update(counts, zip(more, map(add, known, more.values()), strict=True))


def _count_distinct(counts: Counter[str], distinct: set[str], sign: int) -> None:
    (counts.update if sign > 0 else counts.subtract)(distinct)
