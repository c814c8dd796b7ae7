"""Answers as a whole, with a tiny random model: batches, streams, cuts, refusals, bad input."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tiny_language_model import TEXTS

from quoth.answer.abstain import FEATURES, Abstention
from quoth.answer.answerer import Answerer, AnswerSettings
from quoth.answer.cite import Piece, cite, unquoted
from quoth.answer.config import AnswerConfig, CandidateConfig, DecodingConfig
from quoth.answer.stream import AnswerStream
from quoth.errors import ConfigError
from quoth.models.dynamic_lm.dynamic_lm import DynamicLM
from quoth.records import Answer, Passage, Span
from quoth.vocabulary.dynamic import NO_ANSWER

QUESTIONS = ["When does the barn owl hunt?", "Who sleeps on the wing?"]
NEVER = AnswerConfig(threshold=1.0)


def passages_of(*texts: str) -> list[Passage]:
    return [
        Passage(f"d{at}", "text", Span(100, 100 + len(text)), text) for at, text in enumerate(texts)
    ]


def make(model: DynamicLM, **given: Any) -> Answerer:
    parts: dict[str, Any] = {
        "answer": NEVER,
        "candidates": CandidateConfig(min_subwords=1, max_candidates=80),
        "decoding": DecodingConfig(max_subwords=20, no_repeat_subwords=3),
    }
    return Answerer(model, AnswerSettings(**{**parts, **given}))


def check(answer: Answer) -> None:
    for citation in answer.citations:
        own, source = citation.answer_span, citation.passage_span
        assert answer.text[own.start : own.end] == citation.passage.text[source.start : source.end]
        assert citation.passage in answer.passages


def test_a_batch_gives_what_each_question_gets_alone_or_streamed(eager: DynamicLM) -> None:
    answerer = make(eager)
    passages = [passages_of(TEXTS[0], TEXTS[1]), passages_of(TEXTS[2])]
    together = answerer.answer(QUESTIONS, passages)
    for question, own, answer in zip(QUESTIONS, passages, together, strict=True):
        check(answer)
        (alone,) = answerer.answer([question], [own])
        assert replace(alone, support=0.0) == replace(answer, support=0.0)
        assert alone.support == pytest.approx(answer.support, abs=1e-4)
        stream = answerer.stream(question, own)
        pieces = list(stream)
        assert len(pieces) > 1 and stream.answer() == alone == stream.answer()
        assert cite(pieces, own).text == alone.text
    assert any(answer.citations for answer in together), "something is quoted"
    assert any(unquoted(answer) for answer in together), "and something is not"


def test_without_phrases_nothing_is_quoted(model: DynamicLM) -> None:
    decoding = DecodingConfig(max_subwords=20, phrases=False)
    (answer,) = make(model, decoding=decoding).answer([QUESTIONS[0]], [passages_of(TEXTS[0])])
    assert answer.text and answer.citations == ()


# --- whether to answer ---------------------------------------------------------------------------

SILENT = Abstention((0.0, 0.0, 0.0, 0.0), 2.0)


def test_where_there_is_probably_no_answer_quoth_says_so(model: DynamicLM) -> None:
    passages = [passages_of(TEXTS[0]), passages_of(TEXTS[2])]
    by_coverage = Abstention((0.0, -8.0, 0.0, 0.0), 4.0)  # silent below half of the words
    answerer = make(model, answer=AnswerConfig(), abstention=by_coverage)
    found = answerer.answer([QUESTIONS[0], "Zebras eat which grass?"], passages)
    assert [each.abstained for each in found] == [False, True]
    assert found[1] == Answer(
        NO_ANSWER, (), tuple(passages[1]), support=found[1].support, abstained=True
    )
    assert found[1].support == pytest.approx(1 - 1 / (1 + np.exp(-4.0)), abs=1e-6)
    (alone,) = make(model).answer([QUESTIONS[0]], passages[:1])
    assert found[0].text == alone.text, "leaving one out of the batch changes no other"


def test_the_threshold_is_the_probability_of_silence(model: DynamicLM) -> None:
    silence = 1 / (1 + np.exp(-2.0))
    for threshold, abstains in ((silence - 0.01, True), (silence + 0.01, False), (1.0, False)):
        answerer = make(model, answer=AnswerConfig(threshold=threshold), abstention=SILENT)
        (answer,) = answerer.answer([QUESTIONS[0]], [passages_of(TEXTS[0])])
        assert answer.abstained == abstains
        assert answer.support == pytest.approx(1 - silence)


@pytest.mark.parametrize("written", [f"{NO_ANSWER} Really.", "", " \n"])
def test_a_refusal_of_the_model_itself_is_silence_too(written: str) -> None:
    stream = AnswerStream("Why?")
    stream.passages, stream.support = tuple(passages_of(TEXTS[0])), 0.7
    stream.source = iter([Piece(written)])
    assert stream.answer() == Answer(NO_ANSWER, (), stream.passages, 0.7, abstained=True)


@pytest.mark.parametrize("texts", [[], [""], ["  \n"]])
def test_no_passages_hold_no_answer(model: DynamicLM, texts: list[str]) -> None:
    answers = make(model).answer(
        [QUESTIONS[0], QUESTIONS[1]], [passages_of(*texts), passages_of(TEXTS[0])]
    )
    assert answers[0] == Answer(NO_ANSWER, (), (), support=0.0, abstained=True)
    assert not answers[1].abstained
    assert list(make(model).stream(QUESTIONS[0], passages_of(*texts))) == []


def test_features_are_gathered_for_every_question(model: DynamicLM) -> None:
    found = make(model).features(QUESTIONS, [passages_of(TEXTS[0]), []])
    assert found.shape == (2, len(FEATURES)) and np.isfinite(found).all()
    assert found[0, 1] == pytest.approx(3 / 3)  # barn, owl, hunt
    assert found[1, 0] > 15  # without passages the refusal is certain


def test_vectors_are_made_only_where_they_have_weight(model: DynamicLM) -> None:
    asked: list[list[str]] = []

    def encode(texts: Sequence[str]) -> np.ndarray:
        asked.append(list(texts))
        return np.eye(len(texts), 4, dtype=np.float32)[::-1] + 1.0  # all near, none the same

    texts = ["Barn owls hunt. They sleep by day."]
    by_vectors = Abstention((0.0, 0.0, 0.0, -4.0), 1.0)
    answerer = Answerer(model, AnswerSettings(answer=NEVER, abstention=by_vectors), encode=encode)
    (answer,) = answerer.answer(QUESTIONS[:1], [passages_of(*texts)])
    assert asked == [[QUESTIONS[0], "Barn owls hunt.", "They sleep by day."]]
    cosine = 6 / 7  # of (1, 1, 2, 1) and (1, 2, 1, 1), or (2, 1, 1, 1)
    assert answer.support == pytest.approx(1 / (1 + np.exp(1.0 - 4.0 * cosine)), abs=1e-6)
    assert answerer.features(QUESTIONS[:1], [passages_of(*texts)])[0, 3] == pytest.approx(cosine)
    model_alone = replace(NEVER, far_penalty=0.0)
    for answer_config, decoding, times in (
        (model_alone, DecodingConfig(max_subwords=8), 0),
        (NEVER, DecodingConfig(max_subwords=8, phrases=False), 0),
        (NEVER, DecodingConfig(max_subwords=8), 1),
    ):
        asked.clear()
        settings = AnswerSettings(answer=answer_config, decoding=decoding, abstention=SILENT)
        mute = Answerer(model, settings, encode=encode)
        mute.answer(QUESTIONS[:1], [passages_of(*texts)])
        assert len(asked) == times


# --- where an answer begins ----------------------------------------------------------------------


@pytest.mark.parametrize("nearest", TEXTS)
def test_an_answer_begins_in_the_sentence_nearest_to_the_question(
    eager: DynamicLM, nearest: str
) -> None:
    """The language model likes one of the three best, whatever is asked."""

    def encode(texts: Sequence[str]) -> np.ndarray:
        near = [each == QUESTIONS[0] or each in nearest for each in texts]
        return np.array([(1.0, 0.0) if each else (0.0, 1.0) for each in near], dtype=np.float32)

    answer = AnswerConfig(threshold=1.0, far_penalty=1000.0)
    decoding = answer.for_answering(DecodingConfig(max_subwords=20))
    settings = AnswerSettings(answer=answer, decoding=decoding)
    answerer = Answerer(eager, settings, encode=encode)
    (found,) = answerer.answer(QUESTIONS[:1], [passages_of(*TEXTS)])
    check(found)
    assert found.citations[0].passage.text == nearest


# --- room and bad input --------------------------------------------------------------------------


def test_passages_are_cut_to_the_prompts_room(model: DynamicLM) -> None:
    long = " ".join(TEXTS) * 3
    config = AnswerConfig(threshold=1.0, prompt_subwords=64)
    passages = passages_of(TEXTS[0], long, TEXTS[2])
    (answer,) = make(model, answer=config).answer([QUESTIONS[0]], [passages])
    assert answer.passages[0] == passages[0] and len(answer.passages) == 2
    cut = answer.passages[1]
    assert long.startswith(cut.text) and cut.span == Span(100, 100 + len(cut.text))
    sizes = [len(model.inputs.tokenise(each.text).subword_ids) for each in answer.passages]
    assert sum(sizes) + 8 * len(sizes) <= 64 < sum(sizes) + 8 * len(sizes) + 2
    check(answer)


@pytest.mark.parametrize("question", ["", " \n"])
def test_an_empty_question_is_refused(model: DynamicLM, question: str) -> None:
    with pytest.raises(ConfigError, match="the text is empty"):
        make(model).answer([question], [passages_of(TEXTS[0])])


def test_a_question_that_is_too_long_names_the_limit(model: DynamicLM) -> None:
    with pytest.raises(ConfigError, match=r"100,000 characters, at most 2,000"):
        make(model).answer(["x" * 100_000], [passages_of(TEXTS[0])])
    with pytest.raises(ConfigError, match=r"subwords, of which this model reads 96"):
        make(model).answer(["大鸦" * 90], [passages_of(TEXTS[0])])


STRANGE = st.text(alphabet='ab [1]\\\n<|im_end|>"大鸦ไทยé😀‍\x00', max_size=120)


@settings(
    max_examples=25,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(st.lists(STRANGE, max_size=3), st.integers(0, 99))
def test_strange_passages_are_quoted_rightly_or_not_at_all(
    eager: DynamicLM, texts: list[str], seed: int
) -> None:
    decoding = DecodingConfig(method="nucleus", max_subwords=16, seed=seed)
    (answer,) = make(eager, decoding=decoding).answer(["Owl [1]?"], [passages_of(*texts)])
    check(answer)


# --- continuing a text ---------------------------------------------------------------------------


def test_a_text_is_continued_with_phrases_of_passages_it_does_not_read(eager: DynamicLM) -> None:
    answerer = make(eager)
    passages = passages_of(TEXTS[0], TEXTS[1])
    answer = answerer.continue_text("At dusk the barn ", passages).answer()
    check(answer)
    assert answer.citations and not answer.abstained
    prefix = answerer.continue_text("At dusk the barn", passages).answer()
    assert prefix == answer, "white space at the end of a prefix is not read"


def test_a_continuation_longer_than_the_model_is_refused(model: DynamicLM) -> None:
    answerer = make(model, decoding=DecodingConfig(max_subwords=600))
    with pytest.raises(ConfigError, match="this model reads 512 subwords in all"):
        answerer.continue_text("At dusk", []).answer()
