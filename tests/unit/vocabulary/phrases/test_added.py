"""Words that a vocabulary lacks: one number each, and no other word is cut otherwise."""

from __future__ import annotations

import numpy as np
from tiny_generative import make_vocabulary

from quoth.vocabulary.phrases.added import AddedWords, list_texts

VOCABULARY = make_vocabulary()
KNOWN = len(VOCABULARY)
TEXTS = ["barn owl at zanzibar", "Zanzibar, 1984!", "", "owl zanzibaroid"]


def _cut(texts: list[str], added: AddedWords | None = None) -> list[list[int]]:
    found = VOCABULARY.segment(texts, added)
    return [each.tolist() for each in np.split(found.ids, found.offsets[1:-1])]


def test_a_word_that_is_lacking_is_one_phrase() -> None:
    added = AddedWords(KNOWN, most=99)
    cut = _cut(TEXTS, added)
    assert list_texts(added.strings) == [" zanzibar", " 1984", " zanzibaroid"]
    barn_owl, at = VOCABULARY.segment(["barn owl at"]).ids.tolist()
    comma, mark = ord(","), ord("!")
    (owl,) = VOCABULARY.segment(["owl"]).ids.tolist()
    assert cut == [
        [barn_owl, at, KNOWN],
        [KNOWN, comma, KNOWN + 1, mark],
        [],
        [owl, KNOWN + 2],
    ]


def test_what_is_known_is_cut_as_before() -> None:
    texts = ["barn owl at night", "owl owl", "on the wing ;;"]
    added = AddedWords(KNOWN, most=99)
    assert _cut(texts, added) == _cut(texts) and len(added) == 0


def test_numbers_stay_when_more_words_come() -> None:
    first = AddedWords(KNOWN, most=99)
    _cut(TEXTS, first)
    again = AddedWords(KNOWN, first.strings, most=99)
    assert _cut(["quagga zanzibar"], again) == [[KNOWN + 3, KNOWN]]
    assert list_texts(again.strings)[:3] == list_texts(first.strings)


def test_beyond_the_most_words_are_cut_into_parts() -> None:
    added = AddedWords(KNOWN, most=1)
    (cut,) = _cut(["zanzibar quagga zanzibar"], added)
    (parts,) = _cut(["quagga"])
    assert cut == [KNOWN, *parts, KNOWN] and len(parts) > 1
    assert list_texts(added.strings) == [" zanzibar"]
