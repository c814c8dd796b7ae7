"""Cutting texts: every cutter gives what a plain search over all ways to cut gives."""

from __future__ import annotations

from functools import cache
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from quoth.vocabulary.phrases.config import CUTTERS, NUM_BYTES, PhraseConfig
from quoth.vocabulary.phrases.text import encode_texts, join_strings, normalise, split_words
from quoth.vocabulary.phrases.vocabulary import PhraseVocabulary, build_vocabulary

WORDS = st.sampled_from(["ab", "abc", "b", "ba", "a", "été", "c1", "a'b", "..", "x"])
TEXTS = st.lists(WORDS, max_size=6).map(" ".join)
PARTS = st.text("ab cé1'.", min_size=2, max_size=4).filter(lambda part: " " not in part[1:])
PHRASES = st.lists(
    st.sampled_from(["ab", "abc", "b", "ba", "a", "été"]), min_size=2, max_size=4
).map(lambda words: " " + " ".join(words))


def make_vocabulary(phrases: list[str], cutter: str = "best_cover") -> PhraseVocabulary:
    strings = join_strings([each.encode() for each in phrases])
    uses = np.ones(NUM_BYTES + len(phrases), dtype=np.int64)
    return build_vocabulary(strings, config=PhraseConfig(cutter=cutter), uses=uses)


def split(text: str) -> list[bytes]:
    strings = encode_texts([text], lowercase=True)
    starts, _ = split_words(strings)
    content = strings.content.tobytes()
    return [content[a:b] for a, b in pairwise(starts)]


class Reference:
    """The same rules, on Python strings: parts stay within a word, phrases end where words end."""

    def __init__(self, phrases: list[str]) -> None:
        self.ids = {each.encode(): NUM_BYTES + at for at, each in enumerate(phrases)}

    def length(self, phrase: bytes) -> int:
        return len(phrase.decode()) if phrase in self.ids else 1

    def number(self, phrase: bytes) -> int:
        return self.ids.get(phrase, phrase[0])

    def parts(self, word: bytes, at: int) -> list[bytes]:
        """Parts of a word from one place, the longest first, the single byte last."""
        found = [word[at:end] for end in range(len(word), at + 1, -1) if word[at:end] in self.ids]
        return [*found, word[at : at + 1]]

    def phrases(self, words: list[bytes], at: int) -> list[int]:
        """Numbers of words that make a phrase from one place, the most first."""
        several = range(len(words), at + 1, -1)
        return [end - at for end in several if b"".join(words[at:end]) in self.ids]

    def cost(self, phrases: list[bytes]) -> tuple[int, int, list[int]]:
        squares = sum(self.length(each) ** 2 for each in phrases)
        return len(phrases), -squares, [self.number(each) for each in phrases]

    def best_cover(self, words: list[bytes]) -> list[bytes]:
        @cache
        def spell(word: bytes) -> list[bytes]:
            if not word:
                return []
            ways = [[part, *spell(word[len(part) :])] for part in self.parts(word, 0)]
            return min(ways, key=self.cost)

        if not words:
            return []
        ways = [[*spell(words[0]), *self.best_cover(words[1:])]]
        for span in self.phrases(words, 0):
            ways.append([b"".join(words[:span]), *self.best_cover(words[span:])])
        return min(ways, key=self.cost)

    def longest(self, words: list[bytes]) -> list[bytes]:
        found: list[bytes] = []
        at = 0
        while at < len(words):
            spans = self.phrases(words, at)
            if spans:
                found.append(b"".join(words[at : at + spans[0]]))
                at += spans[0]
                continue
            place = 0
            while place < len(words[at]):
                found.append(self.parts(words[at], place)[0])
                place += len(found[-1])
            at += 1
        return found

    def look_ahead(self, words: list[bytes]) -> list[bytes]:
        found: list[bytes] = []
        at = 0
        while at < len(words):
            choices = [
                *((span, [b"".join(words[at : at + span])]) for span in self.phrases(words, at))
            ]
            choices = [*choices, (1, self.spell_ahead(words[at]))][:3]
            gains = [self.gain(cut) + self.gain_after(words, at + span) for span, cut in choices]
            span, cut = choices[gains.index(max(gains))]
            found += cut
            at += span
        return found

    def spell_ahead(self, word: bytes) -> list[bytes]:
        found: list[bytes] = []
        at = 0
        while at < len(word):
            parts = self.parts(word, at)[:3]
            ahead = [at + len(part) for part in parts]
            gains = [
                self.gain([part])
                + (self.gain([self.parts(word, end)[0]]) if end < len(word) else 0)
                for part, end in zip(parts, ahead, strict=True)
            ]
            found.append(parts[gains.index(max(gains))])
            at += len(found[-1])
        return found

    def gain(self, cut: list[bytes]) -> int:
        return sum(self.length(each) for each in cut) - len(cut)

    def gain_after(self, words: list[bytes], at: int) -> int:
        if at >= len(words):
            return 0
        spans = self.phrases(words, at)
        cut = [b"".join(words[at : at + spans[0]])] if spans else self.spell_ahead(words[at])
        return self.gain(cut)


@pytest.mark.parametrize("cutter", CUTTERS)
@settings(deadline=None, max_examples=60)
@given(
    phrases=st.lists(st.one_of(PARTS, PHRASES), max_size=14, unique=True),
    texts=st.lists(TEXTS, max_size=3),
)
def test_the_same_as_a_plain_search(cutter: str, phrases: list[str], texts: list[str]) -> None:
    vocabulary, reference = make_vocabulary(phrases, cutter), Reference(phrases)
    sequences = vocabulary.segment(texts)
    assert len(sequences) == len(texts)
    for at, text in enumerate(texts):
        ids = sequences.ids[sequences.offsets[at] : sequences.offsets[at + 1]]
        expected = getattr(reference, cutter)(split(text))
        assert list(ids) == [reference.number(each) for each in expected]


@pytest.mark.parametrize("cutter", CUTTERS)
@given(texts=st.lists(st.text(max_size=20), max_size=4))
def test_any_text_comes_back_normalised(cutter: str, texts: list[str]) -> None:
    vocabulary = make_vocabulary([" a", "é", " the", " the a", "東京", "er"], cutter)
    sequences = vocabulary.segment(texts)
    for at, text in enumerate(texts):
        ids = sequences.ids[sequences.offsets[at] : sequences.offsets[at + 1]]
        assert vocabulary.join(ids) == normalise(text)


def texts_of(vocabulary: PhraseVocabulary, text: str) -> list[str]:
    return [vocabulary.text_of(int(each)) for each in vocabulary.segment([text]).ids]


class TestByHand:
    def test_best_cover_sees_further_than_longest(self) -> None:
        phrases = [" new york", " new", " york times square", " york", " times", " square"]
        text = "New York Times Square"
        assert texts_of(make_vocabulary(phrases), text) == [" new", " york times square"]
        assert texts_of(make_vocabulary(phrases, "longest"), text) == [
            " new york",
            " times",
            " square",
        ]
        assert texts_of(make_vocabulary(phrases, "look_ahead"), text) == [
            " new",
            " york times square",
        ]

    def test_equally_many_phrases_take_the_greater_squares_then_the_smaller_ids(self) -> None:
        phrases = [" a", " a bb", " bb cc", " cc", " bb"]
        assert texts_of(make_vocabulary(phrases), "a bb cc") == [" a", " bb cc"]  # 4 + 36 > 25 + 9
        even = [" aa", " aa bb", " bb aa", " bb"]
        assert texts_of(make_vocabulary(even), "aa bb aa") == [" aa", " bb aa"]
        assert texts_of(make_vocabulary(even[::-1]), "aa bb aa") == [" aa bb", " aa"]

    def test_a_phrase_does_not_end_inside_a_word(self) -> None:
        phrases = [" new york", " new", " york", "er"]
        assert texts_of(make_vocabulary(phrases), "new yorker") == [" new", " york", "er"]

    def test_characters_that_nothing_covers_become_bytes(self) -> None:
        assert texts_of(make_vocabulary([" a"]), "a 東") == [
            " a",
            " ",
            "<0xE6>",
            "<0x9D>",
            "<0xB1>",
        ]

    def test_blocks_change_nothing(self, monkeypatch: pytest.MonkeyPatch) -> None:
        vocabulary = make_vocabulary([" a b", " a", "bc"])
        texts = ["a b c", "", "abc", "b a b"] * 3
        whole = vocabulary.segment(texts)
        monkeypatch.setattr("quoth.vocabulary.phrases.segment._TEXTS_AT_ONCE", 5)
        parts = vocabulary.segment(texts)
        assert np.array_equal(whole.ids, parts.ids)
        assert np.array_equal(whole.offsets, parts.offsets)
