"""Keys survive being written as one word."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from quoth.evaluation.escape import escape, unescape

ANY_TEXT = st.text(st.characters(), max_size=20)  # lone surrogates too


@given(ANY_TEXT)
@settings(derandomize=True, deadline=None, max_examples=300)
def test_round_trip(key: str) -> None:
    assert unescape(escape(key)) == key


@given(ANY_TEXT.filter(bool))
@settings(derandomize=True, deadline=None, max_examples=300)
def test_an_escaped_key_is_one_word_of_plain_utf8(key: str) -> None:
    word = escape(key)
    assert word.split() == [word]
    assert word.encode("utf-8").split() == [word.encode("utf-8")]
    assert "\x00" not in word


@pytest.mark.parametrize(
    ("key", "word"),
    [
        ("d1", "d1"),
        ("my notes/a b.md", "my%20notes/a%20b.md"),
        ("a%20b", "a%2520b"),
        ("a\u00a0b", "a%C2%A0b"),
        ("naïve/文.md", "naïve/文.md"),
        ("x\udcff", "x%ED%B3%BF"),
    ],
)
def test_what_is_written(key: str, word: str) -> None:
    assert escape(key) == word
    assert unescape(word) == key


@pytest.mark.parametrize("word", ["http://a/caf%C3%A9", "50%", "%zz", "%FF", "a%2fb", "%C3"])
def test_escapes_of_others_are_left_alone(word: str) -> None:
    assert unescape(word) == word
