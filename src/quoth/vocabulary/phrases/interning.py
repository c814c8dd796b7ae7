"""Number distinct byte strings in the order in which they first appear.

One table of open addressing on flat arrays: words are numbered by their bytes, whole texts by the
bytes of their words' numbers. Strings are compared, not only their hashes.
"""

from __future__ import annotations

import numpy as np

from quoth.vocabulary.phrases.compiled import compiled
from quoth.vocabulary.phrases.text import Bytes, Ids, Longs, Strings

_LEAST_SLOTS = 1 << 10


class Interner:
    """Numbers strings as they come, a block at a time."""

    def __init__(self) -> None:
        self._slots: Ids = np.full(_LEAST_SLOTS, -1, dtype=np.int32)
        self._content: Bytes = np.empty(1 << 12, dtype=np.uint8)
        self._offsets: Longs = np.zeros(_LEAST_SLOTS, dtype=np.int64)
        self._count = 0

    def number(self, strings: Strings) -> Ids:
        """Give each string its number; a string seen for the first time gets the next one."""
        self._make_room(len(strings), len(strings.content))
        ids = np.empty(len(strings), dtype=np.int32)
        self._count = _number_all(
            strings.content,
            strings.offsets,
            self._slots,
            self._content,
            self._offsets,
            self._count,
            ids,
        )
        return ids

    @property
    def strings(self) -> Strings:
        """The distinct strings, by number."""
        offsets = self._offsets[: self._count + 1]
        return Strings(self._content[: offsets[-1]], offsets)

    def _make_room(self, num_strings: int, num_bytes: int) -> None:
        """Grow to twice the need at once, so that the strings fit even if all are new."""
        num_bytes += int(self._offsets[self._count])
        if num_bytes > len(self._content):
            more = np.empty(2 * num_bytes - len(self._content), dtype=np.uint8)
            self._content = np.concatenate([self._content, more])
        num_strings += self._count + 1
        if num_strings > len(self._offsets):
            grown = np.empty(2 * num_strings - len(self._offsets), dtype=np.int64)
            self._offsets = np.concatenate([self._offsets, grown])
        if 2 * num_strings > len(self._slots):
            self._slots = _place_strings(
                self.strings.content, self.strings.offsets, 2 * num_strings
            )


def index_strings(strings: Strings) -> Ids:
    """Make the table by which `find_slot` finds distinct strings, no larger than needed."""
    return _place_strings(strings.content, strings.offsets, len(strings))


@compiled
def hash_string(content: Bytes, start: int, end: int) -> int:
    """Hash a stretch of bytes (FNV-1a, its bits mixed once more) to a number that fits 32 bits."""
    mixed = np.uint64(14695981039346656037)
    for at in range(start, end):
        mixed = (mixed ^ np.uint64(content[at])) * np.uint64(1099511628211)
    mixed ^= mixed >> np.uint64(29)
    mixed *= np.uint64(0xBF58476D1CE4E5B9)
    return int(mixed >> np.uint64(32))


@compiled
def find_slot(
    content: Bytes, start: int, end: int, slots: Ids, known: Bytes, known_offsets: Longs
) -> int:
    """Find the slot that holds the number of a string, or the empty one where it would stand."""
    mask = len(slots) - 1
    slot = hash_string(content, start, end) & mask
    while slots[slot] >= 0:
        first = known_offsets[slots[slot]]
        if known_offsets[slots[slot] + 1] - first == end - start:
            at = 0
            while at < end - start and known[first + at] == content[start + at]:
                at += 1
            if at == end - start:
                return slot
        slot = (slot + 1) & mask
    return slot


@compiled
def _number_all(
    content: Bytes,
    offsets: Longs,
    slots: Ids,
    known: Bytes,
    known_offsets: Longs,
    count: int,
    ids: Ids,
) -> int:
    for string in range(len(offsets) - 1):
        start, end = offsets[string], offsets[string + 1]
        slot = find_slot(content, start, end, slots, known, known_offsets)
        if slots[slot] < 0:
            first = known_offsets[count]
            for at in range(end - start):
                known[first + at] = content[start + at]
            known_offsets[count + 1] = first + end - start
            slots[slot] = count
            count += 1
        ids[string] = slots[slot]
    return count


@compiled
def _place_strings(known: Bytes, known_offsets: Longs, least: int) -> Ids:
    """Fill a larger table, a power of two long, with distinct strings."""
    size = 1024
    while size < 2 * least:
        size *= 2
    slots = np.full(size, -1, dtype=np.int32)
    for string in range(len(known_offsets) - 1):
        slot = hash_string(known, known_offsets[string], known_offsets[string + 1]) & (size - 1)
        while slots[slot] >= 0:
            slot = (slot + 1) & (size - 1)
        slots[slot] = string
    return slots
