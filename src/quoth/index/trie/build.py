"""Build a trie from phrase sequences and their owners, and change one without building it again.

Both ways end in the same arrays: identifiers distinct and sorted, each with its owners distinct and
sorted, and listed under its rarest phrase (fewest occurrences in the trie, then lowest id).
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from quoth.errors import ConfigError
from quoth.index.trie.trie import Sequences, Trie, find_length_starts
from quoth.index.trie.walk import (
    Integers,
    PhraseIds,
    Shorts,
    compare_rows,
    split_bits,
    write_pair,
)

MOST_PHRASES = 255
"""Longest identifier that a trie takes."""

MOST_IDENTIFIERS = 2**31 - 1
_KEY_BITS = 63


class _Group(NamedTuple):
    """Identifiers of one length, sorted and distinct, and who owns them."""

    table: PhraseIds  # (rows, length)
    owner_starts: Integers
    owners: Integers


def build_trie(sequences: Sequences, *, owners: Integers, num_phrases: int) -> Trie:
    """Build the trie of sequences; `owners` holds one row of a collection per sequence."""
    _check(sequences, owners, num_phrases)
    lengths = np.diff(sequences.offsets)
    by_length = np.argsort(lengths.astype(np.uint8), kind="stable")
    counts = np.bincount(lengths, minlength=1)
    ends = np.cumsum(counts)
    groups = [
        _sort_group(sequences, by_length[ends[n - 1] : ends[n]], owners, length=n)
        for n in range(1, len(counts))
    ]
    return _join_groups(groups, num_phrases)


def update_trie(
    trie: Trie,
    *,
    added: Sequences,
    owners: Integers,
    removed: Integers | None = None,
    num_phrases: int | None = None,
) -> Trie:
    """Take all identifiers away from the owners in `removed`, then give sequences their owners.

    Equal, array by array, to building from what is left and what is new. `num_phrases` is what the
    vocabulary has grown to, if it has.
    """
    size = trie.num_phrases if num_phrases is None else num_phrases
    new = build_trie(added, owners=owners, num_phrases=size)
    groups = []
    for length in range(1, max(trie.longest, new.longest) + 1):
        own = _take_group(trie, length)
        if removed is not None and len(removed):
            own = _remove_owners(own, np.unique(removed))
        groups.append(_merge_groups(own, _take_group(new, length)))
    while groups and not len(groups[-1].table):
        groups.pop()  # the longest identifiers were removed
    return _join_groups(groups, size)


# --- sorting -------------------------------------------------------------------------------------


def _sort_group(
    sequences: Sequences, chosen: NDArray[np.intp], owners: Integers, *, length: int
) -> _Group:
    """Sort the chosen sequences, all of one length, and join those that are equal."""
    places = sequences.offsets[chosen][:, None] + np.arange(length)
    table = sequences.ids[places].astype(np.int32, copy=False)  # (rows, L)
    own = owners[chosen].astype(np.int64, copy=False)
    keys = _pack(table)
    order = np.lexsort((own, *reversed(keys)))
    table, own = table[order], own[order]
    is_new = np.ones(len(order), dtype=bool)
    is_new[1:] = np.any([key[order[1:]] != key[order[:-1]] for key in keys], axis=0)
    is_pair = is_new.copy()
    is_pair[1:] |= own[1:] != own[:-1]
    pair_of_row = np.cumsum(is_pair) - 1
    starts = np.append(pair_of_row[is_new], np.count_nonzero(is_pair)).astype(np.int64)
    return _Group(np.ascontiguousarray(table[is_new]), starts, own[is_pair])


def _pack(table: PhraseIds) -> list[Integers]:
    """Join columns to as few sort keys as hold them, the first columns in the first key.

    >>> [key.tolist() for key in _pack(np.array([[1, 2], [3, 0]], dtype=np.int32))]
    [[6, 12]]
    """
    bits = max(1, int(table.max(initial=0)).bit_length())
    each = _KEY_BITS // bits
    keys = []
    for first in range(0, table.shape[1], each):
        key = np.zeros(len(table), dtype=np.int64)
        for column in table.T[first : first + each]:
            key <<= bits
            key |= column
        keys.append(key)
    return keys


# --- changing ------------------------------------------------------------------------------------


def _take_group(trie: Trie, length: int) -> _Group:
    if length > trie.longest:
        return _Group(np.empty((0, length), np.int32), np.zeros(1, np.int64), np.empty(0, np.int64))
    lo, hi = trie.length_rows[length : length + 2]
    start = find_length_starts(trie.length_rows)[length]
    table = trie.phrase_ids[start : start + (hi - lo) * length].reshape(-1, length)
    starts = trie.owner_starts[lo : hi + 1].astype(np.int64)
    return _Group(table, starts - starts[0], trie.owners[starts[0] : starts[-1]].astype(np.int64))


def _remove_owners(group: _Group, removed: Integers) -> _Group:
    """Drop owners, and the identifiers that nobody owns any more."""
    kept = np.isin(group.owners, removed, invert=True)
    before = np.concatenate([np.zeros(1, dtype=np.int64), np.cumsum(kept)])
    starts = before[group.owner_starts]
    is_owned = starts[1:] > starts[:-1]
    return _Group(
        group.table[is_owned], np.append(starts[:-1][is_owned], starts[-1]), group.owners[kept]
    )


def _merge_groups(own: _Group, new: _Group) -> _Group:
    if not len(new.table):
        return own
    length = own.table.shape[1]
    table = np.empty((len(own.table) + len(new.table), length), dtype=np.int32)
    starts = np.zeros(len(table) + 1, dtype=np.int64)
    owners = np.empty(len(own.owners) + len(new.owners), dtype=np.int64)
    old_flat, new_flat = (np.ascontiguousarray(each.table).reshape(-1) for each in (own, new))
    num_rows, num_owners = _merge(
        (_freeze(old_flat), own.owner_starts, own.owners),
        (_freeze(new_flat), new.owner_starts, new.owners),
        (table.reshape(-1), starts, owners),
        length,
    )
    return _Group(table[:num_rows], starts[: num_rows + 1], owners[:num_owners])


@njit(cache=True, nogil=True)
def _merge(
    own: tuple[PhraseIds, Integers, Integers],
    new: tuple[PhraseIds, Integers, Integers],
    out: tuple[PhraseIds, Integers, Integers],
    length: int,
) -> tuple[int, int]:
    """Merge two sorted groups into a third; gives how many rows and owners it holds."""
    i, j, row, pairs = 0, 0, 0, 0
    num_own, num_new = len(own[1]) - 1, len(new[1]) - 1
    while i < num_own or j < num_new:
        if i == num_own:
            side = 1
        elif j == num_new:
            side = -1
        else:
            side = compare_rows(own[0], i * length, new[0], j * length, length)
        source, at = (own[0], i) if side <= 0 else (new[0], j)
        out[0][row * length : (row + 1) * length] = source[at * length : (at + 1) * length]
        a, a_end = (own[1][i], own[1][i + 1]) if side <= 0 else (0, 0)
        b, b_end = (new[1][j], new[1][j + 1]) if side >= 0 else (0, 0)
        while a < a_end or b < b_end:
            takes_own = b == b_end or (a < a_end and own[2][a] <= new[2][b])
            owner = own[2][a] if takes_own else new[2][b]
            if b < b_end and new[2][b] == owner:
                b += 1
            if takes_own:
                a += 1
            out[2][pairs] = owner
            pairs += 1
        i += side <= 0
        j += side >= 0
        row += 1
        out[1][row] = pairs
    return row, pairs


# --- joining -------------------------------------------------------------------------------------


def _join_groups(groups: list[_Group], num_phrases: int) -> Trie:
    """Put the groups one after the other, shortest first, and list them by rarest phrase."""
    sizes = [len(each.table) for each in groups]
    length_rows = np.concatenate([[0, 0], np.cumsum(sizes, dtype=np.int64)]).astype(np.int64)
    flat = [each.table.reshape(-1) for each in groups]
    phrase_ids = np.concatenate([*flat, np.empty(0, dtype=np.int32)])
    pairs = np.cumsum([0, *(len(each.owners) for each in groups)])
    starts = [each.owner_starts[:-1] + pairs[at] for at, each in enumerate(groups)]
    owners = np.concatenate([*(each.owners for each in groups), np.empty(0, dtype=np.int64)])
    if length_rows[-1] > MOST_IDENTIFIERS:
        raise ConfigError(f"{length_rows[-1]:,} identifiers, expected {MOST_IDENTIFIERS:,} at most")
    rarest_starts, rarest_pairs = _list_by_rarest(
        _freeze(phrase_ids),
        length_rows,
        num_phrases,
        *split_bits(int(length_rows[-1]), num_phrases),
    )
    return Trie(
        phrase_ids=_freeze(phrase_ids),
        length_rows=_freeze(length_rows),
        owner_starts=_freeze(_shrink(np.concatenate([*starts, pairs[-1:]]))),
        owners=_freeze(_shrink(owners)),
        rarest_starts=_freeze(rarest_starts),
        rarest_pairs=_freeze(rarest_pairs),
        num_owners=len(np.unique(owners)),
    )


@njit(cache=True, nogil=True)
def _list_by_rarest(
    phrase_ids: PhraseIds, length_rows: Integers, num_phrases: int, row_bits: int, lost: int
) -> tuple[PhraseIds, Shorts]:
    """List each identifier, in order, under the phrase of it that occurs least.

    Beside it stands the phrase that occurs least of the others; of one phrase alone, that one.
    """
    counts = np.zeros(num_phrases, dtype=np.int64)
    for phrase_id in phrase_ids:
        counts[phrase_id] += 1
    rarest = np.empty((length_rows[-1], 2), dtype=np.int32)
    starts = np.zeros(num_phrases + 1, dtype=np.int32)
    place, row = 0, 0
    for length in range(1, len(length_rows) - 1):
        for _ in range(length_rows[length + 1] - length_rows[length]):
            rarest[row] = _find_rarest(phrase_ids[place : place + length], counts)
            starts[rarest[row, 0] + 1] += 1
            place += length
            row += 1
    for phrase_id in range(num_phrases):
        starts[phrase_id + 1] += starts[phrase_id]
    free = starts[:-1].copy()
    pairs = np.empty(3 * len(rarest), dtype=np.uint16)
    for at in range(len(rarest)):
        first, second = rarest[at]
        write_pair(pairs, free[first], (np.int64(second >> lost) << row_bits) | at)
        free[first] += 1
    return starts, pairs


@njit(cache=True, nogil=True)
def _find_rarest(phrases: PhraseIds, counts: Integers) -> tuple[np.int32, np.int32]:
    """Return the two rarest distinct phrases of an identifier; the only one twice."""
    first = second = phrases[0]
    for other in phrases:
        if (counts[other], other) < (counts[first], first):
            first, second = other, first
        elif other != first and (
            second == first or (counts[other], other) < (counts[second], second)
        ):
            second = other
    return first, second


def _shrink(values: Integers) -> NDArray[np.signedinteger[Any]]:
    """Store numbers in 32 bits where all of them fit."""
    limits = np.iinfo(np.int32)
    low, high = values.min(initial=0), values.max(initial=0)
    return values.astype(np.int32) if limits.min <= low and high <= limits.max else values


def _freeze(array: NDArray[Any]) -> NDArray[Any]:
    """Make read-only, as arrays are that are mapped from files."""
    array = np.ascontiguousarray(array)
    array.setflags(write=False)
    return array


def _check(sequences: Sequences, owners: Integers, num_phrases: int) -> None:
    lengths = np.diff(sequences.offsets)
    problems = []
    if len(owners) != len(lengths):
        problems.append(f"{len(owners)} owners, expected one for each of {len(lengths)} sequences")
    if len(lengths) and (lengths.min() < 1 or lengths.max() > MOST_PHRASES):
        problems.append(
            f"sequences of {lengths.min()} to {lengths.max()} phrases, expected 1 to {MOST_PHRASES}"
        )
    if len(sequences.ids) and (sequences.ids.min() < 0 or sequences.ids.max() >= num_phrases):
        problems.append(
            f"phrase ids of {sequences.ids.min()} to {sequences.ids.max()}, "
            f"expected 0 to {num_phrases - 1}"
        )
    if problems:
        raise ConfigError(f"trie: {'; '.join(problems)}")
