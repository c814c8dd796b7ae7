"""Every engine keeps the same contract: in one piece, in shards, or served elsewhere."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from listening import listening
from tiny_language_model import save_language_model

import quoth
from quoth.collection.shards import create_shards
from quoth.engine.engine import Engine
from quoth.engine.protocol import SearchEngine
from quoth.errors import ConfigError, FilterError, NotFound
from quoth.records import Document, SearchRequest
from quoth.shards.engine import ShardedEngine

QUESTION = "When does the owl hunt?"
DOCUMENTS = [
    Document(
        f"bird-{at}",
        {"title": (f"Bird {at}",), "text": (f"The owl {'hunts ' * at}at dusk.", "It sleeps.")},
        {"year": 2000 + at, "tags": ("a", at)},
    )
    for at in range(12)
]


@pytest.fixture(scope="module")
def settings(tmp_path_factory: pytest.TempPathFactory) -> list[dict[str, Any]]:
    model = save_language_model(tmp_path_factory.mktemp("model") / "tiny")
    return [{"answer": {"model": str(model), "threshold": 1.0}}]


@pytest.fixture(scope="module", params=["local", "sharded", "remote"])
def engine(
    request: pytest.FixtureRequest,
    tmp_path_factory: pytest.TempPathFactory,
    settings: list[dict[str, Any]],
) -> Iterator[SearchEngine]:
    folder = tmp_path_factory.mktemp("engines") / "birds"
    opened = _OPENERS[request.param](folder, settings)
    engine = next(opened)
    assert engine.add_documents(DOCUMENTS).added == len(DOCUMENTS)
    yield engine
    opened.close()


def _open_local(folder: Path, settings: list[dict[str, Any]]) -> Iterator[SearchEngine]:
    with Engine.open(folder, settings=settings) as engine:
        yield engine


def _open_sharded(folder: Path, settings: list[dict[str, Any]]) -> Iterator[SearchEngine]:
    create_shards(folder, count=3)
    with ShardedEngine.open(folder, settings=settings) as engine:
        yield engine


def _open_remote(folder: Path, settings: list[dict[str, Any]]) -> Iterator[SearchEngine]:
    uvicorn = pytest.importorskip("uvicorn")
    server = pytest.importorskip("quoth.server.routes")
    with Engine.open(folder, settings=settings) as engine:
        app = server.create_app(engine, allow_writes=True)
        running = uvicorn.Server(uvicorn.Config(app, log_level="error"))
        with listening(running) as url, quoth.Client(url) as client:
            yield client


_OPENERS: dict[str, Any] = {
    "local": _open_local,
    "sharded": _open_sharded,
    "remote": _open_remote,
}


def test_hits_are_those_that_find_shows(engine: SearchEngine) -> None:
    request = SearchRequest("owl hunts", k=5, where="year >= 2003")
    found = engine.find(request)
    hits = engine.search("owl hunts", k=5, where="year >= 2003")
    assert tuple(each.hit for each in found.hits) == hits and len(hits) == 5
    assert found.searcher == "lexical" and found.unreachable == ()
    for rank, each in enumerate(found.hits, start=1):
        document = engine.document(each.hit.docid)
        assert (each.rank, each.title) == (rank, document.fields["title"][0])
        assert each.metadata == document.metadata and document in DOCUMENTS
        assert each.found_by["lexical"].rank == rank and each.explanation is None
        passage, snippet = each.hit.passage, each.snippet
        assert passage is not None and snippet is not None
        text = document.fields[passage.field][passage.instance]
        assert text[passage.span.start : passage.span.end] == passage.text
        assert text[snippet.span.start : snippet.span.end] == snippet.text
        assert snippet.highlights


def test_scores_fall_and_ties_are_broken_by_docid(engine: SearchEngine) -> None:
    hits = engine.search("owl", k=12)
    keys = [(-hit.score, hit.docid) for hit in hits]
    assert len(hits) == 12 and keys == sorted(keys)


def test_pages_put_together_are_the_whole(engine: SearchEngine) -> None:
    whole = engine.search("owl hunts dusk", k=9)
    pages = [hit for at in (0, 3, 6) for hit in engine.search("owl hunts dusk", k=3, offset=at)]
    assert tuple(pages) == whole


def test_the_best_searcher_may_be_left_to_the_collection(engine: SearchEngine) -> None:
    found = engine.find(SearchRequest("owl", searcher="auto"))
    assert found.searcher == "lexical" and found.hits


def test_explanations_add_up_to_the_scores_shown_with_them(engine: SearchEngine) -> None:
    found = engine.find(SearchRequest("owl hunts", explain=True, attention=True)).hits
    parts = engine.explain("owl hunts", [each.hit.docid for each in found])
    for each, part in zip(found, parts, strict=True):
        assert each.explanation is not None and each.attention is None  # there are no vectors
        assert each.hit.score == each.explanation.value == pytest.approx(part.value)
        assert sum(one.value for one in part.parts) == pytest.approx(part.value)


def test_what_is_not_there_is_said(engine: SearchEngine) -> None:
    with pytest.raises(NotFound, match="there is no document 'swan'"):
        engine.document("swan")
    with pytest.raises(NotFound, match="there is no document 'swan'"):
        engine.explain("owl", ["swan"])
    with pytest.raises(FilterError):
        engine.find(SearchRequest("owl", where="year >"))
    with pytest.raises(ConfigError):
        engine.ask("   ").answer()
    assert engine.remove(["swan"]) == ("swan",)


def test_what_is_written_is_found_and_what_is_removed_is_not(engine: SearchEngine) -> None:
    new = Document("stork", {"text": ("A stork stands.",)})
    assert engine.add_documents([new]).added == 1
    assert engine.add_documents([new]).unchanged == 1
    assert [hit.docid for hit in engine.search("stork")] == ["stork"]
    assert engine.document("stork") == new
    assert engine.remove(["stork", "swan"]) == ("swan",)
    assert engine.search("stork") == ()
    assert engine.status()["documents"] == len(DOCUMENTS)


def test_an_answer_comes_in_pieces_and_whole(engine: SearchEngine) -> None:
    asked = engine.ask(QUESTION, k=2)
    pieces = "".join(piece.text for piece in asked)
    answer = asked.answer()
    assert pieces.strip() == answer.text != "" and not answer.abstained
    assert engine.answer(QUESTION, k=2) == answer and len(answer.passages) == 2
    assert asked.notice  # this model has not learned to quote
    assert engine.answer(QUESTION, k=2, threshold=0.0).abstained
