"""Signatures of texts, against the similarity that they estimate."""

from __future__ import annotations

import random
import re
import zlib

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from quoth.text.signatures import (
    LEAST_WORDS,
    SHINGLE_WORDS,
    SKETCH_SIZE,
    make_signature,
    read_hashes,
    similarity,
)


def _words(chance: random.Random, count: int) -> list[str]:
    return [f"w{chance.randrange(10_000)}" for _ in range(count)]


def _jaccard(first: list[str], second: list[str]) -> float:
    own, other = (
        {tuple(words[at : at + SHINGLE_WORDS]) for at in range(len(words) - SHINGLE_WORDS + 1)}
        for words in (first, second)
    )
    return len(own & other) / len(own | other)


@pytest.mark.parametrize("changed", [0, 1, 5, 20, 100, 400])
def test_the_estimate_is_close_to_the_share_of_common_shingles(changed: int) -> None:
    chance = random.Random(changed)
    first = _words(chance, 2_000)
    second = list(first)
    for at in chance.sample(range(len(second)), changed):
        second[at] = "other"
    found = similarity(make_signature([" ".join(first)]), make_signature([" ".join(second)]))
    assert found == pytest.approx(_jaccard(first, second), abs=0.15)


def test_for_texts_with_few_shingles_it_is_exact() -> None:
    first = _words(random.Random(1), 60)
    second = [*first[:50], *_words(random.Random(2), 10)]
    found = similarity(make_signature([" ".join(first)]), make_signature([" ".join(second)]))
    # each side has 57 shingles, those of the first 50 words in common; the union fits the sketch
    assert found == pytest.approx(_jaccard(first, second)) == pytest.approx(47 / 67)


def test_case_punctuation_and_layout_do_not_count() -> None:
    text = " ".join(_words(random.Random(3), 50))
    other = text.upper().replace(" ", ",\n ")
    assert make_signature([text]) == make_signature([other]) != b""


def test_short_texts_have_none_and_resemble_nothing() -> None:
    assert make_signature(["word " * (LEAST_WORDS - 1)]) == b""
    assert make_signature(["word " * LEAST_WORDS]) != b""
    assert similarity(b"", b"") == 0.0


@settings(max_examples=200, deadline=None)
@given(st.text(st.characters(codec="utf-8"), max_size=400), st.sampled_from([" an owl", "_", ""]))
def test_it_is_what_its_definition_says(text: str, filler: str) -> None:
    text += filler * 20
    words = re.findall(r"\w+", text.lower())
    hashes = {zlib.crc32(" ".join(words[at : at + 4]).encode()) for at in range(len(words) - 3)}
    expected = sorted(hashes)[:SKETCH_SIZE] if len(words) >= LEAST_WORDS else []
    assert list(read_hashes(make_signature([text]))) == expected
