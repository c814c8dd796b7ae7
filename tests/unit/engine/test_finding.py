"""The one path of a search: what is shown, from how many queries to SQLite."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tiny_encoder import save_tiny_encoder

from quoth.engine.engine import Engine
from quoth.records import Document, RankAndScore, SearchRequest
from quoth.server.monitoring.timings import StageTimes
from quoth.server.workers.models import share_engine

MOST_STATEMENTS = 12


@pytest.fixture(scope="module")
def engine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Engine]:
    folder = tmp_path_factory.mktemp("finding")
    settings = [{"dense": {"encoder": str(save_tiny_encoder(folder / "tiny"))}}]
    with Engine.open(folder / "birds.quoth", settings=settings) as engine:
        engine.add_documents(
            Document(
                f"bird-{at}",
                {"title": (f"Bird {at}",), "text": (f"owl {'night ' * at}hunts at dusk.",)},
                {"at": at},
            )
            for at in range(30)
        )
        engine.encode()
        yield engine


@pytest.fixture
def statements(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Every statement of every connection that is opened from now on."""
    told: list[str] = []
    connect = sqlite3.connect

    def connect_and_tell(*given: Any, **named: Any) -> sqlite3.Connection:
        connection = connect(*given, **named)
        connection.set_trace_callback(told.append)
        return connection

    monkeypatch.setattr(sqlite3, "connect", connect_and_tell)
    return told


@pytest.mark.parametrize("searcher", ["lexical", "dense", "hybrid", "auto"])
def test_a_served_search_asks_sqlite_little(
    engine: Engine, statements: list[str], searcher: str
) -> None:
    with share_engine(engine, StageTimes())() as worker:
        worker.find(SearchRequest("owl dusk", searcher=searcher))  # opens everything
        for text in ("owl at night", "hunts night", "owl at night"):
            statements.clear()
            found = worker.find(SearchRequest(text, searcher=searcher))
            assert len(found.hits) == 10
            assert 0 < len(statements) <= MOST_STATEMENTS, "\n".join(s[:150] for s in statements)


def test_more_hits_take_no_more_statements(engine: Engine, statements: list[str]) -> None:
    counts = []
    with share_engine(engine, StageTimes())() as worker:
        worker.find(SearchRequest("owl at night", k=30))
        for k in (5, 10, 30):  # with ties
            statements.clear()
            assert len(worker.find(SearchRequest("owl at night", k=k)).hits) == k
            counts.append(len(statements))
    assert len(set(counts)) == 1, counts


@pytest.mark.parametrize("searcher", ["lexical", "dense", "hybrid", "auto"])
def test_pages_in_several_places_take_few_statements_too(
    engine: Engine, statements: list[str], searcher: str, tmp_path: Path
) -> None:
    with Engine.open(tmp_path / "copies.quoth", settings=engine.given_settings) as copied:
        copied.add_documents(
            Document(
                f"{at}-{place}",
                {"text": ("owl at night " + " ".join(f"dusk{at}x{word}" for word in range(60)),)},
            )
            for at in range(20)
            for place in "abc"
        )
        copied.encode()
        with share_engine(copied, StageTimes())() as worker:
            worker.find(SearchRequest("owl dusk1x1", searcher=searcher))  # opens everything
            statements.clear()
            found = worker.find(SearchRequest("owl at night", searcher=searcher))
    assert len(found.hits) == 10 and all(len(each.also) == 2 for each in found.hits[:5])
    assert 0 < len(statements) <= MOST_STATEMENTS, "\n".join(s[:150] for s in statements)


def test_a_hit_comes_with_all_that_is_shown_of_it(engine: Engine) -> None:
    request = SearchRequest(
        "night", k=2, offset=1, where="at < 9", searcher="hybrid", explain=True, attention=True
    )
    found = engine.find(request)
    assert [each.rank for each in found.hits] == [2, 3] and found.unreachable == ()
    for each in found.hits:
        document = engine.document(each.hit.docid)
        assert each.title == document.fields["title"][0]
        assert each.metadata == document.metadata
        assert each.hit.passage is not None and each.snippet is not None
        assert each.snippet.text in each.hit.passage.text
        assert set(each.found_by) <= {"lexical", "dense"} and each.found_by
        assert each.explanation is not None and each.attention is not None
    plain = engine.find(SearchRequest("night", k=1, searcher="lexical", snippet_chars=0))
    (first,) = plain.hits
    assert (first.snippet, first.explanation, first.attention) == (None, None, None)
    assert first.found_by == {"lexical": RankAndScore(1, first.hit.score)}


@pytest.mark.parametrize("searcher", ["lexical", "dense", "hybrid"])
def test_a_title_is_not_shown_again_below_itself(engine: Engine, searcher: str) -> None:
    (bird,) = engine.find(SearchRequest("bird 7", k=1, searcher="lexical")).hits
    assert bird.title == "Bird 7"
    for each in engine.find(SearchRequest("bird 7", searcher=searcher)).hits:
        assert each.hit.passage is not None and each.hit.passage.field == "text"


def test_a_document_that_is_all_title_shows_it(tmp_path: Path) -> None:
    with Engine.open(tmp_path / "titles.quoth") as engine:
        engine.add_documents([Document("d", {"title": ("Barn owl",)})])
        (hit,) = engine.find(SearchRequest("owl")).hits
        assert hit.hit.passage is not None and hit.hit.passage.text == "Barn owl"


def test_sides_of_a_hybrid_are_asked_once(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    engine.find(SearchRequest("an owl", searcher="hybrid"))  # the first one opens the searchers
    sides = [engine._searchers.lexical(syntax=True), engine._searchers.dense()]
    asked: list[str] = []
    for side in sides:
        search = side.search

        def noting(*given: Any, search: Any = search, name: str = side.name, **named: Any) -> Any:
            asked.append(name)
            return search(*given, **named)

        monkeypatch.setattr(side, "search", noting)
    encode, encoded = sides[1]._encoder.encode_queries, []  # type: ignore[union-attr]
    monkeypatch.setattr(
        sides[1]._encoder,  # type: ignore[union-attr]
        "encode_queries",
        lambda texts, **named: encoded.extend(texts) or encode(texts, **named),
    )
    engine.find(SearchRequest("an owl that hunts", searcher="hybrid", explain=True))
    assert asked == ["lexical", "dense"] and encoded == ["an owl that hunts"]


def test_a_path_on_this_computer_is_not_told(engine: Engine, tmp_path: Path) -> None:
    with pytest.raises(Exception, match="there is no document 'swan'") as raised:
        engine.document("swan")
    assert str(engine.folder.parent) not in str(raised.value)
