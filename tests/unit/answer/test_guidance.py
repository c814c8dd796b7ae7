"""What a reader says of phrases, and answers that are written by it."""

from __future__ import annotations

from dataclasses import replace
from typing import cast

import numpy as np
import pytest
from tests.unit.answer.test_reading import OWLS, SPANS, SWIFTS, FakeReader, titled

from quoth.answer.abstain import MARGIN_ALONE
from quoth.answer.answerer import Answerer, AnswerSettings
from quoth.answer.cite import cite
from quoth.answer.config import AnswerConfig, CandidateConfig, DecodingConfig
from quoth.answer.guidance import Guide, best_passages, find_short
from quoth.answer.nearness import sentences_of
from quoth.answer.reading import Findings
from quoth.answer.reading_answerer import FittedReader, ReadingAnswerer
from quoth.answer.short_answers import LikelyAnswer
from quoth.models.dynamic_lm.dynamic_lm import DynamicLM
from quoth.models.reader.reader import Reader
from quoth.records import Answer, Citation, Span
from quoth.vocabulary.dynamic import Candidate, DynamicVocabulary, Source

PASSAGES = (OWLS, SWIFTS)


def findings(*probabilities: float) -> Findings:
    """Give the five sentences of both passages these probabilities; "night" and "day" answer."""
    sentences = tuple(sentences_of(PASSAGES))
    answers = [OWLS.index("night"), None, None, None, SWIFTS.index("day")]
    spans = tuple(None if at is None else Span(at, at + 3) for at in answers)
    return Findings(sentences, np.array(probabilities), spans, (), 0.0, 0.0)


def phrase(text: str, number: int, *, at: int) -> Candidate:
    """Cut a phrase out of the passage `at`, which the writer knows by a number."""
    start = PASSAGES[at].index(text)
    return Candidate(" " + text, (), (Source(number, Span(start, start + len(text))),))


def test_phrases_count_by_their_sentence_and_the_answer_in_it() -> None:
    found = findings(0.1, 0.2, 0.05, 0.25, 0.4)
    chosen = best_passages(found, most=2)
    assert chosen == [1, 0] and best_passages(found, most=1) == [1]
    guide = Guide.of(found, chosen, strength=2.0)
    phrases = [
        phrase("hunt by", 0, at=1),
        phrase("day", 0, at=1),
        phrase("on the wing", 0, at=1),
        phrase("at night", 1, at=0),
    ]
    expected = [0.0, 1.0, np.log(0.25 / 0.4), np.log(0.1 / 0.4) + 1.0]
    bonuses = guide.bonuses(DynamicVocabulary.of(phrases))
    assert bonuses == pytest.approx([2.0 * each for each in expected])
    twice = replace(phrases[3], sources=(*phrases[3].sources, *phrases[0].sources))
    assert guide.bonuses(DynamicVocabulary.of([twice])) == pytest.approx(
        [2.0 * max(expected[3], 0)]
    )
    unread = Candidate(" elsewhere", (), (Source(2, Span(0, 9)),))
    assert guide.bonuses(DynamicVocabulary.of([unread]))[0] < -20.0


def test_phrases_of_probable_sentences_are_offered_first() -> None:
    found = findings(0.1, 0.2, 0.05, 0.25, 0.4)
    ordered = Guide.of(found, [1, 0], strength=1.0).rank(sentences_of((SWIFTS, OWLS)))
    assert ordered == [1, 0, 3, 2, 4]


def test_the_short_answer_is_marked_where_a_quotation_holds_it() -> None:
    passages = [each.passage for each in titled(SWIFTS, OWLS)]
    quoted = Citation(Span(3, 17), passages[1], Span(10, 24))
    answer = Answer("So hunt at night.", (quoted,), tuple(passages))
    likely = LikelyAnswer(Source(0, Span(18, 23)), "night", 0.5)
    found = find_short(answer, [likely], [1, 0], support=0.8)
    assert found is not None and (found.text, found.probability) == ("night", 0.4)
    assert found.span == Span(11, 16)
    elsewhere = replace(likely, source=Source(0, Span(30, 35)))
    assert find_short(answer, [elsewhere], [1, 0], support=1) is None
    assert find_short(answer, [likely], [1, 2], support=1) is None
    assert find_short(answer, [], [1, 0], support=1) is None


def test_an_answer_is_written_from_where_the_reader_found_it(eager: DynamicLM) -> None:
    """However strong the guidance, what is written is quoted, and begins in the best sentence."""
    rules = AnswerConfig(threshold=1.0, guidance=50.0, written_passages=1)
    settings = AnswerSettings(
        answer=rules,
        candidates=CandidateConfig(min_subwords=1, max_candidates=80),
        decoding=DecodingConfig(max_subwords=12),
    )
    reader = cast(Reader, FakeReader({"day": 9.0}))
    fitted = FittedReader(reader, SPANS, MARGIN_ALONE)
    answering = ReadingAnswerer(fitted, rules, writer=Answerer(eager, settings))
    stream = answering.stream("When do swifts hunt?", titled(OWLS, SWIFTS))
    pieces = list(stream)
    answer = stream.answer()
    assert cite(pieces, answer.passages).text == answer.text
    assert [each.text for each in answer.passages] == [SWIFTS]
    first = answer.citations[0]
    assert first.answer_span.start == 0 and "day" in answer.text
    assert answer.short is not None and answer.short.text == "day"
