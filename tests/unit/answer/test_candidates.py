"""Phrases of passages: literal, word-bounded, as many as allowed, nearest to the question first."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tiny_language_model import TEXTS, train_tokenizer

from quoth.answer.candidates import find_candidates, make_vocabulary
from quoth.answer.config import CandidateConfig
from quoth.answer.noun_phrases import noun_phrases
from quoth.answer.word_bounds import is_end, is_start
from quoth.models.dynamic_lm.config import DynamicLMConfig
from quoth.models.dynamic_lm.inputs import DynamicLMInputs
from quoth.text.blocks import split_sentences
from quoth.vocabulary.dynamic import Candidate

INPUTS = DynamicLMInputs(train_tokenizer(), DynamicLMConfig(), max_positions=2048)
ANY_TEXT = st.one_of(
    st.text(max_size=80),
    st.text(alphabet='ab 3.,-\n\t"(’[1]<|im_end|>大鸦ไทย é😀‍', max_size=80),
    st.sampled_from(TEXTS),
)


def find(passages: list[str], question: str = "owl", **config: Any) -> list[Candidate]:
    chosen = CandidateConfig(**config)
    return find_candidates(question, passages, tokenise=INPUTS.tokenise_all, config=chosen)


@settings(max_examples=80, deadline=None)
@given(st.lists(ANY_TEXT, max_size=3), st.sampled_from(["ngrams", "chunks"]), st.integers(1, 2))
def test_every_phrase_is_its_source_character_for_character(
    passages: list[str], source: str, least: int
) -> None:
    for candidate in find(passages, source=source, min_subwords=least):
        (place,) = candidate.sources
        words = passages[place.passage][place.span.start : place.span.end]
        assert words == candidate.text.lstrip() == candidate.text.strip()
        assert INPUTS.text(candidate.subword_ids) == candidate.text
        assert least <= len(candidate.subword_ids) <= 8


def test_phrases_are_all_word_bounded_stretches_of_one_sentence() -> None:
    """Against brute force over all pairs of places."""
    text = "The (barn) owl's 3.5 mice, or\nmore. A raven [1] watches the barn owl."
    expected = set()
    for sentence in split_sentences(text):
        own = text[sentence.start : sentence.end]
        for start in range(len(own)):
            for end in range(start + 1, len(own) + 1):
                words = own[start:end]
                num_subwords = len(INPUTS.tokenise(f" {words}").subword_ids)
                if is_start(own, start) and is_end(own, end) and 2 <= num_subwords <= 8:
                    expected.add(f" {words}")
    found = {each.text for each in find([text])}
    assert found == {words for words in expected if any(map(str.isalnum, words))}
    assert " owl's 3.5" in found and " or\nmore" in found


def test_tokens_of_a_phrase_are_those_it_has_alone() -> None:
    for candidate in find([TEXTS[0], TEXTS[1]]):
        assert candidate.subword_ids == tuple(INPUTS.tokenise(candidate.text).subword_ids)


def test_scripts_without_spaces_are_cut_between_characters() -> None:
    texts = {each.text for each in find(["大鸦说永不 raven"], max_subwords=12)}
    assert {"大", "鸦说", "说永不"} <= texts and not any(each.startswith(" 大") for each in texts)


def test_single_words_are_offered_only_if_asked_and_never_stop_words() -> None:
    subwords = {each: len(INPUTS.tokenise(each).subword_ids) for each in (" owl", " the")}
    assert subwords == {" owl": 1, " the": 1}
    assert " owl" not in {each.text for each in find(["see the owl"])}
    ones = {each.text for each in find(["see the owl"], min_subwords=1)}
    assert " owl" in ones and " the" not in ones


def test_the_sentence_nearest_to_the_question_comes_first_and_alone_if_need_be() -> None:
    passages = ["Hens eat. Ravens speak of nothing.", "The swift sleeps on the wing."]
    found = find(passages, "On what does the swift sleep?", max_candidates=5)
    assert {each.sources[0].passage for each in found} == {1} and len(found) == 5
    more = find(passages, "On what does the swift sleep?")
    assert more[: len(found)] == found and {each.sources[0].passage for each in more} == {0, 1}
    assert find(passages, max_candidates=0) == []


def test_a_cut_counts_strings_not_places() -> None:
    passages = ["barn owl barn owl barn owl", "barn owl"]
    found = find(passages, max_candidates=4)
    assert len({each.text for each in found}) == 4
    vocabulary = make_vocabulary(
        "owl", passages, tokenise=INPUTS.tokenise_all, config=CandidateConfig(max_candidates=4)
    )
    assert len(vocabulary.candidates) == 4
    assert max(len(each.sources) for each in vocabulary.candidates) >= 3


def test_what_imitates_special_subwords_is_read_as_text() -> None:
    found = find(["say <|im_end|> now"], max_subwords=16)
    assert any("<|im_end|>" in each.text for each in found)
    assert all(not INPUTS.special_ids & set(each.subword_ids) for each in found)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("The old barn owl was seen.", {"The old barn owl", "old barn owl", "seen"}),
        ("He met Ada Lovelace in London", {"met Ada Lovelace", "Ada Lovelace", "London"}),
        ("the king of the hill", {"the king", "king", "the hill", "hill", "the king of the hill"}),
        ("and is of the", set()),
        ("", set()),
    ],
)
def test_chunks_are_noun_phrases_and_names(text: str, expected: set[str]) -> None:
    found = {text[span.start : span.end] for span in noun_phrases(text)}
    assert expected <= found
    assert found or not expected


def test_chunks_are_a_subset_of_all_stretches() -> None:
    text = "The barn owl of the Old Town hunts mice, a raven does not."
    chunks = {each.text for each in find([text], source="chunks")}
    assert chunks and chunks < {each.text for each in find([text])}
