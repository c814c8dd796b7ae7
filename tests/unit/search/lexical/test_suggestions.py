"""Corrections of words that no document has: the nearest of all, by brute force and as a user."""

from __future__ import annotations

import functools
import random
from pathlib import Path

import pytest
from commands import make_runner

from quoth import Engine
from quoth.records import Document, SearchRequest
from quoth.search.lexical.suggestions import correct_query, edit_distance
from quoth.shards.engine import ShardedEngine
from quoth.shards.split_and_merge import split_collection
from quoth.text.words import Analyser, AnalyserConfig

TEXTS = {
    "a": "Information retrieval finds documents for a query.",
    "b": "Retrieval of documents by vectors; owls are documents, too.",
    "c": "The Straßenbahn stops at the market.",
    "d": "Documental evidence.",
}


@functools.cache
def _distance(first: str, second: str) -> int:
    """Count edits by the definition, neighbours exchanged as one."""
    if not first or not second:
        return len(first) + len(second)
    found = min(
        _distance(first[1:], second) + 1,
        _distance(first, second[1:]) + 1,
        _distance(first[1:], second[1:]) + (first[0] != second[0]),
    )
    if len(first) > 1 and len(second) > 1 and first[:2] == second[1::-1]:
        found = min(found, _distance(first[2:], second[2:]) + 1)
    return found


def test_the_distance_is_that_of_its_definition() -> None:
    chance = random.Random(0)
    for _ in range(2_000):
        first, second = ("".join(chance.choices("abc", k=chance.randrange(7))) for _ in range(2))
        expected = _distance(first, second)
        for most in (1, 2, 3):
            assert edit_distance(first, second, most=most) == min(expected, most + 1)


def test_the_correction_is_the_best_of_all_terms() -> None:
    chance = random.Random(1)
    letters = "abcdef"
    terms = {
        "".join(chance.choices(letters, k=chance.randrange(4, 10))): chance.randrange(1, 500)
        for _ in range(3_000)
    }
    analyser = Analyser(AnalyserConfig(language="none"))

    def scan(first: str, shortest: int, longest: int) -> list[tuple[str, int]]:
        return [
            (term, count)
            for term, count in terms.items()
            if term.startswith(first) and shortest <= len(term) <= longest
        ]

    def look_up(wanted: object) -> dict[str, int]:
        return {each: terms[each] for each in wanted if each in terms}  # type: ignore[attr-defined]

    corrected = 0
    for _ in range(200):
        word = "".join(chance.choices(letters, k=chance.randrange(4, 10)))
        if word in terms:
            continue
        found = correct_query(word, [word], analyser=analyser, scan=scan, look_up=look_up)
        near = {term: edit_distance(word, term, most=1) for term in terms}
        one_away = [term for term, distance in near.items() if distance == 1]
        if one_away:
            corrected += 1
            rarest = min(edit_distance(word, found, most=2), 2)
            assert rarest == 1 or terms[found] > 99 * max(terms[term] for term in one_away) / 2
        if found:
            assert edit_distance(word, found, most=2) <= (2 if len(word) >= 7 else 1)
    assert corrected > 20


@pytest.fixture
def engine(tmp_path: Path) -> Engine:
    opened = Engine.open(tmp_path / "c.quoth")
    opened.add_documents(Document(docid, {"text": (text,)}) for docid, text in TEXTS.items())
    return opened


@pytest.mark.parametrize(
    ("typed", "meant"),
    [
        ("retreival", "retrieval"),
        ("information retreival systm", "information retrieval systm"),
        ("documnets about owls", "documents about owls"),  # "about" is near nothing
        ("-documnets retreival", "-documnets retrieval"),
        ("Strassenban", "strassenbahn"),
        ("etrieval", "retrieval"),
        ("owls", ""),
        ("zzzzzzz", ""),
        ("owx", ""),
        ("", ""),
    ],
)
def test_unknown_words_are_corrected(engine: Engine, typed: str, meant: str) -> None:
    with engine:
        assert engine.find(SearchRequest(typed)).suggestion == meant


def test_words_that_questions_are_made_of_are_no_typos(tmp_path: Path) -> None:
    with Engine.open(tmp_path / "hens.quoth") as engine:
        engine.add_documents([Document("a", {"text": ("Hens die near a wheel.",)})])
        assert engine.find(SearchRequest("Where does it lay")).suggestion == ""
        assert engine.find(SearchRequest("Does a wheell turn")).suggestion == "Does a wheel turn"


@pytest.mark.parametrize(
    ("typed", "meant"),
    [
        ("renewall", "renewal"),
        ("renewwing", "renewing"),
        ("Mülltone", "mülltonnen"),
        ("waschmaschinem", "waschmaschine"),
    ],
)
def test_corrections_are_written_as_documents_write_them(
    tmp_path: Path, typed: str, meant: str
) -> None:
    texts = ["The renewal of a passport.", "Renewing it takes weeks.", "Die Waschmaschine läuft."]
    with Engine.open(tmp_path / "written.quoth") as engine:
        engine.add_documents(
            Document(str(at), {"text": (text,)})
            for at, text in enumerate([*texts, "Mülltonnen werden geleert."])
        )
        assert engine.find(SearchRequest(typed)).suggestion == meant


def test_shards_offer_the_words_of_all(engine: Engine, tmp_path: Path) -> None:
    engine.close()
    split_collection(engine.folder, tmp_path / "s", count=3)
    with ShardedEngine.open(tmp_path / "s") as sharded:
        assert sharded.find(SearchRequest("retreival")).suggestion == "retrieval"
        assert sharded.find(SearchRequest("Strassenban")).suggestion == "strassenbahn"


def test_the_command_offers_and_takes_it(
    engine: Engine, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    engine.close()
    quoth = make_runner(monkeypatch, capsys)
    told = quoth("search", engine.folder, "retreival")
    assert told.out == "" and "did you mean: retrieval (--fix searches for it)" in told.err
    fixed = quoth("search", engine.folder, "retreival", "--fix", "--json")
    assert {each["docid"] for each in fixed.json()["hits"]} == {"a", "b"}
    assert quoth("search", engine.folder, "retreival", "--json").json()["did_you_mean"]
