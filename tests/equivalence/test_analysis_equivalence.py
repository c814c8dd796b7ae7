"""Portions analysed in compiled code come out as those that Python analyses."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from quoth.collection.content import write_content
from quoth.collection.portions import StoredPlace, StoredPortion
from quoth.errors import Damaged
from quoth.records import Document
from quoth.search.lexical.analysing import analyse_portion, analyse_slowly
from quoth.text.passages import PassageConfig, place_passages
from quoth.text.words import AnalyserConfig

native = pytest.importorskip("quoth.native", reason="nothing was compiled")

WRITTEN = (
    "owl Owl's 'tis rock''n l’œuvre STRAẞE naïve—bark x_y été ﬁn ½ Ελλάς βeta na\u0308ive I\u0307x"
    " a\u20d0b 東京へ行く ประเทศไทย 𝔘nd 東's \u2019 ' ... \u00ad"
)
SPACES = ("\u00a0", "\u3000", "\u2028", "\n\n", "\x1c", "\x85")
PIECES = st.sampled_from((*WRITTEN.split(), *SPACES, "w" * 90))
LETTERS = st.characters(codec="utf-8", exclude_characters="\0")
TEXTS = st.lists(st.one_of(PIECES, PIECES, LETTERS), max_size=40).map(" ".join) | st.text(
    st.one_of(st.sampled_from("aZ9'_ \n.’é\u0301東ก\u2013"), LETTERS), max_size=60
)
FIELDS = st.dictionaries(
    st.sampled_from(["text", "title", "été"]), st.lists(TEXTS, max_size=3), max_size=3
)
CONFIGS = st.sampled_from(
    [AnalyserConfig(), AnalyserConfig("none"), AnalyserConfig("german", fold_accents=False)]
)


def _stored(fields: list[dict[str, list[str]]], config: PassageConfig) -> StoredPortion:
    contents, places = [], list[StoredPlace]()
    for row, own in enumerate(fields, start=5):
        document = Document(f"d{row}", {name: tuple(texts) for name, texts in own.items()})
        contents.append((row, document.docid, write_content(document)))
        places += [(row, *place) for place in place_passages(document, config)]
    return StoredPortion(Path("none.db"), tuple(contents), tuple(places))


@given(st.lists(FIELDS, max_size=6), CONFIGS, st.sampled_from([(180, 0), (3, 0), (4, 2)]))
def test_portions(
    fields: list[dict[str, list[str]]], config: AnalyserConfig, budget: tuple[int, int]
) -> None:
    passages = PassageConfig(max_words=budget[0], overlap_words=budget[1])
    portion = _stored(fields, passages)
    assert analyse_portion(portion, config=config) == analyse_slowly(portion, config=config)
    some = _stored(fields, PassageConfig(max_words=3, fields=("title",)))
    assert analyse_portion(some, config=config) == analyse_slowly(some, config=config)


def test_compounds_are_left_to_python() -> None:
    config = AnalyserConfig("german", compounds=("haus", "tür"))
    portion = _stored([{"text": ["Die Haustür"]}], PassageConfig())
    (texts,) = analyse_portion(portion, config=config).texts
    assert texts == {"text": ["die haustur haus tur"]}


@pytest.mark.parametrize(
    "place",
    [(5, "text", 0, 0, 1.5), (5, "text", 3, 0, 4), (5, "none", 0, 0, 4), (5, "text", 0, "x", 4)],
)
def test_what_is_damaged_is_told_as_python_tells_it(place: StoredPlace) -> None:
    portion = _stored([{"text": ["An owl"]}], PassageConfig())
    damaged = StoredPortion(portion.path, portion.documents, (*portion.places, place))
    with pytest.raises(Damaged, match="the passages of document 'd5'"):
        analyse_portion(damaged, config=AnalyserConfig())


@pytest.mark.parametrize(
    "content", ["[]", '{"fields":{}}', '{"fields":[],"metadata":{}}', "{", '{"fields":{"a":[1]}']
)
def test_documents_that_cannot_be_read(content: str) -> None:
    portion = StoredPortion(Path("none.db"), ((5, "d5", content),), ())
    with pytest.raises(Damaged, match="document 'd5'"):
        analyse_portion(portion, config=AnalyserConfig())


@given(FIELDS)
def test_passages_beyond_their_texts(fields: dict[str, list[str]]) -> None:
    portion = _stored([fields], PassageConfig())
    moved = tuple((*place[:3], place[3] + 1, place[4] + 3) for place in portion.places)
    beyond = StoredPortion(portion.path, portion.documents, moved)
    config = AnalyserConfig()
    assert analyse_portion(beyond, config=config) == analyse_slowly(beyond, config=config)


def test_chunks_are_forgotten_once_there_are_many() -> None:
    asked: list[str] = []

    def of_words(words: list[str]) -> list[str]:
        asked.extend(words)
        return words

    def of_chunk(chunk: str, is_full: bool) -> list[str]:
        return [f"{chunk}{int(is_full)}", "twice"]

    analysis = native.Analysis(of_words, of_chunk, 4)
    places: list[list[StoredPlace]] = [[(1, "text", 0, 0, 3)]]
    for text in ("a b", "a c", "d é", "a é"):
        (joined, _records, counted) = analysis.read([{"text": [text]}], places) or ((), (), [])
        assert joined == ({"text": [text.replace("é", "é0 twice")]},)
        assert counted[0][:3] == ("text", True, 3 if "é" in text else 2)
    assert asked == ["a", "b", "c", "d", "a"]


@pytest.mark.parametrize("terms", [7, None, [7], [], ["owl", "x"]])
def test_what_is_no_term_is_refused(terms: object) -> None:
    analysis = native.Analysis(lambda _words: terms, lambda _chunk, _is_full: terms, 4)
    for text in ("owl", "été"):
        if text == "owl" or not isinstance(terms, list) or 7 in terms:
            with pytest.raises(TypeError):
                analysis.read([{"text": [text]}], [[]])


def test_a_failing_analyser_raises_and_leaves_nothing_behind() -> None:
    answers = iter([LookupError("owl"), ["owl"]])

    def of_words(_words: list[str]) -> list[str]:
        answer = next(answers)
        if isinstance(answer, list):
            return answer
        raise answer

    analysis = native.Analysis(of_words, lambda _chunk, _is_full: [], 4)
    with pytest.raises(LookupError, match="owl"):
        analysis.read([{"text": ["owl"]}], [[]])
    read = analysis.read([{"text": ["owl"]}], [[]])
    assert read is not None
    assert read[0] == ({"text": ["owl"]},)


def test_an_analysis_is_not_entered_twice() -> None:
    def of_words(words: list[str]) -> list[str]:
        analysis.read([], [])
        return words

    analysis = native.Analysis(of_words, lambda _chunk, _is_full: [], 4)
    with pytest.raises(RuntimeError, match="one portion at a time"):
        analysis.read([{"text": ["owl"]}], [[]])


def test_many_words() -> None:
    words = [f"w{number}" for number in range(30_000)]
    content = json.dumps({"fields": {"text": [" ".join(words)]}, "metadata": {}})
    portion = StoredPortion(Path("none.db"), ((1, "d", content),), ())
    config = AnalyserConfig()
    assert analyse_portion(portion, config=config) == analyse_slowly(portion, config=config)
