"""Identifiers as strings: which distinct texts name which rows, and how they become sequences.

A text is cut into phrases by whatever vocabulary is in use, given as a function; this file knows
neither the vocabulary nor the trie, only strings and flat arrays. The same text given for several
rows is one identifier that all of them own; rows may own many.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

import numpy as np
from numba import njit
from numpy.typing import NDArray

PhraseIds = NDArray[np.int32]
Integers = NDArray[np.int64]

Segment = Callable[[list[str]], tuple[PhraseIds, Integers]]
"""Cuts texts into phrases: all phrase ids, one text after the other, and where each text begins."""


@dataclass(frozen=True, slots=True, eq=False)
class Identifiers:
    """Distinct texts, sorted, and the rows that own each, sorted.

    The i-th text is owned by owners[owner_starts[i] : owner_starts[i + 1]].
    """

    texts: tuple[str, ...]
    owners: Integers
    owner_starts: Integers

    @property
    def counts(self) -> Integers:
        """Count the owners of each text."""
        return np.diff(self.owner_starts)


@dataclass(frozen=True, slots=True, eq=False)
class OwnedSequences:
    """One sequence of phrase ids per owned text, with its owner: what a trie is built from.

    The i-th is ids[offsets[i] : offsets[i + 1]], owned by owners[i].
    """

    ids: PhraseIds
    offsets: Integers
    owners: Integers


def gather_identifiers(texts: Iterable[tuple[int, str]]) -> Identifiers:
    """Join equal texts; spaces do not tell texts apart, and empty ones name nothing.

    >>> found = gather_identifiers([(7, "star wars"), (2, "laser"), (3, " star  wars"), (2, " ")])
    >>> found.texts, found.owners.tolist(), found.counts.tolist()
    (('laser', 'star wars'), [2, 3, 7], [1, 2])
    """
    rows_by_text: dict[str, set[int]] = {}
    for row, text in texts:
        if collapsed := " ".join(text.split()):
            rows_by_text.setdefault(collapsed, set()).add(row)
    distinct = tuple(sorted(rows_by_text))
    owners = [row for text in distinct for row in sorted(rows_by_text[text])]
    starts = np.cumsum([0, *(len(rows_by_text[text]) for text in distinct)])
    return Identifiers(distinct, np.array(owners, dtype=np.int64), starts.astype(np.int64))


def cut_identifiers(identifiers: Identifiers, segment: Segment) -> OwnedSequences:
    """Cut each text once, and repeat its sequence for each of its owners.

    Texts without a phrase are left out: nobody can generate them.
    """
    ids, offsets = segment(list(identifiers.texts))
    lengths = np.diff(offsets)
    counts = np.where(lengths > 0, identifiers.counts, 0)
    chosen = np.repeat(np.arange(len(lengths)), counts)
    new_offsets = np.zeros(len(chosen) + 1, dtype=np.int64)
    np.cumsum(lengths[chosen], out=new_offsets[1:])
    places = np.arange(new_offsets[-1]) + np.repeat(
        offsets[chosen] - new_offsets[:-1], lengths[chosen]
    )
    is_kept = np.repeat(lengths > 0, identifiers.counts)
    return OwnedSequences(
        ids[places].astype(np.int32, copy=False), new_offsets, identifiers.owners[is_kept]
    )


@njit(cache=True, nogil=True)
def sort_phrases(ids: PhraseIds, offsets: Integers) -> PhraseIds:
    """Sort the phrases inside each sequence by id, so that their order tells nothing apart.

    >>> sort_phrases(np.array([5, 2, 9, 1], dtype=np.int32), np.array([0, 2, 4]))
    array([2, 5, 1, 9], dtype=int32)
    """
    out = ids.copy()
    for at in range(len(offsets) - 1):
        out[offsets[at] : offsets[at + 1]] = np.sort(ids[offsets[at] : offsets[at + 1]])
    return out
