"""The dynamic vocabulary: phrases offered to the language model for one question.

A candidate is a stretch of a passage with its leading space, as a language model reads it: " barn
owl". It knows every place it stands at; equal strings are one candidate with all their sources.

Rows are the language model's: phrase row r is token V + r. They never change: growing appends rows,
and off-loading only takes rows off the offer, so tokens chosen earlier keep their meaning.
"""

from __future__ import annotations

from collections.abc import Collection, Hashable, Iterable
from dataclasses import dataclass, replace

from quoth.records import Span

_SENTENCE_ENDS = (".", "!", "?", "…")
_CLOSING = "\"'”’)]»"

NO_ANSWER = "The documents do not say."
"""What is said where the passages hold no answer; the language model is trained to say it too."""


def ends_sentence(text: str) -> bool:
    """Whether what follows a text is another sentence."""
    return text.rstrip(_CLOSING).endswith(_SENTENCE_ENDS)


@dataclass(frozen=True, slots=True)
class Source:
    """Where a candidate stands: the number of its passage, best hit first, and the stretch there.

    `passages[passage].text[span.start : span.end]` equals the candidate's text without its leading
    space.
    """

    passage: int
    span: Span

    def holds(self, other: Source) -> bool:
        """Whether another stretch, of one character at least, stands within this one.

        >>> owls = Source(0, Span(5, 9))
        >>> owls.holds(Source(0, Span(6, 9))), owls.holds(Source(0, Span(8, 10)))
        (True, False)
        """
        own, inside = self.span, other.span
        is_within = own.start <= inside.start < inside.end <= own.end
        return self.passage == other.passage and is_within


@dataclass(frozen=True, slots=True)
class Candidate:
    """A phrase offered to the generator, with its subwords and where it stands."""

    text: str
    subword_ids: tuple[int, ...]
    sources: tuple[Source, ...]

    @property
    def ends_sentence(self) -> bool:
        """Whether what follows is another sentence.

        >>> [Candidate(text, (), ()).ends_sentence for text in (" at night.”", " at night")]
        [True, False]
        """
        return ends_sentence(self.text)


@dataclass(frozen=True, slots=True)
class DynamicVocabulary:
    """Candidates by row, and the rows now on offer in increasing order."""

    candidates: tuple[Candidate, ...]
    offered: tuple[int, ...]
    per_passage: bool = False

    @classmethod
    def of(cls, candidates: Iterable[Candidate], *, per_passage: bool = False) -> DynamicVocabulary:
        """Offer candidates in their order; equal strings are joined at the place of the first.

        With `per_passage`, only those of one passage are: where a phrase is read with the marker
        of its passage, the same words of two passages are two phrases.

        >>> first, again = Source(0, Span(0, 8)), Source(2, Span(4, 12))
        >>> owl, night = ((" barn owl", (5, 6)), (" at night", (8, 9)))
        >>> vocabulary = DynamicVocabulary.of(
        ...     [Candidate(*owl, (first,)), Candidate(*night, (first,)), Candidate(*owl, (again,))]
        ... )
        >>> [(each.text, len(each.sources)) for each in vocabulary.candidates]
        [(' barn owl', 2), (' at night', 1)]
        """
        return cls((), (), per_passage).grow(candidates)

    def grow(self, candidates: Iterable[Candidate]) -> DynamicVocabulary:
        """Offer more: new strings get new rows, known ones more sources; no row changes its place.

        A known string that had been off-loaded is offered again.
        """
        grown = list(self.candidates)
        row_by_key = {self._key(each): row for row, each in enumerate(grown)}
        offered = set(self.offered)
        for candidate in candidates:
            row = row_by_key.setdefault(self._key(candidate), len(grown))
            if row == len(grown):
                grown.append(candidate)
            else:
                grown[row] = _join(grown[row], candidate)
            offered.add(row)
        return DynamicVocabulary(tuple(grown), tuple(sorted(offered)), self.per_passage)

    def offer(self, rows: Collection[int]) -> DynamicVocabulary:
        """Offer exactly these rows."""
        return replace(self, offered=tuple(sorted(set(rows))))

    def _key(self, candidate: Candidate) -> Hashable:
        passage = candidate.sources[0].passage if self.per_passage and candidate.sources else None
        return candidate.text, passage


def _join(first: Candidate, second: Candidate) -> Candidate:
    new = (each for each in second.sources if each not in first.sources)
    return replace(first, sources=(*first.sources, *new))
