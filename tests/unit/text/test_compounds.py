"""Compounds: which words they are split into, and what that does to search."""

from __future__ import annotations

from pathlib import Path

import pytest

from quoth.engine.engine import Engine
from quoth.errors import IndexMismatch
from quoth.records import Document, SearchRequest
from quoth.text.compounds import CompoundSplitter
from quoth.text.words import Analyser, AnalyserConfig

WORDS = ("Haus", "Tür", "Schlüssel", "Arbeit", "Zimmer", "Sonne", "Schein", "Türschloss", "Schloss")
SETTINGS = {"analyser": {"language": "german", "compounds": list(WORDS)}}
DOCUMENTS = {
    "compound": "Die Haustüren klemmen im Winter.",
    "part": "Eine Tür klemmt nie, wenn man sie ölt.",
    "house": "Das Haus steht am Fluss.",
    "other": "Der Fluss friert im Winter selten zu.",
}


def split(word: str) -> list[str]:
    analyser = Analyser(AnalyserConfig("german"))
    splitter = CompoundSplitter(WORDS, lambda each: analyser.terms(each)[0])
    return [word[start:end] for start, end in splitter.split(word)]


@pytest.mark.parametrize(
    ("word", "parts"),
    [
        ("Haustür", ["Haus", "tür"]),
        ("HAUSTÜREN", ["HAUS", "TÜREN"]),  # the last part may be inflected
        ("Arbeitszimmer", ["Arbeit", "zimmer"]),  # a linking s
        ("Sonnenschein", ["Sonne", "schein"]),  # a linking n
        ("Haustürschlüssel", ["Haus", "tür", "schlüssel"]),
        ("Haustürschloss", ["Haus", "türschloss"]),  # the fewest parts
        ("Türschloss", []),  # listed: not split itself
        ("Haus", []),
        ("Hausboot", []),  # half of it is no word of the list
        ("Winter", []),
        ("Haus" * 16, []),  # too long to be a word
        ("ﬁnsterhaus", []),
    ],
)
def test_words_are_split_into_words_of_the_list(word: str, parts: list[str]) -> None:
    assert split(word) == parts


def test_terms_are_those_of_words_in_order() -> None:
    analyser = Analyser(AnalyserConfig("german", compounds=WORDS))
    for text in ("die Haustür, Sonnenschein", "plain ascii Arbeitszimmer", "東京 Haustür", ""):
        words = list(analyser.words(text))
        assert analyser.terms(text) == [word.term for word in words]
        wanted = {"haus", "tur", "zimm"}
        assert analyser.find(text, wanted) == [word for word in words if word.term in wanted]


def test_an_analyser_without_a_list_is_as_before() -> None:
    assert "compounds" not in Analyser(AnalyserConfig()).identity()
    one, other = (AnalyserConfig(compounds=(each,)) for each in ("haus", "tür"))
    assert Analyser(one).identity() != Analyser(other).identity()


@pytest.fixture
def engine(tmp_path: Path) -> Engine:
    engine = Engine.open(tmp_path / "c.quoth", settings=[SETTINGS])
    engine.add_documents(Document(key, {"text": (text,)}) for key, text in DOCUMENTS.items())
    return engine


def found(engine: Engine, query: str) -> list[str]:
    return [hit.docid for hit in engine.search(query, searcher="lexical")]


def test_parts_and_compounds_find_each_other(engine: Engine) -> None:
    with engine:
        assert set(found(engine, "Tür")) == {"compound", "part"}
        assert found(engine, "Haustür")[0] == "compound"
        assert set(found(engine, "Haustür")) == {"compound", "part", "house"}


def test_a_sign_and_a_phrase_mean_the_whole_word(engine: Engine) -> None:
    with engine:
        assert set(found(engine, "Fluss Tür -Haustür")) == {"part", "house", "other"}
        assert found(engine, "+Haustür") == ["compound"]
        assert found(engine, '"Haustüren klemmen"') == ["compound"]


def test_the_part_that_matched_is_highlighted(engine: Engine) -> None:
    with engine:
        shown = engine.find(SearchRequest("Tür", searcher="lexical")).hits
        [hit] = [each for each in shown if each.hit.docid == "compound"]
        assert hit.snippet is not None
        marked = [hit.snippet.text[each.start : each.end] for each in hit.snippet.highlights]
        assert marked == ["türen"]


def test_a_grown_collection_equals_one_made_at_once(engine: Engine, tmp_path: Path) -> None:
    with engine, Engine.open(tmp_path / "other.quoth", settings=[SETTINGS]) as grown:
        for key, text in reversed(DOCUMENTS.items()):
            grown.add_documents([Document(key, {"text": (text,)}), Document("x", {"text": ("x",)})])
        grown.remove(["x"])
        for query in ("Tür", "Haustür im Winter", '"Haustüren klemmen"'):
            hits, again = (each.search(query, searcher="lexical") for each in (engine, grown))
            assert {hit.docid: pytest.approx(hit.score) for hit in hits} == {
                hit.docid: hit.score for hit in again
            }
        assert engine.verify().is_clean and grown.verify().is_clean


def test_the_list_is_kept_and_another_is_refused(engine: Engine, tmp_path: Path) -> None:
    engine.close()
    with Engine.open(tmp_path / "c.quoth") as again:
        assert set(found(again, "Tür")) == {"compound", "part"}
    other = {"analyser": {"language": "german", "compounds": ["boot"]}}
    with (
        Engine.open(tmp_path / "c.quoth", settings=[other]) as changed,
        pytest.raises(IndexMismatch, match=r"analyser\.compounds"),
    ):
        changed.add_documents([Document("new", {"text": ("neu",)})])
