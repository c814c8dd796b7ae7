"""Answers by reading: sentences weighed, stretches chosen, and the short answer inside them."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import cast

import numpy as np
import pytest
from numpy.typing import NDArray

from quoth.answer.abstain import (
    MARGIN_ALONE,
    READER_FEATURES,
    Abstention,
    fit_abstention,
    open_abstention,
    save_abstention,
)
from quoth.answer.config import AnswerConfig
from quoth.answer.nearness import Sentence
from quoth.answer.passages import passages_to_read
from quoth.answer.quotations import (
    Quotation,
    QuotationLimits,
    choose_quotations,
    lead_with,
    trim,
)
from quoth.answer.reading import (
    SIGNS,
    Nearness,
    find_answer,
    open_weights,
    save_weights,
    softmax,
    standing_of,
)
from quoth.answer.reading_answerer import FittedReader, ReadingAnswerer, TitledPassage
from quoth.answer.short_answers import LikelyAnswer
from quoth.errors import ConfigError, Damaged
from quoth.models.reader.inputs import TitledText
from quoth.models.reader.reader import Reader
from quoth.models.reader.spans import Reading
from quoth.records import Answer, Document, Hit, Passage, Span
from quoth.vocabulary.dynamic import NO_ANSWER, Source

OWLS = "Barn owls hunt at night. Ravens speak. Hens sleep."
SWIFTS = "Swifts sleep on the wing. They hunt by day."
SPANS = (1.0, 0.0, 0.0, 0.0, 0.0)
LIMITS = QuotationLimits(most=3, share=0.4, words=30, further_words=30, long_words=40)


def read(text: str, answers: dict[str, float], *, silence: float = 0.0) -> Reading:
    """Return a reading by whole words in which some words score high as an answer."""
    words, at = [], 0
    for word in text.split():
        start = text.index(word, at)
        words.append((start, start + len(word.rstrip("."))))
        at = start + len(word)
    scores = np.array([answers.get(text[a:b], -5.0) / 2 for a, b in words])
    return Reading(np.array(words).reshape(-1, 2), scores, scores, scores, silence, silence)


class FakeReader:
    """Scores the words it is told."""

    def __init__(self, answers: dict[str, float]) -> None:
        self.answers = answers
        self.read_texts: list[TitledText] = []

    def read_all(
        self, _questions: Sequence[str], passages: Sequence[Sequence[TitledText]]
    ) -> list[list[Reading]]:
        self.read_texts += [each for own in passages for each in own]
        return [[read(each.text, self.answers) for each in own] for own in passages]


def make(
    answers: dict[str, float], *, abstention: Abstention = MARGIN_ALONE, **given: object
) -> ReadingAnswerer:
    fitted = FittedReader(cast(Reader, FakeReader(answers)), SPANS, abstention)
    return ReadingAnswerer(fitted, AnswerConfig(**given))  # type: ignore[arg-type]


def titled(*texts: str) -> list[TitledPassage]:
    return [
        TitledPassage(Passage(f"d{at}", "text", Span(100, 100 + len(text)), text))
        for at, text in enumerate(texts)
    ]


# --- weighing ------------------------------------------------------------------------------------


def test_the_most_probable_sentence_holds_the_short_answer() -> None:
    readings = [read(OWLS, {"night": 4.0, "speak": 3.0}), read(SWIFTS, {"day": 1.0})]
    found = find_answer([OWLS, SWIFTS], readings, weights=SPANS)
    assert found.sentences[0].text == "Barn owls hunt at night."
    assert len(found.sentences) == 5 and found.probabilities.sum() == pytest.approx(1.0)
    assert int(found.probabilities.argmax()) == 0
    best, *others = found.likely
    assert best.source == Source(0, Span(18, 23)) and best.text == "night"
    assert 0.0 < best.probability < 1.0 and all(
        best.probability > own.probability for own in others
    )
    assert found.margin == pytest.approx(4.0) and found.relevance == 0.0


def test_a_mark_is_no_short_answer() -> None:
    text = "Owls — hunt at night."
    found = find_answer([text], [read(text, {"—": 5.0, "night": 4.0})], weights=SPANS)
    assert found.likely[0].source == Source(0, Span(15, 20))
    assert all(own.text.strip("— ") for own in found.likely)
    assert found.spans == (Span(15, 20),)


def test_weights_decide_what_counts() -> None:
    readings = [read(OWLS, {"night": 4.0}), read(SWIFTS, {"day": 3.0}, silence=2.0)]
    by_relevance = find_answer([OWLS, SWIFTS], readings, weights=(0.0, 0.0, 5.0, 0.0, 0.0))
    assert by_relevance.sentences[int(by_relevance.probabilities.argmax())].passage == 1


def test_nearness_decides_between_sentences_that_read_alike() -> None:
    readings = [read(OWLS, {"night": 4.0}), read(SWIFTS, {"day": 3.9})]
    near = Nearness(lambda own: np.array([0.5 * ("by day" in each.text) for each in own]), 4.0)
    found = find_answer([OWLS, SWIFTS], readings, weights=SPANS, nearness=near)
    assert found.sentences[int(found.probabilities.argmax())].text == "They hunt by day."
    assert found.nearest == 0.5
    alone = find_answer([OWLS, SWIFTS], readings, weights=SPANS)
    assert found.score > alone.score, "what makes a sentence probable speaks for an answer"
    assert found.likely[0].source == Source(1, Span(39, 42)), "the short answer goes with it"


def test_a_sentence_is_as_near_as_it_is_with_the_one_before_it() -> None:
    seen: list[str] = []

    def cosines(sentences: Sequence[Sentence]) -> NDArray[np.float64]:
        seen.extend(each.text for each in sentences)
        return np.zeros(len(sentences))

    texts = ["Swifts sleep. They hunt.", "Hens sleep."]
    readings = [read(each, {}) for each in texts]
    find_answer(texts, readings, weights=SPANS, nearness=Nearness(cosines, 1.0))
    assert sorted(seen) == ["Hens sleep.", "Swifts sleep.", "Swifts sleep. They hunt."]


def test_a_document_that_search_ranked_higher_speaks_for_its_sentences() -> None:
    texts, readings = [SWIFTS, OWLS], [read(SWIFTS, {"day": 4.0}), read(OWLS, {"night": 4.1})]
    weights = (1.0, 0.0, 0.0, 0.0, 0.5)
    for standings, expected in (((), 1), ((0.0, 0.0), 1), ((0.0, standing_of(2)), 0)):
        found = find_answer(texts, readings, weights=weights, standings=standings)
        assert found.sentences[int(found.probabilities.argmax())].passage == expected
    ranked = [replace(titled(text)[0], standing=-at / 2) for at, text in enumerate(texts)]
    fake = cast(Reader, FakeReader({"day": 4.0, "night": 4.1}))
    answerer = ReadingAnswerer(FittedReader(fake, weights, MARGIN_ALONE), AnswerConfig())
    (found,) = answerer.find(["When do they hunt?"], [ranked])
    assert found.sentences[int(found.probabilities.argmax())].passage == 0


def test_without_text_nothing_is_found() -> None:
    found = find_answer([""], [read("", {})], weights=SPANS)
    assert found.sentences == () and found.likely == () and found.margin == -np.inf
    assert softmax(np.zeros(0)).shape == (0,)


def test_weights_are_kept_with_the_reader(tmp_path: Path) -> None:
    assert open_weights(tmp_path) == SPANS
    save_weights(tmp_path, (0.25, 0.5, 0.0, -0.125, 0.5))
    assert open_weights(tmp_path) == (0.25, 0.5, 0.0, -0.125, 0.5) and len(SIGNS) == 5
    older = {"signs": SIGNS[:2], "weights": [0.5, 1.5]}
    (tmp_path / "sentences.json").write_text(json.dumps(older))
    assert open_weights(tmp_path) == (0.5, 1.5, 0.0, 0.0, 0.0)
    (tmp_path / "sentences.json").write_text('{"signs": ["owl"], "weights": [1]}')
    with pytest.raises(Damaged, match="expected finite weights of spans, evidence"):
        open_weights(tmp_path)


# --- choosing what is quoted ---------------------------------------------------------------------


def quoted(
    answers: dict[str, float],
    limits: QuotationLimits,
    question: str = "When do they hunt?",
    texts: Sequence[str] = (OWLS, SWIFTS),
) -> list[str]:
    found = find_answer(texts, [read(each, answers) for each in texts], weights=SPANS)
    chosen = [each.source for each in choose_quotations(question, found, limits)]
    return [texts[each.passage][each.span.start : each.span.end] for each in chosen]


def test_further_sentences_are_quoted_in_fewer_words() -> None:
    texts = ("In summer, when days are long, owls hunt at night.", "In winter, at sea, gulls rest.")
    answers, tight = {"night": 9.0, "rest": 8.9}, replace(LIMITS, further_words=3)
    assert quoted(answers, LIMITS, texts=texts) == list(texts)
    assert quoted(answers, tight, texts=texts) == [texts[0], "gulls rest."]
    assert quoted(answers, tight, "Why do they hunt?", texts) == list(texts), "at length"


def test_further_sentences_are_quoted_where_they_are_nearly_as_probable() -> None:
    one, some = replace(LIMITS, most=1), LIMITS
    assert quoted({"night": 9.0, "day": 9.0}, one) == ["Barn owls hunt at night."]
    both = quoted({"night": 9.0, "wing": 8.9}, some)
    assert both == ["Barn owls hunt at night.", "Swifts sleep on the wing."]
    assert quoted({"night": 9.0, "day": 2.0}, some) == ["Barn owls hunt at night."]
    side_by_side = quoted({"speak": 9.0, "night": 8.9}, some)
    assert side_by_side == ["Barn owls hunt at night.", "Ravens speak."], "as they stand"


def test_the_quotation_with_the_short_answer_comes_first() -> None:
    first, second, other = (
        Quotation(Source(passage, Span(start, end)), "")
        for passage, start, end in ((0, 0, 9), (0, 10, 20), (1, 0, 9))
    )
    ordered = [other, first, second]
    for passage, start, expected in (
        (0, 12, [second, first, other]),
        (0, 2, [first, second, other]),
        (1, 2, ordered),
    ):
        short = LikelyAnswer(Source(passage, Span(start, start + 3)), "owl", 1.0)
        assert lead_with(short, ordered) == expected
    assert lead_with(None, ordered) == ordered


def test_what_is_said_twice_is_quoted_once() -> None:
    found = find_answer([OWLS, OWLS], [read(OWLS, {"night": 9.0})] * 2, weights=SPANS)
    (only,) = choose_quotations("When do owls hunt?", found, LIMITS)
    assert only == Quotation(Source(0, Span(0, 24)), "night")
    again = ("Owls hunt at night.", "At night the owl wakes.")
    assert quoted({"night": 9.0}, LIMITS, texts=again) == ["At night the owl wakes."]


def test_what_is_asked_at_length_is_answered_with_the_neighbour() -> None:
    texts = ("Barn owls listen. They turn an ear. Hens sleep.",)
    how = "How do owls hunt?"
    both = quoted({"listen": 9.0, "ear": 2.0}, LIMITS, how, texts)
    assert both == ["Barn owls listen. They turn an ear."]
    assert quoted({"ear": 9.0, "listen": 2.0}, LIMITS, how, texts) == both, "the one before"
    tight = replace(LIMITS, long_words=5)
    assert quoted({"listen": 9.0, "ear": 2.0}, tight, how, texts) == ["Barn owls listen."]
    assert quoted({"listen": 9.0, "ear": 2.0}, LIMITS, "Who listens?", texts) == [
        "Barn owls listen."
    ]


@pytest.mark.parametrize("question", ["How many owls?", "What are owls?"])
def test_what_announces_something_goes_with_what_follows(question: str) -> None:
    announced = ("Owls sleep. There are two:\n\nSome hoot.\n\nSome do not.",)
    found = quoted({"two:": 9.0, "hoot": 2.0}, LIMITS, question, announced)
    assert found == ["There are two:\n\nSome hoot.\n\nSome do not."]
    named = ("Owls sleep. Owls are of the following kinds. Some hoot. Some do not.",)
    found = quoted({"kinds": 9.0, "sleep": 2.0}, LIMITS, question, named)
    assert found == ["Owls are of the following kinds. Some hoot. Some do not."]


@pytest.mark.parametrize("question", ["Do owls hunt by night?", "How do owls hunt?"])
def test_a_question_is_quoted_with_its_answer(question: str) -> None:
    text = "> Do owls hunt?\n\nYes. At night.\n\nDo hens sleep? Yes."
    found = quoted({"owls": 9.0, "hunt?": 9.0}, LIMITS, question, (text,))
    assert found == ["> Do owls hunt?\n\nYes. At night."]
    (answer,) = make({"owls": 9.0, "hunt?": 9.0}).answer([question], [titled(text)])
    assert answer.short is not None and answer.short.span.start > answer.text.index("?"), (
        "nothing in a question answers it"
    )


PACKING = """For Norway we need:
- Tent (2 persons), pegs, and a mallet
- Passports (Lena's expires in April 2027)
- Fishing rod; a licence costs 285 kroner"""


@pytest.mark.parametrize(
    ("words", "item"),
    [
        ({"2027)": 9.0}, "- Passports (Lena's expires in April 2027)"),
        ({"285": 9.0}, "- Fishing rod; a licence costs 285 kroner"),
    ],
)
def test_an_item_of_a_list_is_quoted_alone(words: dict[str, float], item: str) -> None:
    limits = replace(LIMITS, words=9)
    assert quoted(words, limits, "When, and how much?", (PACKING,)) == [item]


def test_a_list_is_quoted_where_it_answers_at_length() -> None:
    question = "What should we bring?"
    assert quoted({"Tent": 9.0}, LIMITS, question, (PACKING,)) == [PACKING]
    assert quoted({"Fishing": 9.0}, LIMITS, question, (PACKING,)) == [PACKING]
    steps = "It is quick.\n\n1. Whisk\n2. Stir\n3. Fry in butter"
    assert quoted({"Stir": 9.0}, LIMITS, "How do I cook it?", (steps,)) == [steps[14:]]
    loose = "- Tom lives here\n- Ann does not\n- Bo may"
    assert quoted({"Ann": 9.0}, LIMITS, "Why is it so?", (loose,)) != [loose]


def test_a_bare_question_is_quoted_where_there_is_nothing_else() -> None:
    contents = "- Do owls hunt?\n\n- Do hens sleep?"
    assert quoted({"owls": 9.0}, LIMITS, "Who hunts?", (contents,)) == ["- Do owls hunt?"]
    found = quoted({"owls": 9.0, "Ravens": 9.1}, LIMITS, "Who hunts?", (contents, "Ravens do."))
    assert found == ["Ravens do."]
    followed = (f"{contents}\n\n3.1 Barns", "Ravens do.")
    found = quoted({"owls": 9.0, "Ravens": 9.1}, LIMITS, "Who hunts?", followed)
    assert found == ["Ravens do."], "what stands below a list of questions need not answer them"
    both = ("Do owls hunt? When?\n\nAt night.",)
    assert quoted({"owls": 9.0}, LIMITS, "Do owls hunt?", both) == list(both)


@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_a_heading_is_not_part_of_the_sentence_below_it(end: str) -> None:
    text = f"# Rain{end}Rain fell on 611 days.{end}{end}```{end}print(rain){end}```"
    found = quoted({"611": 9.0}, LIMITS, "How many days did it rain?", (text,))
    assert found == ["Rain fell on 611 days."]
    text = f"Rain{end}{end}Rain fell on 611 days.{end}{end}print(rain)"
    assert quoted({"611": 9.0}, LIMITS, "How often?", (text,)) == ["Rain fell on 611 days."]


def test_what_leans_on_the_sentence_before_is_quoted_with_it() -> None:
    both = quoted({"night": 9.0, "day": 8.9}, LIMITS)
    assert both == ["Barn owls hunt at night.", SWIFTS], "they are not the owls"
    how = quoted(
        {"day": 9.0}, LIMITS, "How do they hunt?", ("Owls. Swifts. They hunt by day. No.",)
    )
    assert how == ["Swifts. They hunt by day."]
    tight = replace(LIMITS, long_words=5)
    assert quoted({"day": 9.0}, tight) == ["They hunt by day."]
    texts = ("Swifts sleep. They hunt.",)
    apart = quoted({"sleep": 9.0, "hunt": 8.9}, LIMITS, texts=texts)
    assert apart == ["Swifts sleep.", "They hunt."], "nothing is quoted twice"


def test_answers_that_contradict_each_other_are_marked() -> None:
    texts = ("It was built in 1856.", "It was built in 1902.")
    answers = {"1856": 9.0, "1902": 8.9}
    (answer,) = make(answers).answer(["When was it built?"], [titled(*texts)])
    assert answer.text == " ".join(texts) and answer.disagrees
    (answer,) = make({"1856": 9.0}).answer(["When was it built?"], [titled(*texts)])
    assert answer.text == texts[0] and not answer.disagrees


@pytest.mark.parametrize("words", [3, 6, 9, 40])
def test_a_trimmed_sentence_keeps_the_answer(words: int) -> None:
    text = "In 1856, when it was rebuilt, the harbour got a lighthouse (a tall one), which stands."
    for answer in ("1856", "rebuilt", "lighthouse", "tall one", "stands."):
        start = text.index(answer)
        kept = trim(text, Span(start, start + len(answer)), words=words)
        assert answer in text[kept.start : kept.end]
        length = len(text[kept.start : kept.end].split())
        assert kept == Span(0, len(text)) or length <= max(words, 6)


def test_a_long_sentence_is_trimmed_to_what_is_asked_for_and_not_before_an_option() -> None:
    text = "To see what is there, and when it came, run list --all, which takes long."
    limits = replace(LIMITS, words=4, long_words=8)
    assert quoted({"run": 9.0}, limits, "Who lists?", (text,)) == ["run list --all"]
    assert quoted({"run": 9.0}, limits, "How do I list?", (text,)) == [
        "and when it came, run list --all"
    ]


# --- answers -------------------------------------------------------------------------------------


def test_an_answer_quotes_exactly_and_marks_the_short_answer() -> None:
    passages = titled(OWLS, SWIFTS)
    (answer,) = make({"night": 9.0, "wing": 8.9}).answer(["When do owls hunt?"], [passages])
    assert answer.text == "Barn owls hunt at night. Swifts sleep on the wing."
    for citation in answer.citations:
        own, source = citation.answer_span, citation.passage_span
        assert answer.text[own.start : own.end] == citation.passage.text[source.start : source.end]
    assert [each.passage.docid for each in answer.citations] == ["d0", "d1"]
    assert answer.short is not None and answer.short.text == "night"
    span = answer.short.span
    assert answer.text[span.start : span.end] == "night"
    assert 0.0 < answer.short.probability < answer.support < 1.0
    stream = make({"night": 9.0, "wing": 8.9}).stream("When do owls hunt?", passages)
    first, second = "Barn owls hunt at night.", " Swifts sleep on the wing."
    assert [piece.text for piece in stream] == [first, second]
    assert stream.answer() == answer


def test_quotations_that_have_lines_stand_on_lines_of_their_own() -> None:
    passages = titled("| owl | at night |\n| swift | by day |", OWLS)
    asked = ["When do they hunt?"]
    (answer,) = make({"night": 9.0, "day": 8.9}).answer(asked, [passages])
    assert answer.text == "| owl | at night |\n| swift | by day |"
    (answer,) = make({"day": 9.0, "speak": 8.9}).answer(asked, [passages])
    assert answer.text == "| swift | by day |\nRavens speak."


def test_where_nothing_beats_not_here_quoth_says_so() -> None:
    passages = titled(OWLS)
    (silent,) = make({}).answer(["Who reads?"], [passages])
    assert silent == Answer(
        NO_ANSWER, (), (passages[0].passage,), support=silent.support, abstained=True
    )
    assert silent.support < 0.3
    (spoken,) = make({}, threshold=1.0).answer(["Who reads?"], [passages])
    assert not spoken.abstained and spoken.support == pytest.approx(silent.support)
    (nothing,) = make({}, threshold=1.0).answer(["Who reads?"], [titled("", "  ")])
    assert nothing == Answer(NO_ANSWER, (), (), support=0.0, abstained=True)


def test_where_it_abstains_each_document_is_shown_by_its_first_passage() -> None:
    (first,) = titled(OWLS)
    second = TitledPassage(Passage(first.passage.docid, "text", Span(60, 70), "Owls hoot."))
    answer = make({}).stream("Who speaks?", [first, second]).answer()
    assert answer.abstained and answer.passages == (first.passage,)


def test_an_empty_question_is_refused() -> None:
    with pytest.raises(ConfigError, match="the text is empty"):
        make({}).stream("  ", titled(OWLS)).answer()


def test_titles_are_read_and_never_quoted() -> None:
    fake = FakeReader({"night": 9.0, "Barn": 10.0})
    answerer = ReadingAnswerer(
        FittedReader(cast(Reader, fake), SPANS, MARGIN_ALONE), AnswerConfig()
    )
    passage = titled("They hunt at night.")[0].passage
    answer = answerer.stream("Who?", [TitledPassage(passage, "Barn owl")]).answer()
    assert fake.read_texts == [TitledText("Barn owl", "They hunt at night.")]
    assert answer.text == "They hunt at night."


def test_abstention_is_fitted_to_a_readers_signs(tmp_path: Path) -> None:
    chance = np.random.default_rng(0)
    features = chance.normal(size=(200, len(READER_FEATURES)))
    labels = (features[:, 0] + 0.5 * chance.normal(size=200) < 0).tolist()
    fitted = fit_abstention(features, labels, names=READER_FEATURES)
    assert fitted.weights[0] < -1.0 and max(fitted.weights) <= 0.0
    save_abstention(tmp_path, fitted)
    assert open_abstention(tmp_path, without=MARGIN_ALONE) == fitted
    with pytest.raises(Damaged, match=r"it weighs .*margin"):
        open_abstention(tmp_path)


def test_signs_that_an_older_fit_did_not_know_have_no_weight(tmp_path: Path) -> None:
    older = {"features": READER_FEATURES[:2], "weights": [-1.0, -0.5], "bias": 0.25}
    (tmp_path / "abstention.json").write_text(json.dumps(older))
    opened = open_abstention(tmp_path, without=MARGIN_ALONE)
    assert opened.weights[:2] == (-1.0, -0.5) and not any(opened.weights[2:])


def test_nearness_and_known_names_speak_for_an_answer() -> None:
    passages = titled("Owls hunt at night.", "At night they fly.", "Hens sleep.")
    fitted = FittedReader(cast(Reader, FakeReader({"night": 9.0})), SPANS, MARGIN_ALONE)
    answerer = ReadingAnswerer(
        fitted,
        AnswerConfig(),
        encode=lambda texts: np.array([[1.0, "Hens" in each] for each in texts], dtype=np.float32),
    )
    signs = signs_of(answerer, "When do owls of Ravenna hunt?", passages)
    assert signs["nearest sentence"] == pytest.approx(1.0) and signs["known names"] == 0.0
    bare = signs_of(ReadingAnswerer(fitted, AnswerConfig()), "When?", passages)
    assert bare["nearest sentence"] == 0.0


def signs_of(
    answerer: ReadingAnswerer, question: str, passages: Sequence[TitledPassage]
) -> dict[str, float]:
    found = answerer.find([question], [passages])
    (signs,) = answerer.features([question], [passages], found)
    return dict(zip(READER_FEATURES, signs.tolist(), strict=True))


def test_the_score_of_the_best_sentence_is_a_sign_whatever_stands_beside_it() -> None:
    answerer = make({"night": 9.0, "day": 3.0})
    alone, beside = titled(OWLS), titled(OWLS, SWIFTS)
    assert (
        signs_of(answerer, "When?", alone)["score"] == signs_of(answerer, "When?", beside)["score"]
    )
    assert signs_of(answerer, "When?", titled(SWIFTS))["score"] < 4.0 < 8.0
    nothing = signs_of(answerer, "When?", titled(" "))
    assert np.isfinite(list(nothing.values())).all()


def test_sentences_are_encoded_only_where_something_goes_by_it() -> None:
    fitted = FittedReader(cast(Reader, FakeReader({})), SPANS, MARGIN_ALONE)
    assert fitted.needs_vectors(AnswerConfig())
    by_reading = AnswerConfig(nearness_weight=0.0)
    assert not fitted.needs_vectors(by_reading)
    near = Abstention((0.0,) * 4 + (-1.0, 0.0, 0.0), 0.0, READER_FEATURES)
    assert replace(fitted, abstention=near).needs_vectors(by_reading)


# --- passages ------------------------------------------------------------------------------------


def test_several_passages_of_a_document_are_read() -> None:
    texts = ("Owls are birds.", "The barn owl hunts at night.", "Hens sleep.", "Owls see well.")
    document = Document("d", {"title": ("Owls",), "text": texts})
    passages = [Passage("d", "text", Span(0, len(text)), text, at) for at, text in enumerate(texts)]
    title = Passage("d", "title", Span(0, 4), "Owls")
    hits = [Hit("d", 1.0, passages[0]), Hit("gone", 0.5, passages[1]), Hit("bare", 0.2)]
    found = passages_to_read(
        "When does the barn owl hunt?", hits, {"d": (document, [title, *passages])}, per_document=3
    )
    assert [each.passage.text for each in found] == [texts[0], texts[1], texts[3]]
    assert {(each.title, each.standing) for each in found} == {("Owls", 0.0)}


def test_near_passages_are_read_though_they_share_no_word_with_the_question() -> None:
    texts = ("Owls are birds.", "Hens sleep.", "It preys after dusk.", "Owls, owls and owls.")
    document = Document("d", {"text": texts})
    passages = [Passage("d", "text", Span(0, len(text)), text, at) for at, text in enumerate(texts)]
    hits, documents = [Hit("d", 1.0, passages[0])], {"d": (document, passages)}
    near = dict(zip(passages[1:], (0.1, 0.9, 0.3), strict=True))
    for cosines, expected in (({}, [0, 3]), (near, [0, 2])):
        found = passages_to_read(
            "When do owls hunt?", hits, documents, per_document=2, near=cosines
        )
        assert [each.passage.instance for each in found] == expected


def test_a_document_that_holds_more_of_the_question_gives_more_passages() -> None:
    owls = [Passage("o", "text", Span(at, at + 9), "Owls hunt", at) for at in range(9)]
    hens = [Passage("h", "text", Span(at, at + 9), "Hens rest", at) for at in range(9)]
    hits = [Hit("h", 1.0, hens[0]), Hit("o", 0.5, owls[4])]
    documents = {"o": (Document("o", {}), owls), "h": (Document("h", {}), hens)}
    found = passages_to_read("Do owls hunt?", hits, documents, per_document=3)
    assert [each.passage.docid for each in found] == ["h", *["o"] * 5]
    assert found[1].passage == owls[4], "what was shown comes first"
    assert [each.standing for each in found] == [0.0] + [-0.5] * 5
