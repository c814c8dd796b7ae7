"""Sentences and clauses: within the budget, in order, and nothing but marks lost."""

from __future__ import annotations

import re

import pytest

from quoth.text.clauses import cut_clauses

TEXT = """# Ravens and crows

Ravens, which belong to the crow family (Corvidae), hide food for lean days; crows do so too, but
less often. Dr. Poe saw 3.5 caches a day. Why? Nobody knows.

- carrion, eggs and nuts
- seeds

1. Look. 2. Listen - and wait, however long it may take, until the very last of the birds has left
"""


@pytest.mark.parametrize("most_words", [4, 6, 9, 24, 200])
def test_no_piece_is_too_long_and_no_word_is_lost(most_words: int) -> None:
    pieces = cut_clauses(TEXT, most_words=most_words)
    assert all(1 <= len(piece.split()) <= most_words for piece in pieces)
    words = re.findall(r"[A-Za-z]+", TEXT)
    assert re.findall(r"[A-Za-z]+", " ".join(pieces)) == words


def test_sentences_within_the_budget_stay_whole() -> None:
    pieces = cut_clauses(TEXT, most_words=24)
    assert pieces[0] == "Ravens and crows"
    assert "Dr. Poe saw 3.5 caches a day. Why? Nobody knows." in pieces
    assert "carrion, eggs and nuts" in pieces


def test_long_sentences_are_cut_where_a_clause_ends() -> None:
    pieces = cut_clauses(TEXT, most_words=12)
    assert "Ravens, which belong to the crow family (Corvidae)," in pieces
    assert "hide food for lean days; crows do so too, but less often." in pieces


def test_nothing_comes_of_nothing() -> None:
    assert cut_clauses("", most_words=9) == [] and cut_clauses(" \n\n - \n", most_words=9) == []
