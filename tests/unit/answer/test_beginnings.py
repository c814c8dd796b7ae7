"""What is taken off phrases that would begin an answer, by arithmetic."""

from __future__ import annotations

import numpy as np
import pytest

from quoth.answer.beginnings import handicaps
from quoth.answer.nearness import sentences_of
from quoth.records import Span
from quoth.vocabulary.dynamic import Candidate, DynamicVocabulary, Source

OWL = "The barn owl hunts at dusk."
ERROR = "Exception raised when downloaded size does not match content-length."
PASSAGES = (OWL, f"{ERROR} It ends.", "No. The barn owl sleeps.")
COSINES = np.array([0.8, 0.1, 0.3, -0.2, 0.6])  # one per sentence, in order


def vocabulary_of(*phrases: str) -> DynamicVocabulary:
    """Offer phrases at every place they stand."""
    return DynamicVocabulary.of(
        Candidate(f" {phrase}", (1, 2), (Source(number, Span(start, start + len(phrase))),))
        for phrase in phrases
        for number, text in enumerate(PASSAGES)
        if (start := text.find(phrase)) >= 0
    )


def test_a_phrase_pays_for_the_distance_of_its_sentence() -> None:
    phrases = ("Exception raised when downloaded", "The barn owl hunts", "It ends.", "No.")
    found = handicaps(vocabulary_of(*phrases), sentences_of(PASSAGES), COSINES, penalty=8.0)
    assert found == pytest.approx([8 * (0.8 - own) for own in (0.1, 0.8, 0.3, -0.2)])


def test_a_longer_phrase_of_one_sentence_pays_the_same() -> None:
    offered = vocabulary_of("at dusk.", "The barn owl hunts at dusk.", "hunts")
    assert handicaps(offered, sentences_of(PASSAGES), COSINES, penalty=8.0) == (0.0, 0.0, 0.0)


def test_what_stands_in_several_sentences_pays_for_the_nearest() -> None:
    offered = vocabulary_of("owl", "sleeps")  # "owl" stands in the first and in the last
    found = handicaps(offered, sentences_of(PASSAGES), COSINES, penalty=5.0)
    assert found == pytest.approx([0.0, 5 * (0.8 - 0.6)])


def test_the_nearest_on_offer_pays_nothing() -> None:
    found = handicaps(
        vocabulary_of("sleeps", "It ends."), sentences_of(PASSAGES), COSINES, penalty=10.0
    )
    assert found == pytest.approx([0.0, 10 * (0.6 - 0.3)])


def test_without_a_penalty_or_phrases_there_are_no_handicaps() -> None:
    sentences = sentences_of(PASSAGES)
    assert handicaps(vocabulary_of("owl"), sentences, COSINES, penalty=0.0) == ()
    assert handicaps(DynamicVocabulary.of([]), sentences, COSINES, penalty=8.0) == ()
