"""Normalising and splitting: nothing is lost, and words are what the rules say."""

from __future__ import annotations

import unicodedata
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from quoth.vocabulary.phrases.text import (
    character_kinds,
    count_characters,
    encode_texts,
    find_inner_spaces,
    join_strings,
    normalise,
    split_words,
    starts_phrase,
    take_strings,
)

TEXTS = st.lists(st.text(max_size=30), max_size=6)


def words_of(text: str) -> list[str]:
    strings = encode_texts([text], lowercase=True)
    starts, _ = split_words(strings)
    content = strings.content.tobytes()
    return [content[a:b].decode() for a, b in pairwise(starts)]


class TestNormalise:
    @given(st.text())
    def test_twice_is_once(self, text: str) -> None:
        once = normalise(text)
        assert normalise(once) == once

    @given(st.text())
    def test_single_spaces_only_and_none_at_the_ends(self, text: str) -> None:
        normal = normalise(text, lowercase=False)
        assert normal == " ".join(normal.split())

    def test_case_is_kept_when_asked(self) -> None:
        assert normalise(" The  Who ", lowercase=False) == "The Who"

    def test_quotation_marks_become_straight_and_forms_compatible(self) -> None:
        assert normalise("“Ｅｕｒｏ”’s №5") == '"euro"\'s no5'

    def test_a_lone_surrogate_is_replaced(self) -> None:
        assert normalise("a\ud800b") == "a?b"


class TestWords:
    @pytest.mark.parametrize(
        ("text", "words"),
        [
            ("State-of-the-art", [" state", "-", "of", "-", "the", "-", "art"]),
            ("don't 'quote'", [" don't", " '", "quote", "'"]),
            ("dogs' o''clock", [" dogs", "'", " o", "''", "clock"]),
            ("b2b 2024 3.5", [" b", "2", "b", " 2024", " 3", ".", "5"]),
            ("what?! ... (x)", [" what", "?", "!", " ...", " (", "x", ")"]),
            ("東京 tower über naïve", [" 東京", " tower", " über", " naïve"]),
            ("", []),
        ],
    )
    def test_rules(self, text: str, words: list[str]) -> None:
        assert words_of(text) == words

    @given(TEXTS)
    def test_words_put_together_are_the_text(self, texts: list[str]) -> None:
        strings = encode_texts(texts, lowercase=True)
        starts, firsts = split_words(strings)
        assert list(starts[firsts]) == list(strings.offsets)
        for text in texts:
            assert "".join(words_of(text)) == (f" {normalise(text)}" if normalise(text) else "")

    @given(st.text())
    def test_a_word_holds_one_kind_of_character(self, text: str) -> None:
        kinds = character_kinds()
        for word in words_of(text):
            found = {int(kinds[ord(each)]) for each in word.removeprefix(" ")}
            assert len(found - {3}) <= 1 if 1 in found else len(found) == 1

    def test_only_letters_after_a_space_stand_in_phrases(self) -> None:
        for word, expected in [
            (" ab", True),
            ("ab", False),
            (" 1", False),
            (" é", True),
            (" ", False),
        ]:
            content = np.frombuffer(word.encode(), dtype=np.uint8)
            assert starts_phrase(content, 0, len(content), character_kinds()) is expected

    def test_kinds_follow_the_categories(self) -> None:
        kinds = character_kinds()
        for code in range(0x3000):
            category = unicodedata.category(chr(code))[0]
            expected = 3 if chr(code) == "'" else {"L": 1, "M": 1, "N": 2}.get(category, 0)
            assert kinds[code] == expected


class TestStrings:
    @given(st.lists(st.text(max_size=8), max_size=8), st.data())
    def test_against_python(self, texts: list[str], data: st.DataObject) -> None:
        strings = join_strings([text.encode() for text in texts])
        assert list(count_characters(strings)) == [len(text) for text in texts]
        assert list(find_inner_spaces(strings)) == [" " in text[1:] for text in texts]
        if texts:
            chosen = data.draw(st.lists(st.integers(0, len(texts) - 1), max_size=6))
            taken = take_strings(strings, np.array(chosen, dtype=np.int64))
            found = [taken.content[a:b].tobytes().decode() for a, b in pairwise(taken.offsets)]
            assert found == [texts[each] for each in chosen]
