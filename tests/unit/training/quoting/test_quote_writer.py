"""Quotations: what they say stands in the passages, subword for subword."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from tests.unit.training.dynamic_worlds import PASSAGES, make_inputs

from quoth.errors import ConfigError
from quoth.models.dynamic_lm.inputs import DynamicLMInputs
from quoth.training.quoting.quote_writer import (
    JOINT,
    CoverRecord,
    QuoteRecord,
    QuoteWriter,
    tile,
)
from quoth.training.quoting.quoting_config import QuotingConfig
from quoth.training.quoting.set import Quotation
from quoth.vocabulary.dynamic import NO_ANSWER

ONLY_SENTENCES = QuotingConfig(min_passages=4, unanswerable_share=0, short_share=0, joined_share=0)
RECORDS = [
    QuoteRecord("When was it named?", ("1769",), PASSAGES[0], PASSAGES[1:]),
    QuoteRecord("Whom does a raven watch?", ("one hen",), PASSAGES[1], PASSAGES[:1]),
]


@pytest.fixture(scope="module")
def inputs() -> DynamicLMInputs:
    return make_inputs()


def write(inputs: DynamicLMInputs, config: QuotingConfig) -> list[Quotation]:
    return list(QuoteWriter(inputs, config).answer(RECORDS))


def spoken(inputs: DynamicLMInputs, quotation: Quotation) -> str:
    assert quotation.target_ids[-1] == inputs.end_id
    return inputs.text(quotation.target_ids.tolist())


def check_phrases(inputs: DynamicLMInputs, quotation: Quotation) -> None:
    """Every phrase stands where it says, and has the subwords it has by itself."""
    for start, end, number, place in quotation.phrases.tolist():
        own = quotation.target_ids[start:end]
        there = quotation.passages[number].subword_ids[place : place + end - start]
        assert np.array_equal(own, there)
        assert 2 <= len(own) <= 8
        text = inputs.text(own.tolist())
        assert text[0] == " " and inputs.tokenise(text).subword_ids == own.tolist()


def test_a_sentence_is_tiled_by_phrases(inputs: DynamicLMInputs) -> None:
    first, second = write(inputs, ONLY_SENTENCES)
    assert spoken(inputs, first) == " It was named in 1769, and sleeps by day in old barns."
    assert spoken(inputs, second) == " A raven watches one hen among many."
    for quotation in (first, second):
        check_phrases(inputs, quotation)
        bounds = quotation.phrases[:, :2]
        assert bounds[0, 0] == 0 and (bounds[1:, 0] == bounds[:-1, 1]).all()
        assert len(quotation.target_ids) - 1 - bounds[-1, 1] <= 1
    assert len(first.passages) == 4 and len(second.passages) == 2
    prompt = inputs.text(first.prompt_ids.tolist())
    number = int(first.phrases[0, 2])
    assert f"[{number + 1}] {PASSAGES[0]}" in prompt and "When was it named?" in prompt


def test_a_short_answer_is_the_answer(inputs: DynamicLMInputs) -> None:
    first, second = write(inputs, replace(ONLY_SENTENCES, short_share=1.0))
    assert spoken(inputs, first) == " 1769" and spoken(inputs, second) == " one hen"
    check_phrases(inputs, first)
    assert first.phrases[:, :2].tolist() == [[0, len(first.target_ids) - 1]]


def test_two_questions_quote_two_passages(inputs: DynamicLMInputs) -> None:
    both = write(inputs, replace(ONLY_SENTENCES, joined_share=1.0))
    assert len(both) == 2
    for quotation in both:
        assert JOINT in spoken(inputs, quotation)
        check_phrases(inputs, quotation)
        assert len(set(quotation.phrases[:, 2].tolist())) == 2
        prompt = inputs.text(quotation.prompt_ids.tolist())
        assert all(record.question in prompt for record in RECORDS)


def test_the_unanswerable_is_refused_in_plain_subwords(inputs: DynamicLMInputs) -> None:
    first, second = write(inputs, replace(ONLY_SENTENCES, unanswerable_share=1.0))
    for quotation in (first, second):
        assert spoken(inputs, quotation) == NO_ANSWER
        assert not len(quotation.phrases) and not quotation.is_answerable
    assert PASSAGES[0] not in inputs.text(first.prompt_ids.tolist())


def test_passages_that_hold_the_answer_do_not_make_it_unanswerable(
    inputs: DynamicLMInputs,
) -> None:
    record = replace(RECORDS[0], distractors=("It was in 1769 too.", PASSAGES[0]))
    config = replace(ONLY_SENTENCES, unanswerable_share=1.0)
    assert list(QuoteWriter(inputs, config).answer([record])) == []


def test_long_sentences_are_cut_to_clauses(inputs: DynamicLMInputs) -> None:
    first, _ = write(inputs, replace(ONLY_SENTENCES, max_sentence_words=5))
    assert spoken(inputs, first) == " It was named in 1769,"


def test_answers_are_whole_words(inputs: DynamicLMInputs) -> None:
    record = replace(RECORDS[0], answers=("176",))
    assert list(QuoteWriter(inputs, ONLY_SENTENCES).answer([record])) == []


def test_a_sentence_is_rebuilt_from_other_passages(inputs: DynamicLMInputs) -> None:
    sentence = "Old owls sleep at night in tall old trees, on a perch in the barn."
    record = CoverRecord("owls", sentence, PASSAGES)
    (quotation,) = QuoteWriter(inputs, replace(ONLY_SENTENCES, min_cover=0.5)).cover([record])
    assert spoken(inputs, quotation) == " " + sentence
    check_phrases(inputs, quotation)
    assert len(set(quotation.phrases[:, 2].tolist())) > 1
    assert list(QuoteWriter(inputs, replace(ONLY_SENTENCES, min_cover=1.0)).cover([record])) == []


def test_tiles_are_as_long_as_allowed() -> None:
    assert tile([True] * 5, max_subwords=2) == [(0, 2), (2, 4)]
    assert tile([False, True, True], max_subwords=8) == [(1, 3)]
    assert tile([True, False, False, True, False], max_subwords=2) == [(3, 5)]
    assert tile([], max_subwords=2) == []


def test_all_problems_are_told_at_once() -> None:
    with pytest.raises(
        ConfigError, match=r"max_sentence_words is -1.*short_share \+ joined_share.*num_passages"
    ):
        QuotingConfig(short_share=0.7, joined_share=0.7, num_passages=1, max_sentence_words=-1)
