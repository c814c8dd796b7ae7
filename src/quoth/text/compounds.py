"""Split compound words, as German and its neighbours write them, into words of a list.

`Haustür` is `haus` and `tür`. A part is a word of the list, with or without a linking element
(`Arbeit-s-zimmer`); the last part may be inflected, as the stemmer sees it. The split with the
fewest parts counts, of those the one with the longest first part. A word of the list is not split
itself. What comes out depends on the word and the list alone, so an index that grew equals one that
was rebuilt.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

LEAST_LETTERS = 3
"""A shorter word of the list is never a part."""

MOST_LETTERS = 60
"""A longer word is never split."""

_LINKS = ("", "s", "n", "e", "es", "en", "er", "ns", "ens")

Parts = tuple[tuple[int, int], ...]
"""Where each part begins and ends in its word."""


class CompoundSplitter:
    """Splits words into parts that stand in a list."""

    def __init__(self, words: Iterable[str], stem: Callable[[str], str]) -> None:
        listed = {word.strip().lower() for word in words}
        self._listed = frozenset(word for word in listed if len(word) >= LEAST_LETTERS)
        self._stem = stem
        self._stems = frozenset(map(stem, sorted(self._listed)))
        self._known: dict[str, Parts] = {}

    def split(self, word: str) -> Parts:
        """Return the parts of a word; none where it is no compound.

        >>> splitter = CompoundSplitter(["Haus", "Tür", "Arbeit"], str.lower)
        >>> splitter.split("Haustür"), splitter.split("Arbeitshaus"), splitter.split("Haus")
        (((0, 4), (4, 7)), ((0, 6), (7, 11)), ())
        """
        key = word.lower()
        found = self._known.get(key)
        if found is None:
            if len(self._known) >= 1_000_000:
                self._known.clear()
            found = self._known[key] = self._find(key) if len(key) == len(word) else ()
        return found

    def _find(self, word: str) -> Parts:
        if not 2 * LEAST_LETTERS <= len(word) <= MOST_LETTERS or word in self._listed:
            return ()
        best: dict[int, Parts] = {}  # the best split of what begins there
        for start in range(len(word) - LEAST_LETTERS, -1, -1):
            if start and self._is_last(word[start:]):
                best[start] = ((start, len(word)),)
                continue
            splits = [
                ((start, end), *best[end + len(link)])
                for end in range(len(word) - LEAST_LETTERS, start + LEAST_LETTERS - 1, -1)
                if word[start:end] in self._listed
                for link in _LINKS
                if word.startswith(link, end) and end + len(link) in best
            ]
            if splits:
                best[start] = min(splits, key=len)
        return best.get(0, ())

    def _is_last(self, piece: str) -> bool:
        return piece in self._listed or self._stem(piece) in self._stems
