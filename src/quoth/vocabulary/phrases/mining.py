"""Read texts and list what may become a phrase.

Candidates are sequences of whole words (TokenMonster's `strict` rules, see `text.py`), whole
words, and parts of words. A part is a candidate if enough *distinct* words share it: counted by
occurrences, every frequent word would bring along all its substrings, which nobody needs once the
word itself is a phrase. Single bytes are in every vocabulary and are no candidates.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from itertools import islice

import numpy as np

from quoth.errors import ConfigError
from quoth.vocabulary.phrases.compiled import compiled
from quoth.vocabulary.phrases.config import PhraseConfig
from quoth.vocabulary.phrases.counting import (
    Grams,
    Limits,
    Progress,
    Sequences,
    count_grams,
    count_symbols,
)
from quoth.vocabulary.phrases.interning import Interner
from quoth.vocabulary.phrases.text import (
    Bytes,
    Ids,
    Longs,
    Strings,
    character_kinds,
    count_characters,
    encode_texts,
    split_words,
    starts_phrase,
    take_strings,
)
from quoth.vocabulary.phrases.workers import Workers

_TEXTS_AT_ONCE = 50_000


@dataclass(frozen=True, slots=True)
class Corpus:
    """Distinct texts as sequences of words, with how often each was read."""

    words: Strings
    texts: Sequences


@dataclass(frozen=True, slots=True)
class Candidates:
    """Parts of words (whole ones included) and sequences of words, with their counts."""

    parts: Strings
    part_counts: Longs
    phrases: Grams
    """Sequences of words; those of one word are nodes only, the word itself is a part."""


def read_corpus(
    texts: Iterable[str], counts: Iterable[int] | None, *, lowercase: bool, progress: Progress
) -> Corpus:
    """Read texts once, a block at a time, keeping numbers of words instead of text."""
    words, sequences = Interner(), Interner()
    rows: list[Ids] = []
    read_counts: list[Longs] = []
    num_texts = 0
    for block, block_counts in _read_blocks(texts, counts):
        strings = encode_texts(block, lowercase=lowercase)
        starts, firsts = split_words(strings)
        ids = words.number(Strings(strings.content, starts))
        rows.append(sequences.number(Strings(ids.view(np.uint8), 4 * firsts)))
        read_counts.append(block_counts)
        num_texts += len(block)
        progress("reading", num_texts, num_texts)
    distinct = sequences.strings
    weights = np.zeros(len(distinct), dtype=np.int64)
    for block_rows, block_counts in zip(rows, read_counts, strict=True):
        np.add.at(weights, block_rows, block_counts)
    read = Sequences(distinct.content.view(np.int32), distinct.offsets // 4, weights)
    return Corpus(words.strings, read)


def _read_blocks(
    texts: Iterable[str], counts: Iterable[int] | None
) -> Iterator[tuple[list[str], Longs]]:
    remaining = iter(texts)
    remaining_counts = iter(counts) if counts is not None else None
    while block := list(islice(remaining, _TEXTS_AT_ONCE)):
        given = [1] * len(block)
        if remaining_counts is not None:
            given = list(islice(remaining_counts, len(block)))
        if len(given) != len(block) or min(given) < 0:
            raise ConfigError("counts: expected one count, 0 or more, for each text")
        yield block, np.array(given, dtype=np.int64)


def mine_candidates(
    corpus: Corpus, config: PhraseConfig, *, workers: Workers, progress: Progress
) -> Candidates:
    """List the candidates of a corpus."""
    joinable, lengths = _describe_words(corpus.words)
    limits = Limits(config.min_count, config.max_words, config.max_length, lengths, joinable)
    phrases = count_grams(
        corpus.texts, limits, workers=workers, report=_report(progress, config.max_words)
    )
    parts, counts = _mine_parts(corpus, config, lengths, workers=workers, progress=progress)
    return Candidates(parts, counts, phrases)


def _report(progress: Progress, total: int) -> Callable[[int], None]:
    return lambda level: progress("counting phrases", level, total)


def _describe_words(words: Strings) -> tuple[Ids, Ids]:
    """Tell which words may stand in a phrase with others, and how many characters each has."""
    joinable = _find_joinable(words.content, words.offsets, character_kinds())
    return joinable, count_characters(words)


def _mine_parts(
    corpus: Corpus, config: PhraseConfig, lengths: Ids, *, workers: Workers, progress: Progress
) -> tuple[Strings, Longs]:
    """List whole words and parts shared by several words, each string once."""
    words = corpus.words
    whole_counts = count_symbols(corpus.texts, len(words))
    whole = np.flatnonzero(
        (whole_counts >= config.min_count)
        & (lengths <= config.max_length)
        & (np.diff(words.offsets) > 1)
    )
    byte_values = np.arange(256)
    limits = Limits(
        config.piece_count,
        4 * config.piece_length,
        config.piece_length,
        ((byte_values & 0xC0) != 0x80).astype(np.int32),
        np.ones(256, dtype=np.int32),
    )
    spelt = Sequences(
        words.content.astype(np.int32), words.offsets, np.ones(len(words), dtype=np.int64)
    )
    pieces = count_grams(
        spelt,
        limits,
        workers=workers,
        report=lambda level: progress("counting parts of words", level, limits.max_span),
    )
    return _unite(words, whole, whole_counts, pieces)


def _unite(
    words: Strings, whole: Longs, whole_counts: Longs, pieces: Grams
) -> tuple[Strings, Longs]:
    """Number words and parts in one list; a string that is both counts as both."""
    interner = Interner()
    ids = interner.number(take_strings(words, whole))
    shared = _spell_nodes(pieces.parents, pieces.symbols, pieces.spans)
    chosen = _find_whole_characters(shared.content, shared.offsets)
    piece_ids = interner.number(take_strings(shared, chosen))
    counts = np.zeros(len(interner.strings), dtype=np.int64)
    counts[ids] += whole_counts[whole]
    counts[piece_ids] += pieces.counts[chosen]
    return interner.strings, counts


def _spell_nodes(parents: Ids, symbols: Ids, spans: Ids) -> Strings:
    offsets = np.zeros(len(spans) + 1, dtype=np.int64)
    np.cumsum(spans, out=offsets[1:])
    return Strings(_write_nodes(parents, symbols, offsets).astype(np.uint8), offsets)


@compiled
def _write_nodes(parents: Ids, symbols: Ids, offsets: Longs) -> Ids:
    """Write the symbols of every node, last one first."""
    written = np.empty(offsets[-1], dtype=np.int32)
    for leaf in range(len(parents)):
        node, at = leaf, offsets[leaf + 1]
        while node >= 0:
            at -= 1
            written[at] = symbols[node]
            node = parents[node]
    return written


def spell_phrases(phrases: Grams, chosen: Longs, words: Strings) -> Strings:
    """Write the text of some sequences of words."""
    sizes = np.diff(words.offsets)
    offsets = np.zeros(len(chosen) + 1, dtype=np.int64)
    np.cumsum(_measure(phrases.parents, phrases.symbols, chosen, sizes), out=offsets[1:])
    content = _write_phrases(
        phrases.parents, phrases.symbols, chosen, offsets, words.content, words.offsets
    )
    return Strings(content, offsets)


@compiled
def _measure(parents: Ids, symbols: Ids, chosen: Longs, sizes: Longs) -> Longs:
    measured = np.zeros(len(chosen), dtype=np.int64)
    for at in range(len(chosen)):
        node = chosen[at]
        while node >= 0:
            measured[at] += sizes[symbols[node]]
            node = parents[node]
    return measured


@compiled
def _write_phrases(
    parents: Ids, symbols: Ids, chosen: Longs, offsets: Longs, content: Bytes, words: Longs
) -> Bytes:
    written = np.empty(offsets[-1], dtype=np.uint8)
    for at in range(len(chosen)):
        node, end = chosen[at], offsets[at + 1]
        while node >= 0:
            start = words[symbols[node]]
            size = words[symbols[node] + 1] - start
            end -= size
            for place in range(size):
                written[end + place] = content[start + place]
            node = parents[node]
    return written


@compiled
def _find_joinable(content: Bytes, offsets: Longs, kinds: Bytes) -> Ids:
    joinable = np.zeros(len(offsets) - 1, dtype=np.int32)
    for word in range(len(offsets) - 1):
        joinable[word] = starts_phrase(content, offsets[word], offsets[word + 1], kinds)
    return joinable


@compiled
def _find_whole_characters(content: Bytes, offsets: Longs) -> Longs:
    """List the strings of two bytes or more that do not start or end inside a character."""
    found = np.empty(len(offsets) - 1, dtype=np.int64)
    count = 0
    for string in range(len(offsets) - 1):
        start, end = offsets[string], offsets[string + 1]
        last = end - 1
        while last > start and content[last] & 0xC0 == 0x80:
            last -= 1
        lead = content[last]
        size = 1 if lead < 0x80 else 2 if lead < 0xE0 else 3 if lead < 0xF0 else 4
        if content[start] & 0xC0 != 0x80 and end - last == size and end - start > 1:
            found[count] = string
            count += 1
    return found[:count]
