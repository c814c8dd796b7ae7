"""Cut texts into the phrases of a vocabulary: tables made once, then one pass over the bytes.

Each word is looked up among the words that the vocabulary knows (those of its phrases, and its
parts); what it is spelt with is known beforehand. The other words of a block of texts are spelt
once each. A text is then cut into phrases of several words and such single words, by the cutter of
the vocabulary. All tables are flat arrays that can be mapped from disk.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from quoth.vocabulary.phrases.added import AddedWords
from quoth.vocabulary.phrases.compiled import compiled
from quoth.vocabulary.phrases.config import CUTTERS, NUM_BYTES
from quoth.vocabulary.phrases.cutters import (
    LONGEST,
    PIECES,
    RANK,
    SPAN,
    cut,
    link_nodes,
    make_work,
    spell,
)
from quoth.vocabulary.phrases.interning import Interner, find_slot, index_strings
from quoth.vocabulary.phrases.prefixes import (
    ROOT,
    Keys,
    Prefixes,
    build_prefixes,
    find_key,
    make_key,
)
from quoth.vocabulary.phrases.text import (
    Bytes,
    Ids,
    Longs,
    Strings,
    count_characters,
    encode_texts,
    find_inner_spaces,
    split_words,
    take_strings,
)
from quoth.vocabulary.phrases.use import Nodes

_TEXTS_AT_ONCE = 20_000

Rows = NDArray[np.int64]


class SegmentTables(NamedTuple):
    """All that cutting needs, as flat arrays."""

    word_content: Bytes
    word_offsets: Longs
    word_slots: Ids
    word_rows: Rows
    """What each known word is, taken by itself: `PIECES`, `SQUARES`, `FIRST`, `WIDTH`."""
    spelt_ids: Ids
    spelt_offsets: Longs
    phrase_keys: Keys
    phrase_children: Ids
    phrase_nodes: Nodes
    phrase_nearest: Ids
    part_keys: Keys
    part_children: Ids
    part_nodes: Nodes
    part_nearest: Ids
    part_pairs: Ids
    """Node of each pair of bytes, at 256 · first + second; every part starts with one."""


def build_tables(phrases: Strings, *, cutter: str) -> SegmentTables:
    """Make the tables of a vocabulary whose first ids are the single bytes."""
    ids = np.arange(NUM_BYTES, len(phrases))
    several = find_inner_spaces(phrases)[NUM_BYTES:]
    part_prefixes, part_nodes, part_nearest = _link_parts(phrases, ids[~several])
    words = Interner()
    words.number(take_strings(phrases, ids[~several]))
    phrase_prefixes, phrase_nodes, phrase_nearest = _link_phrases(phrases, ids[several], words)
    known = words.strings
    pairs = _find_pairs(part_prefixes.keys, part_prefixes.children)
    rows, spelt_ids, spelt_offsets = _spell_all(
        CUTTERS.index(cutter),
        known.content,
        known.offsets,
        part_prefixes.keys,
        part_prefixes.children,
        part_nearest,
        pairs,
        part_nodes,
    )
    return SegmentTables(
        word_content=known.content.copy(),
        word_offsets=known.offsets.copy(),
        word_slots=index_strings(known),
        word_rows=rows,
        spelt_ids=spelt_ids,
        spelt_offsets=spelt_offsets,
        phrase_keys=phrase_prefixes.keys,
        phrase_children=phrase_prefixes.children,
        phrase_nodes=phrase_nodes,
        phrase_nearest=phrase_nearest,
        part_keys=part_prefixes.keys,
        part_children=part_prefixes.children,
        part_nodes=part_nodes,
        part_nearest=part_nearest,
        part_pairs=pairs,
    )


def _link_parts(phrases: Strings, ids: Longs) -> tuple[Prefixes, Nodes, Ids]:
    parts = take_strings(phrases, ids)
    prefixes, ends = build_prefixes(parts.content.astype(np.int32), parts.offsets)
    return prefixes, *_link(prefixes, ends, ids, count_characters(parts))


def _link_phrases(phrases: Strings, ids: Longs, words: Interner) -> tuple[Prefixes, Nodes, Ids]:
    texts = take_strings(phrases, ids)
    starts, firsts = split_words(texts)
    symbols = words.number(Strings(texts.content, starts))
    prefixes, ends = build_prefixes(symbols, firsts)
    return prefixes, *_link(prefixes, ends, ids, count_characters(texts))


def _link(prefixes: Prefixes, ends: Ids, ids: Longs, characters: Ids) -> tuple[Nodes, Ids]:
    lengths = np.zeros(len(prefixes.parents), dtype=np.int32)
    ranks = np.full(len(prefixes.parents), -1, dtype=np.int32)
    lengths[ends], ranks[ends] = characters, ids
    return link_nodes(prefixes.parents, spans=prefixes.spans, lengths=lengths, ranks=ranks)


def segment_texts(
    texts: Sequence[str],
    tables: SegmentTables,
    *,
    cutter: str,
    lowercase: bool,
    added: AddedWords | None = None,
) -> tuple[Ids, Longs]:
    """Cut texts; gives all ids, and where those of each text start, with an end.

    With `added`, a word that would be cut into parts is one of these instead, or joins them.
    """
    found: list[Ids] = [np.empty(0, dtype=np.int32)]
    offsets = np.zeros(len(texts) + 1, dtype=np.int64)
    done = 0
    for start in range(0, len(texts), _TEXTS_AT_ONCE):
        strings = encode_texts(texts[start : start + _TEXTS_AT_ONCE], lowercase=lowercase)
        ids, ends = _segment_block(strings, tables, CUTTERS.index(cutter), added)
        offsets[start + 1 : start + 1 + len(ends)] = done + ends
        done += len(ids)
        found.append(ids)
    return np.concatenate(found), offsets


def _segment_block(
    texts: Strings, tables: SegmentTables, cutter: int, added: AddedWords | None
) -> tuple[Ids, Longs]:
    """Cut some texts; gives all ids, and where those of each text end."""
    starts, firsts = split_words(texts)
    symbols = _look_up(
        texts.content, starts, tables.word_slots, tables.word_content, tables.word_offsets
    )
    unknown = np.flatnonzero(symbols < 0)
    others = Interner()
    symbols[unknown] = len(tables.word_rows) + others.number(
        take_strings(Strings(texts.content, starts), unknown)
    )
    spelt = _spell_all(
        cutter,
        others.strings.content,
        others.strings.offsets,
        tables.part_keys,
        tables.part_children,
        tables.part_nearest,
        tables.part_pairs,
        tables.part_nodes,
    )
    if added is not None:
        spelt = added.respell(others.strings, *spelt)
    ids = np.empty(len(texts.content), dtype=np.int32)
    ends = np.empty(len(texts), dtype=np.int64)
    count = _cut_block(
        cutter,
        symbols,
        firsts,
        ids,
        ends,
        tables.word_rows,
        tables.spelt_ids,
        tables.spelt_offsets,
        *spelt,
        tables.phrase_keys,
        tables.phrase_children,
        tables.phrase_nodes,
        tables.phrase_nearest,
    )
    return ids[:count].copy(), ends


@compiled
def _look_up(content: Bytes, starts: Longs, slots: Ids, known: Bytes, known_offsets: Longs) -> Ids:
    """Number the words that are known; -1 for any other."""
    symbols = np.empty(len(starts) - 1, dtype=np.int32)
    for word in range(len(starts) - 1):
        slot = find_slot(content, starts[word], starts[word + 1], slots, known, known_offsets)
        symbols[word] = slots[slot]
    return symbols


@compiled
def _cut_block(
    cutter: int,
    symbols: Ids,
    firsts: Longs,
    ids: Ids,
    ends: Longs,
    rows: Rows,
    spelt_ids: Ids,
    spelt_offsets: Longs,
    other_rows: Rows,
    other_ids: Ids,
    other_offsets: Longs,
    keys: Keys,
    children: Ids,
    nodes: Nodes,
    nearest: Ids,
) -> int:
    """Cut texts of known words and others, whose numbers follow; gives the number of ids."""
    room = 1
    for text in range(len(firsts) - 1):
        room = max(room, firsts[text + 1] - firsts[text])
    steps, best, choice = make_work(room)
    num_known = len(rows)
    count = 0
    for text in range(len(firsts) - 1):
        start = firsts[text]
        length = firsts[text + 1] - start
        for at in range(length):
            word = symbols[start + at]
            for field in range(4):
                if word < num_known:
                    steps[field, at] = rows[word, field]
                else:
                    steps[field, at] = other_rows[word - num_known, field]
            steps[LONGEST, at] = _find_longest(
                symbols, start + at, start + length, keys, children, nearest
            )
        cut(cutter, steps, length, nodes, best, choice)
        at = 0
        while at < length:
            if choice[at] >= 0:
                ids[count] = nodes[choice[at], RANK]
                count += 1
                at += nodes[choice[at], SPAN]
                continue
            word = symbols[start + at]
            for piece in range(steps[PIECES, at]):
                if word < num_known:
                    ids[count] = spelt_ids[spelt_offsets[word] + piece]
                else:
                    ids[count] = other_ids[other_offsets[word - num_known] + piece]
                count += 1
            at += 1
        ends[text] = count
    return count


@compiled
def _find_longest(
    symbols: Ids, start: int, end: int, keys: Keys, children: Ids, nearest: Ids
) -> int:
    """Find the longest phrase that starts at a word; one that is not known is in none."""
    node = ROOT
    for at in range(start, end):
        slot = find_key(keys, make_key(node, symbols[at]))
        if keys[slot] == 0:
            break
        node = children[slot]
    return nearest[node] if node >= 0 else ROOT


@compiled
def _find_parts(
    content: Bytes,
    start: int,
    end: int,
    keys: Keys,
    children: Ids,
    nearest: Ids,
    pairs: Ids,
    steps: Rows,
) -> None:
    """Find the longest part of a word that starts at each of its bytes."""
    steps[LONGEST, end - 1 - start] = ROOT
    for first in range(start, end - 1):
        node = pairs[256 * int(content[first]) + int(content[first + 1])]
        at = first + 2
        while at < end and node >= 0:
            slot = find_key(keys, make_key(node, content[at]))
            if keys[slot] == 0:
                break
            node = children[slot]
            at += 1
        steps[LONGEST, first - start] = nearest[node] if node >= 0 else ROOT


@compiled
def _find_pairs(keys: Keys, children: Ids) -> Ids:
    pairs = np.full(256 * 256, ROOT, dtype=np.int32)
    for first in range(256):
        slot = find_key(keys, make_key(ROOT, first))
        if keys[slot] == 0:
            continue
        for second in range(256):
            place = find_key(keys, make_key(children[slot], second))
            if keys[place] != 0:
                pairs[256 * first + second] = children[place]
    return pairs


@compiled
def _write_parts(
    content: Bytes, start: int, end: int, nodes: Nodes, choice: Ids, ids: Ids, count: int
) -> int:
    """Write the ids of the parts of a word, and return where the next id goes."""
    at = 0
    while at < end - start:
        node = choice[at]
        ids[count] = content[start + at] if node < 0 else nodes[node, RANK]
        at += 1 if node < 0 else nodes[node, SPAN]
        count += 1
    return count


@compiled
def _spell_all(
    cutter: int,
    content: Bytes,
    offsets: Longs,
    keys: Keys,
    children: Ids,
    nearest: Ids,
    pairs: Ids,
    nodes: Nodes,
) -> tuple[Rows, Ids, Longs]:
    """Spell words: what each is as a symbol, the ids it is spelt with, and where they start."""
    room = 1
    for word in range(len(offsets) - 1):
        room = max(room, offsets[word + 1] - offsets[word])
    work = make_work(room)
    rows = np.empty((len(offsets) - 1, 4), dtype=np.int64)
    ids = np.empty(len(content), dtype=np.int32)
    id_offsets = np.zeros(len(offsets), dtype=np.int64)
    for word in range(len(offsets) - 1):
        start, end = offsets[word], offsets[word + 1]
        _find_parts(content, start, end, keys, children, nearest, pairs, work[0])
        spell(cutter, content, start, end, nodes, work, rows[word])
        count = _write_parts(content, start, end, nodes, work[2], ids, id_offsets[word])
        id_offsets[word + 1] = count
    return rows, ids[: id_offsets[-1]].copy(), id_offsets
