"""Signs of a query hold for searchers that know none: vectors, and whatever is fused with them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest
from tiny_encoder import save_tiny_encoder

from quoth.engine.engine import Engine
from quoth.records import Document, Hit, Part, Query, Run, SearchRequest
from quoth.search.signed import SignedSearcher
from quoth.shards.engine import ShardedEngine
from quoth.shards.split_and_merge import split_collection

TEXTS = {
    "barn": "The barn owl hunts at dusk.",
    "night": "The night heron and the owl hunt by night.",
    "fee": "The fee for a passport is due.",
    "pass": "A passport is renewed by post.",
}
NAMES = ("dense", "hybrid")
QUERIES = {
    "passport -fee": {"barn", "night", "pass"},
    "+owl passport": {"barn", "night"},
    '"barn owl" heron': {"barn"},
    '-"barn owl" owl': {"night", "fee", "pass"},
    "+text:heron owl": {"night"},
    "owl +zebra": set(),
    "-owl": set(),
    "text:owl passport": set(TEXTS),
    "state-of-the-art owl": set(TEXTS),
}


@pytest.fixture(scope="module")
def engine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Engine]:
    folder = tmp_path_factory.mktemp("signed")
    settings = [{"dense": {"encoder": str(save_tiny_encoder(folder / "tiny"))}}]
    with Engine.open(folder / "c.quoth", settings=settings) as engine:
        engine.add_documents(Document(docid, {"text": (text,)}) for docid, text in TEXTS.items())
        engine.encode()
        yield engine


def find(engine: Engine | ShardedEngine, query: str, searcher: str, where: str = "") -> set[str]:
    found = engine.find(SearchRequest(query, searcher=searcher, where=where)).hits
    return {each.hit.docid for each in found}


@pytest.mark.parametrize("searcher", NAMES)
@pytest.mark.parametrize(("query", "fitting"), QUERIES.items())
def test_what_is_found_keeps_to_the_signs(
    engine: Engine, query: str, fitting: set[str], searcher: str
) -> None:
    assert find(engine, query, searcher) == fitting
    run = engine.run(
        [Query("a", "owl"), Query("b", query)], searcher=searcher, syntax=True, rerank=False
    )
    assert {hit.docid for hit in run.hits["b"]} == fitting
    assert {hit.docid for hit in run.hits["a"]} == set(TEXTS)


@pytest.mark.parametrize("searcher", NAMES)
def test_signs_are_words_where_they_mean_nothing(engine: Engine, searcher: str) -> None:
    found = engine.search("passport -fee", searcher=searcher, syntax=False)
    assert {hit.docid for hit in found} == set(TEXTS)


def test_signs_and_conditions_hold_together(engine: Engine) -> None:
    condition = 'text contains "passport"'
    assert find(engine, "passport -fee", "hybrid", where=condition) == {"pass"}


def test_words_that_must_not_occur_do_not_attract(engine: Engine) -> None:
    plain = engine.search("passport", searcher="dense", where='text contains "post"')
    signed = engine.search("passport -barn -heron", searcher="dense", where='text contains "post"')
    assert [hit.score for hit in signed] == [hit.score for hit in plain]


def test_explanations_add_up(engine: Engine) -> None:
    for searcher in NAMES:
        request = SearchRequest("passport -fee", searcher=searcher, explain=True)
        for each in engine.find(request).hits:
            assert each.explanation is not None
            assert each.explanation.value == pytest.approx(each.hit.score)


def test_shards_keep_to_the_signs_alike(engine: Engine, tmp_path: Path) -> None:
    split_collection(engine.folder, tmp_path / "s", count=2)
    settings = [{"dense": {"encoder": engine.config.dense.encoder}}]
    with ShardedEngine.open(tmp_path / "s", settings=settings) as sharded:
        for query, fitting in QUERIES.items():
            for searcher in NAMES:
                assert find(sharded, query, searcher) == fitting, (query, searcher)


class _Side:
    """A searcher that notes what it was asked."""

    name = "side"

    def __init__(self) -> None:
        self.asked: list[tuple[list[str], set[int] | None]] = []

    def search(self, queries: Sequence[Query], *, k: int, allowed: set[int] | None) -> Run:
        self.asked.append(([query.text for query in queries], allowed))
        return Run(self.name, {query.qid: (Hit(query.text, 1.0),) for query in queries})

    def explain(
        self,
        query: Query,
        documents: Sequence[Document],
        *,
        k: int = 10,
        allowed: set[int] | None = None,
    ) -> tuple[Part, ...]:
        return tuple(Part(query.text, 1.0) for _document in documents)

    def close(self) -> None: ...


def test_queries_without_signs_are_asked_together() -> None:
    side, rows = _Side(), {"b": {1, 2}, "d": set[int]()}
    signed = SignedSearcher(
        side,
        plain=lambda query: Query(query.qid, query.text.strip("+")),
        fitting=lambda query: rows.get(query.qid),
    )
    queries = [Query(qid, text) for qid, text in zip("abcd", ("owl", "+b", "c", "+d"), strict=True)]
    found = signed.search(queries, k=3, allowed={2, 3})
    assert side.asked == [(["owl", "c"], {2, 3}), (["b"], {2})]
    assert list(found.hits) == list("abcd") and found.hits["d"] == ()
    assert signed.explain(queries[1], [Document("x", {})]) == (Part("b", 1.0),)
    assert (signed.is_partial, signed.held_share, signed.lacking(["x"])) == (
        False,
        1.0,
        frozenset(),
    )
