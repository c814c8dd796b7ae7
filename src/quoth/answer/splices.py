"""Where a quotation goes on: the places of the passages behind what was written last.

Two true half-sentences can make a false one, so a phrase of elsewhere should not go on in the
middle of a sentence. A text is followed through the passages phrase by phrase. Plain subwords are
followed too where they spell what stands there (short words are no phrases); where they do not, the
quotation stays open at the place where it was left, so that no plain word opens the way to another.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from quoth.vocabulary.dynamic import Candidate, ends_sentence

Place = tuple[int, int]
"""A passage, and how many of its characters stand before."""


class OpenQuotation:
    """Follows a text in the making; `decode` writes subwords as text."""

    def __init__(self, passages: Sequence[str], decode: Callable[[Sequence[int]], str]) -> None:
        self._passages = passages
        self._decode = decode
        self._quoted: frozenset[Place] = frozenset()  # behind the last phrase
        self._ends: frozenset[Place] = frozenset()  # behind all that was followed
        self._run: list[int] = []  # plain subwords since the last phrase

    @property
    def is_open(self) -> bool:
        """Whether a sentence was begun and not ended."""
        return bool(self._ends)

    def goes_on(self, candidate: Candidate) -> bool:
        """Whether a phrase stands, somewhere, right behind what was written."""
        return any(
            (each.passage, each.span.start - gap) in self._ends
            for each in candidate.sources
            for gap in (0, 1)
        )

    def quote(self, candidate: Candidate) -> None:
        """Follow a phrase; one of elsewhere may go on wherever it stands."""
        followed = [
            each
            for each in candidate.sources
            if {(each.passage, each.span.start - gap) for gap in (0, 1)} & self._ends
        ]
        ends = {(each.passage, each.span.end) for each in followed or candidate.sources}
        self._quoted = frozenset() if candidate.ends_sentence else frozenset(ends)
        self._ends, self._run = self._quoted, []

    def write(self, subword_ids: Sequence[int]) -> None:
        """Follow plain subwords, as far as the passages spell them."""
        if not self._quoted:
            return
        self._run += subword_ids
        text = self._decode(self._run)
        spelled = {
            (passage, end + len(text))
            for passage, end in self._quoted
            if _same(self._passages[passage][end : end + len(text)], text)
        }
        self._ends = frozenset(spelled) or self._quoted
        if ends_sentence(text) and (not spelled or any(map(self._is_word_end, spelled))):
            self._quoted = self._ends = frozenset()

    def _is_word_end(self, place: Place) -> bool:
        rest = self._passages[place[0]][place[1] :][:1]
        return not rest or rest.isspace()


def _same(one: str, other: str) -> bool:
    """Whether two texts are equal but for which white space they have.

    >>> _same("barn\\nowl", "barn owl"), _same("barn owl", "barn owls")
    (True, False)
    """
    return len(one) == len(other) and all(
        a == b or (a.isspace() and b.isspace()) for a, b in zip(one, other, strict=True)
    )
