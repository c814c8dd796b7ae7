"""Words that a vocabulary lacks, each a phrase of its own, numbered after its phrases.

The parts that an unknown word would be cut into say little of it. Where phrases never trained have
valid rows, the whole word says more. The vocabulary itself stays as it is: texts are cut by it, and
only then is a word of several parts replaced by its number here, so that no word is cut otherwise
because another one was added.
"""

from __future__ import annotations

from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from quoth.vocabulary.phrases.cutters import FIRST, PIECES, SQUARES, WIDTH
from quoth.vocabulary.phrases.interning import Interner
from quoth.vocabulary.phrases.text import (
    DIGIT,
    LETTER,
    SPACE,
    Ids,
    Longs,
    Strings,
    character_kinds,
    count_characters,
    read_character,
    take_strings,
)

_Rows = NDArray[np.int64]


class AddedWords:
    """Words by number, in the order in which they were first seen; it grows as texts are cut."""

    def __init__(self, first_id: int, strings: Strings | None = None, *, most: int) -> None:
        """Number words from `first_id` on, the number of the vocabulary's phrases.

        Once there are `most`, any other word is cut into parts.
        """
        self.first_id = first_id
        self._most = most
        self._words = Interner()
        if strings is not None:
            self._words.number(strings)

    def __len__(self) -> int:
        return min(self._most, len(self._words.strings))

    @property
    def strings(self) -> Strings:
        """The bytes of every word, its leading space included."""
        seen = self._words.strings
        offsets = seen.offsets[: len(self) + 1]
        return Strings(seen.content[: offsets[-1]], offsets)

    def respell(
        self, words: Strings, rows: _Rows, ids: Ids, offsets: Longs
    ) -> tuple[_Rows, Ids, Longs]:
        """Replace the parts of words that are cut into several by one number each.

        `rows`, `ids` and `offsets` say what the words are as symbols, and how they are spelt.
        """
        whole = np.flatnonzero((rows[:, PIECES] > 1) & _are_words(words))
        numbers = self._words.number(take_strings(words, whole))
        whole, numbers = whole[numbers < self._most], numbers[numbers < self._most]
        if not len(whole):
            return rows, ids, offsets
        numbers += self.first_id
        lengths = np.diff(offsets)
        is_kept = np.ones(len(rows), dtype=bool)
        is_kept[whole] = False
        others = ids[offsets[0] : offsets[-1]][np.repeat(is_kept, lengths)]
        lengths[whole] = 1
        ends = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
        spelt = np.empty(ends[-1], dtype=np.int32)
        spelt[np.repeat(is_kept, lengths)] = others
        spelt[ends[whole]] = numbers
        characters = count_characters(take_strings(words, whole)).astype(np.int64)
        rows = rows.copy()
        rows[whole, PIECES] = 1
        rows[whole, SQUARES] = characters**2
        rows[whole, FIRST] = numbers
        rows[whole, WIDTH] = characters
        return rows, spelt, ends


def list_texts(strings: Strings) -> list[str]:
    r"""Return byte strings as texts.

    >>> from quoth.vocabulary.phrases.text import join_strings
    >>> list_texts(join_strings([b" owl", b"s"]))
    [' owl', 's']
    """
    content = strings.content.tobytes()
    return [content[lo:hi].decode() for lo, hi in pairwise(strings.offsets.tolist())]


def _are_words(strings: Strings) -> NDArray[np.bool_]:
    """Tell words of letters or digits from signs, which say nothing however they are cut."""
    kinds = character_kinds()
    found = np.zeros(len(strings), dtype=bool)
    for at, (start, end) in enumerate(pairwise(strings.offsets.tolist())):
        if start < end and strings.content[start] == SPACE:
            start += 1
        if start < end:
            code, _after = read_character(strings.content, start)
            found[at] = kinds[code] in (LETTER, DIGIT)
    return found
