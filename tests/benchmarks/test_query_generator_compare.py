"""Comparing query generators: pairs in files, nats per word, and the searches of the round trip."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from benchmarks.learn.after import ARMS, CAUSAL, choose_arms
from benchmarks.query_generator.compare import describe, per_word
from benchmarks.query_generator.recipe import QueryPair
from benchmarks.query_generator.round_trip import WordSearch
from benchmarks.query_generator.text_pairs import TextPairs, load_text_pairs, save_text_pairs

TEXTS = [
    "The barn owl hunts at night.",
    "A raven watches the barn.",
    "Swifts sleep on the wing.",
]


def test_pairs_are_written_into_several_files_and_read(tmp_path: Path) -> None:
    pairs = [
        QueryPair(TEXTS[at % 3], f"query {at}" + 12 * " word", "ab"[at % 2]) for at in range(60)
    ]
    found = TextPairs(pairs, np.arange(60) % 3 == 0)
    paths = save_text_pairs(tmp_path, found, most=400)
    assert len(paths) > 1 and all(path.stat().st_size <= 400 for path in paths)
    again = load_text_pairs(tmp_path)
    assert again.pairs == pairs and again.held_out.tolist() == found.held_out.tolist()
    assert {pair.passage for pair in again.only(held_out=True)} == {TEXTS[0]}


def test_nats_are_divided_by_all_words() -> None:
    nats = {"small": np.array([6.0, 3.0]), "causal": np.array([4.0, 2.0])}
    found = per_word(nats, np.array([2, 1]))
    assert (found["small"], found["causal"], found["difference"]) == (3.0, 2.0, -1.0)
    assert found["interval"] == [-1.0, -1.0]


def test_words_find_their_passage() -> None:
    search = WordSearch(TEXTS)
    asked = ["owls hunting", "raven in the barn", "barn owl", "unknown"]
    assert search.ranks(asked, [0, 1, 1, 2]).tolist() == [1, 1, 2, 0]


def test_bm25_is_its_formula() -> None:
    search = WordSearch(["owl owl mouse", "mouse", "raven raven raven"])
    rarity, length = np.log(1 + 2.5 / 1.5), 3 / (7 / 3)
    expected = rarity * 2 * 2.2 / (2 + 1.2 * (0.25 + 0.75 * length))
    column = search._row_by_term["owl"]
    assert search._weights[0, column] == pytest.approx(expected)


def test_what_is_written_is_described() -> None:
    found = describe([["Where do owls hunt?", "mice"], ["mice"]], TEXTS[:2])
    assert (found["queries"], found["distinct"], found["words"]) == (3, 2, 2.0)


def test_an_arm_needs_its_generator() -> None:
    assert list(choose_arms("", "")) == list(ARMS)
    assert choose_arms(f"learned;{CAUSAL}", "folder")[CAUSAL] == {"generator": "folder"}
    with pytest.raises(SystemExit, match="--generator"):
        choose_arms(CAUSAL, "")
