"""What compiled code does with texts is what Python does with them, only sooner."""

from __future__ import annotations

import os
import random
from collections.abc import Sequence
from pathlib import Path

import pytest
from hatch_build import compile_native
from hypothesis import given
from hypothesis import strategies as st

from quoth.index.lexical import passage_terms
from quoth.index.lexical.passage_terms import (
    PassageTerms,
    PlacedPassage,
    write_record,
)
from quoth.text.signatures import _split, make_signature, sketch_slowly
from quoth.text.words import Analyser, AnalyserConfig

native = pytest.importorskip("quoth.native", reason="nothing was compiled")

PLAIN = st.text(alphabet="aAbZ9'_-. \n\t!", max_size=200)
TERMS = st.sampled_from(["owl", "barn", "été", "東京", "a" * 100, "x"])


def _python_alone() -> Analyser:
    analyser = Analyser(AnalyserConfig())
    analyser._plain = None
    return analyser


@given(PLAIN, st.sets(st.sampled_from(["a", "b", "ab", "9", "z", "a'b"])))
def test_words_of_plain_text(text: str, wanted: set[str]) -> None:
    compiled, python = Analyser(AnalyserConfig()), _python_alone()
    assert compiled._plain is not None
    assert compiled.terms(text) == python.terms(text)
    assert compiled.place(text, wanted) == python.place(text, wanted)


def test_words_are_kept_and_forgotten() -> None:
    asked: list[str] = []

    def look_up(word: str) -> str:
        asked.append(word)
        return word.upper()

    words = native.Words(look_up, 3)
    assert words.terms("a b a c") == ["A", "B", "A", "C"]
    assert asked == ["a", "b", "c"]
    assert words.terms("d " + "long" * 30) == ["D", ("long" * 30).upper()]
    assert words.terms("d a") == ["D", "A"]  # a was forgotten when d came
    assert asked == ["a", "b", "c", "d", "long" * 30, "a"]
    many = [f"w{number}" for number in range(20_000)]
    assert native.Words(str, 100_000).terms(" ".join(many)) == many


def test_what_goes_wrong_with_a_word_is_raised() -> None:
    def fail(word: str) -> str:
        raise LookupError(word)

    with pytest.raises(LookupError, match="owl"):
        native.Words(fail, 10).terms("owl")
    with pytest.raises(LookupError, match="owl"):
        native.Words(fail, 10).place("owl", {"owl"})
    with pytest.raises(ValueError, match="plain text"):
        native.Words(str, 10).terms("été")


@given(st.lists(st.sampled_from(["owl", "it's", "Œuvre", "x_y", "东京", "ß", "\t"]), max_size=300))
def test_signatures(words: list[str]) -> None:
    text = " ".join(words)
    assert make_signature([text]) == sketch_slowly(_split(text))


def test_signatures_of_more_shingles_than_are_kept() -> None:
    chance = random.Random(2)
    for plain in (True, False):
        words = [f"w{chance.randrange(400)}" for _each in range(900)]
        text = " ".join(words) + ("" if plain else " é")
        assert len(make_signature([text])) == 128 * 4
        assert make_signature([text]) == sketch_slowly(_split(text))


@given(
    st.lists(st.lists(TERMS, max_size=40), min_size=1, max_size=6),
    st.dictionaries(TERMS, st.floats(0.01, 12.0)),
)
def test_weights_of_passages(terms: Sequence[list[str]], weights: dict[str, float]) -> None:
    places = [PlacedPassage(0, 0, 100 * at, 100 * at + 90) for at in range(len(terms))]
    record = PassageTerms(write_record(places, terms))
    assert record.weigh(weights) == record.weigh_slowly(weights)


@given(st.lists(TERMS, max_size=30))
def test_keys_of_terms(terms: list[str]) -> None:
    assert passage_terms._write_keys(terms) == b"".join(map(passage_terms._KEYS.__getitem__, terms))


def test_records_that_do_not_fit_are_refused() -> None:
    with pytest.raises(ValueError, match="damaged"):
        native.weigh(b"\x00" * 4 + b"\xff" * 4, b"", b"", 10.0, 1.2)
    with pytest.raises(ValueError, match="damaged"):
        native.weigh(b"\x00" * 4 + b"\x01\0\0\0" + b"\x09\0\0\0" * 5, b"", b"", 10.0, 1.2)


def test_a_compiler_that_fails_says_why_and_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CC", str(tmp_path / "none"))
    assert "none" in compile_native(tmp_path / "made.so")
    monkeypatch.setenv("CC", "false")
    assert "ended with 1" in compile_native(tmp_path / "made.so")
    assert os.listdir(tmp_path) == []
