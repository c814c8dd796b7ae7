"""Counting sequences of symbols: the same as counting them all, whatever the threads and parts."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from quoth.vocabulary.phrases import counting
from quoth.vocabulary.phrases.counting import Grams, Limits, Sequences, count_grams, count_symbols
from quoth.vocabulary.phrases.interning import Interner
from quoth.vocabulary.phrases.text import join_strings
from quoth.vocabulary.phrases.workers import Threads

NUM_SYMBOLS = 5
TEXTS = st.lists(
    st.tuples(st.lists(st.integers(0, NUM_SYMBOLS - 1), max_size=9), st.integers(1, 3)), max_size=8
)


def make_sequences(texts: list[tuple[list[int], int]]) -> Sequences:
    offsets = np.cumsum([0, *(len(text) for text, _ in texts)])
    symbols = np.array([each for text, _ in texts for each in text], dtype=np.int32)
    return Sequences(symbols, offsets, np.array([w for _, w in texts], dtype=np.int64))


def make_limits(*, min_count: int, max_span: int = 4, max_length: int = 9) -> Limits:
    lengths = np.array([1, 2, 3, 1, 2], dtype=np.int32)
    joinable = np.array([1, 1, 1, 1, 0], dtype=np.int32)
    return Limits(min_count, max_span, max_length, lengths, joinable)


def read_gram(grams: Grams, node: int) -> tuple[int, ...]:
    symbols: list[int] = []
    while node >= 0:
        symbols.append(int(grams.symbols[node]))
        node = int(grams.parents[node])
    return tuple(reversed(symbols))


def count_brute(texts: list[tuple[list[int], int]], limits: Limits) -> dict[tuple[int, ...], int]:
    counts: Counter[tuple[int, ...]] = Counter()
    for text, weight in texts:
        for start in range(len(text)):
            for end in range(start + 1, min(len(text), start + limits.max_span) + 1):
                counts[tuple(text[start:end])] += weight
    return {
        gram: count
        for gram, count in counts.items()
        if count >= limits.min_count
        and sum(limits.lengths[each] for each in gram) <= limits.max_length
        and all(limits.joinable[each] for each in gram)
    }


@settings(deadline=None)
@given(TEXTS, st.integers(1, 4))
def test_the_same_as_counting_everything(texts: list[tuple[list[int], int]], least: int) -> None:
    sequences, limits = make_sequences(texts), make_limits(min_count=least)
    grams = count_grams(sequences, limits, workers=Threads(1))
    expected = count_brute(texts, limits)
    found = {read_gram(grams, node): int(grams.counts[node]) for node in range(len(grams.counts))}
    assert found == expected
    for node in range(len(grams.counts)):
        gram = read_gram(grams, node)
        assert grams.spans[node] == len(gram)
        assert grams.lengths[node] == sum(limits.lengths[each] for each in gram)
        assert grams.parents[node] < node
    for number, (text, _) in enumerate(texts):
        for at in range(len(text)):
            starting = [tuple(text[at:end]) for end in range(at + 1, len(text) + 1)]
            longest = max((each for each in starting if each in expected), key=len, default=())
            node = int(grams.deepest[sequences.offsets[number] + at])
            assert read_gram(grams, node) == longest


def test_threads_and_parts_change_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    chance = np.random.default_rng(3)
    texts = [(list(chance.integers(0, 4, size=20)), 1) for _ in range(200)]
    sequences, limits = make_sequences(texts), make_limits(min_count=3)
    one = count_grams(sequences, limits, workers=Threads(1))
    monkeypatch.setattr(counting, "_PART", 500)
    many = count_grams(sequences, limits, workers=Threads(3))
    assert len(one.counts) > 100
    for field in ("parents", "symbols", "counts", "spans", "lengths", "deepest"):
        assert np.array_equal(getattr(one, field), getattr(many, field))


def test_symbols_are_counted_by_weight() -> None:
    sequences = make_sequences([([0, 1, 0], 2), ([1], 5)])
    assert list(count_symbols(sequences, 3)) == [2 + 2, 2 + 5, 0]


@given(st.lists(st.lists(st.binary(max_size=6), max_size=30), max_size=4))
def test_strings_are_numbered_as_they_first_appear(blocks: list[list[bytes]]) -> None:
    interner, numbers = Interner(), dict[bytes, int]()
    for block in blocks:
        found = interner.number(join_strings(block))
        assert list(found) == [numbers.setdefault(each, len(numbers)) for each in block]
    strings = interner.strings
    assert len(strings) == len(numbers)
    for string, number in numbers.items():
        start, end = strings.offsets[number : number + 2]
        assert strings.content[start:end].tobytes() == string


def test_numbering_survives_growth() -> None:
    interner = Interner()
    first = [f"w{number}".encode() for number in range(5000)]
    assert list(interner.number(join_strings(first))) == list(range(5000))
    assert list(interner.number(join_strings(first[::-7]))) == list(range(4999, -1, -7))
