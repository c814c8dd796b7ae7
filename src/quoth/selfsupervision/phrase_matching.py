"""Find stretches of a text elsewhere: forward maximum matching, and an index of occurrences.

Forward maximum matching (FMM) follows CoG: from left to right, take the longest stretch of whole
words that also occurs in a support text or in what was already written, and go on behind it. Here
it runs on subwords with word bounds, which is the same for texts cut by one tokenizer. Stretches
are looked up by their first two subwords, so a chunk of 512 against 4,000 takes about a
millisecond.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numba import njit
from numpy.typing import NDArray

Ids = NDArray[np.int64]
Flags = NDArray[np.bool_]

_GAP = -1  # between two texts: equal to no subword
_TRIES = 32


@dataclass(frozen=True, slots=True)
class SubwordText:
    """A text as subwords, with the places where a word, or what stands between words, begins."""

    subword_ids: Ids  # (T,)
    word_starts: Flags  # (T,)


@dataclass(frozen=True, slots=True)
class MatchLimits:
    """How long a match may be."""

    min_words: int = 2
    max_words: int = 16
    max_subwords: int = 64


def match_forward(
    text: SubwordText,
    support: Sequence[SubwordText],
    *,
    is_stop: Flags,  # (T,) subwords of the text that end a match: punctuation
    limits: MatchLimits,
    own: bool = True,
) -> Ids:  # (matches, 4): start, end, text of the support (−1: the text itself), place in it
    """Cut a text into the longest stretches that occur in the support, or earlier in itself.

    >>> text = SubwordText(np.array([7, 1, 2, 3, 9]), np.ones(5, bool))
    >>> other = SubwordText(np.array([5, 1, 2, 3, 4]), np.ones(5, bool))
    >>> match_forward(text, [other], is_stop=np.zeros(5, bool), limits=MatchLimits()).tolist()
    [[1, 4, 0, 1]]
    """
    texts = [*support, text] if own else list(support)
    if not texts or len(text.subword_ids) < 2:
        return np.zeros((0, 4), dtype=np.int64)
    haystack, bounds, offsets = _join(texts)
    own_from = int(offsets[-1]) if own else len(haystack)
    keys = _keys(haystack)
    keys[~bounds[: len(keys)]] = _GAP  # matches begin at words
    order = np.argsort(keys, kind="stable")
    found = _walk(
        text.subword_ids.astype(np.int64),
        np.append(text.word_starts, True),
        is_stop,
        haystack,
        bounds,
        keys[order],
        order,
        own_from,
        limits.min_words,
        limits.max_words,
        limits.max_subwords,
    )
    rows = np.searchsorted(offsets, found[:, 2], side="right") - 1
    places = found[:, 2] - offsets[rows]
    rows[rows == len(support)] = _GAP
    return np.column_stack((found[:, :2], rows, places))


class OccurrenceIndex:
    """Where each pair of subwords occurs in a corpus, to find how a phrase goes on elsewhere."""

    def __init__(self, subword_ids: NDArray[np.uint16] | Ids, offsets: Ids) -> None:
        """Index texts that lie end to end; text r is `subword_ids[offsets[r] : offsets[r + 1]]`."""
        self._ids = subword_ids
        self._offsets = offsets
        keys = _keys(subword_ids.astype(np.int64))
        order = np.argsort(keys, kind="stable")
        self._places = order.astype(np.int32 if len(order) < 2**31 else np.int64)
        self._keys = keys[order]

    def followers(
        self, phrase: Sequence[int], *, count: int, chance: np.random.Generator, avoid: int = -1
    ) -> tuple[int, ...]:
        """Return up to `count` subwords that follow a phrase somewhere, but not in text `avoid`.

        Some occurrences are tried, drawn by chance; empty where none of them will do.
        """
        key = _key(phrase[0], phrase[1])
        first, end = np.searchsorted(self._keys, [key, key + 1])
        wanted = np.asarray(phrase)
        for place in chance.integers(first, end, size=_TRIES if end > first else 0):
            at = int(self._places[place])
            row = int(np.searchsorted(self._offsets, at, side="right")) - 1
            behind = at + len(phrase)
            last = min(behind + count, int(self._offsets[row + 1]))
            if row != avoid and behind < last and np.array_equal(self._ids[at:behind], wanted):
                return tuple(int(each) for each in self._ids[behind:last])
        return ()


def _key(first: int, second: int) -> int:
    return (first << 32) | second


def _keys(ids: Ids) -> Ids:
    """Number each pair of neighbours; a gap makes the pair negative, equal to none."""
    keys = (ids[:-1] << 32) | ids[1:]
    keys[(ids[:-1] < 0) | (ids[1:] < 0)] = _GAP
    return keys


def _join(texts: Sequence[SubwordText]) -> tuple[Ids, Flags, Ids]:
    """Lay texts end to end with a gap behind each; also gives word bounds and the texts' starts."""
    lengths = np.array([len(text.subword_ids) + 1 for text in texts], dtype=np.int64)
    offsets = np.concatenate((np.zeros(1, dtype=np.int64), np.cumsum(lengths)))[:-1]
    haystack = np.full(int(lengths.sum()), _GAP, dtype=np.int64)
    bounds = np.ones(len(haystack), dtype=np.bool_)
    for offset, text in zip(offsets.tolist(), texts, strict=True):
        end = offset + len(text.subword_ids)
        haystack[offset:end], bounds[offset:end] = text.subword_ids, text.word_starts
    return haystack, bounds, offsets


@njit(cache=True, nogil=True)
def _walk(
    ids: Ids,
    starts: Flags,  # (T + 1,)
    is_stop: Flags,
    haystack: Ids,
    bounds: Flags,
    keys: Ids,  # sorted
    places: Ids,  # in the order of the keys
    own_from: int,
    min_words: int,
    max_words: int,
    max_subwords: int,
) -> Ids:  # (matches, 3): start, end, place in the haystack
    found = np.empty((len(ids), 3), dtype=np.int64)
    count, at = 0, 0
    while at + 1 < len(ids):
        best, best_words, best_place = 0, 0, 0
        if starts[at] and not is_stop[at] and not is_stop[at + 1]:
            key = (ids[at] << 32) | ids[at + 1]
            row = np.searchsorted(keys, key)
            while row < len(keys) and keys[row] == key:
                place = places[row]
                row += 1
                limit = min(len(ids) - at, max_subwords)
                if place >= own_from:  # of itself, only what is already written
                    limit = min(limit, own_from + at - place)
                length, words = 0, 0
                while (
                    length < limit
                    and haystack[place + length] == ids[at + length]
                    and not is_stop[at + length]
                ):
                    if starts[at + length]:
                        words += 1
                        if words > max_words:
                            break
                    length += 1
                    if length > best and starts[at + length] and bounds[place + length]:
                        best, best_words, best_place = length, words, place
        if best_words >= min_words:
            found[count, 0], found[count, 1], found[count, 2] = at, at + best, best_place
            count += 1
            at += best
        else:
            at += 1
    return found[:count]
