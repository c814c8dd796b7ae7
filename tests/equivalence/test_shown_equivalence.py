"""What is shown of hits is what the plain way of making it gives, for hundreds of real queries.

The reference is how snippets were cut before speed mattered: word by word over the analysed
passage, every stretch weighed, with no word looked up and no record shared.
"""

from __future__ import annotations

import math
import random
from collections.abc import Mapping, Sequence
from itertools import islice, pairwise
from pathlib import Path

import pytest

from quoth.engine.engine import Engine
from quoth.records import Document, Passage, Query, SearchRequest, ShownHit, Snippet, Span
from quoth.search.duplicates import group_hits
from quoth.search.snippets import make_snippet
from quoth.text.readers.config import ReaderConfig
from quoth.text.readers.reading import read_documents
from quoth.text.signatures import are_similar, make_signature, similarity
from quoth.text.words import Analyser, AnalyserConfig, Word

NUM_DOCUMENTS = 1_500
NUM_QUERIES = 400


def _docstrings() -> list[Document]:
    read = read_documents(["python:stdlib"], config=ReaderConfig(), report=lambda _problem: None)
    every = (located.document for located in read)
    return list(islice(every, 0, 4 * NUM_DOCUMENTS, 4))


def _queries(documents: Sequence[Document]) -> list[str]:
    """Take stretches of words from all over the documents."""
    chance, found = random.Random(7), []
    while len(found) < NUM_QUERIES:
        words = " ".join(chance.choice(documents).fields.get("text", ("",))).split()
        if words:
            start = chance.randrange(len(words))
            found.append(" ".join(words[start : start + chance.randint(1, 9)]))
    return found


@pytest.fixture(scope="module")
def documents() -> list[Document]:
    return _docstrings()


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory, documents: list[Document]) -> Path:
    folder = tmp_path_factory.mktemp("shown") / "docs.quoth"
    with Engine.open(folder) as engine:
        engine.add_documents(documents)
    return folder


def reference_snippet(
    passage: Passage, weights: Mapping[str, float], *, analyser: Analyser, max_chars: int
) -> Snippet:
    """Cut a snippet, weighing the stretch from every query word on."""
    words = [word for word in analyser.words(passage.text) if word.term in weights]
    start, end = 0, len(passage.text)
    if end > max_chars:
        first, last = _heaviest(words, weights, max_chars)
        start, end = _around(passage.text, first, last, max_chars)
    marks: list[tuple[int, int]] = []
    for word in words:
        if word.start < start or word.end > end:
            continue
        if marks and word.start - start < marks[-1][1]:
            marks[-1] = (marks[-1][0], max(marks[-1][1], word.end - start))
        else:
            marks.append((word.start - start, word.end - start))
    span = Span(passage.span.start + start, passage.span.start + end)
    return Snippet(passage.text[start:end], span, tuple(Span(*mark) for mark in marks))


def _heaviest(
    words: Sequence[Word], weights: Mapping[str, float], max_chars: int
) -> tuple[int, int]:
    best, best_weight = (0, 0), 0.0
    for at, first in enumerate(words):
        within = [word for word in words[at : at + 64] if word.end <= first.start + max_chars]
        weight = math.fsum(weights[term] for term in {word.term for word in within})
        if weight > best_weight:
            best, best_weight = (first.start, within[-1].end), weight
    return best


def _around(text: str, first: int, last: int, max_chars: int) -> tuple[int, int]:
    lead = max(0, first - max_chars // 6, last - max_chars)
    if lead > 0:
        space = text.find(" ", lead, first)
        lead = space + 1 if space >= 0 else first
    end = min(len(text), lead + max_chars)
    if end < len(text):
        space = text.rfind(" ", max(last, lead + max_chars // 2), end)
        end = space if space >= 0 else end
    return lead, end


@pytest.mark.parametrize("max_chars", [60, 240])
def test_snippets_and_highlights(folder: Path, documents: list[Document], max_chars: int) -> None:
    shown = 0
    with Engine.open(folder) as engine:
        analyser = Analyser(engine.config.analyser)
        for text in _queries(documents):
            request = SearchRequest(text, searcher="lexical", syntax=False, snippet_chars=max_chars)
            hits = engine.find(request).hits
            weights = engine._searchers.lexical(syntax=False).term_weights(Query("", text))
            for each in hits:
                assert each.hit.passage is not None
                assert each.snippet == reference_snippet(
                    each.hit.passage, weights, analyser=analyser, max_chars=max_chars
                ), (text, each.hit.docid)
            shown += len(hits)
    assert shown > 5 * NUM_QUERIES


def test_a_warm_engine_shows_what_a_fresh_one_does(folder: Path, documents: list[Document]) -> None:
    """Documents, rows, signatures and spans that were kept at hand change nothing."""
    queries = _queries(documents)[:60]

    def show(engine: Engine, text: str) -> tuple[ShownHit, ...]:
        return engine.find(SearchRequest(text, searcher="lexical")).hits

    with Engine.open(folder) as warm:
        for text in queries:
            show(warm, text)
        for text in queries:
            with Engine.open(folder) as fresh:
                assert show(warm, text) == show(fresh, text)


def test_explaining_changes_scores_alone(folder: Path, documents: list[Document]) -> None:
    with Engine.open(folder) as engine:
        for text in _queries(documents)[:40]:
            plain, told = (
                engine.find(SearchRequest(text, searcher="lexical", explain=explain)).hits
                for explain in (False, True)
            )
            for one, other in zip(plain, told, strict=True):
                assert other.explanation is not None and one.explanation is None
                assert other.hit.score == other.explanation.value
                assert other.found_by["lexical"].score == other.hit.score
                assert one.hit.score == pytest.approx(other.hit.score, rel=1e-5, abs=1e-5)
                for name in ("rank", "title", "metadata", "snippet", "signature", "also"):
                    assert getattr(one, name) == getattr(other, name)
                assert one.hit.passage == other.hit.passage
                assert one.found_by["lexical"].rank == other.found_by["lexical"].rank


@pytest.mark.parametrize("language", ["english", "german", "none"])
def test_words_are_placed_where_they_stand(language: str, documents: list[Document]) -> None:
    analyser = Analyser(AnalyserConfig(language))
    texts = [text for each in documents[:200] for text in each.fields.get("text", ())]
    texts += [
        "An owl's owl, owls'",
        "café owl Café owls",
        "東京へ owl 東京",
        "x owl" * 3,
        "'owl''owl'",
    ]
    for text in texts:
        every = list(analyser.words(text))
        wanted = {word.term for word in every[::3]} | {"owl", "东京", "東京", "cafe"}
        expected = [(word.start, word.end, word.term) for word in every if word.term in wanted]
        assert analyser.place(text, wanted) == expected


def test_similar_texts_are_those_of_that_similarity(documents: list[Document]) -> None:
    texts = [" ".join(each.fields.get("text", ())) for each in documents[:300]]
    made = [make_signature([text]) for text in texts]
    made += [make_signature([text[:-20]]) for text in texts]
    pairs = [(made[at], made[at + len(texts)]) for at in range(len(texts))]
    pairs += list(pairwise(made))
    for least in (0.1, 0.5, 0.9, 1.0):
        found = [are_similar(*pair, least=least) for pair in pairs]
        assert found == [similarity(*pair) >= least for pair in pairs]
        assert any(found) and not all(found)


def test_groups_are_those_of_comparing_all(folder: Path, documents: list[Document]) -> None:
    """Each hit joins the first group of its keys that is near enough; here all keys are tried."""
    with Engine.open(folder) as engine:
        for text in _queries(documents)[:80]:
            request = SearchRequest(text, k=50, searcher="lexical", distinct=True)
            together = engine.find(request).hits
            assert len({each.hit.docid for each in together}) == len(together)
            signatures = [each.signature for each in together]
            groups = group_hits([each.hit for each in together], signatures, least=0.9)
            assert [group.best for group in groups] == [each.hit for each in together]


def test_make_snippet_is_the_same_for_scripts_without_spaces() -> None:
    analyser = Analyser(AnalyserConfig())
    weights = dict.fromkeys(("東京", "京都", "owl"), 1.0)
    for text in ("東京都庁と京都 owl " * 30, "ÉCOLE owl café " * 40, "owl " * 200):
        passage = Passage("d", "text", Span(5, 5 + len(text)), text)
        for most in (10, 50, 240):
            expected = reference_snippet(passage, weights, analyser=analyser, max_chars=most)
            found = make_snippet(passage, weights, analyser=analyser, max_chars=most)
            assert found == expected
