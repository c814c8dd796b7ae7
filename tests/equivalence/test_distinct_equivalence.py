"""Putting near-identical documents together gives what searching again and again would give.

The reference searches for the hits of a page, puts the same together, and searches for more until
the page is full. The engine looks further down one ranking: the query is encoded once, and its hits
are read once.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest
from tiny_encoder import save_tiny_encoder
from tiny_reader import make_reader

from quoth.engine.engine import Engine
from quoth.records import Document, RankAndScore, SearchRequest, ShownHit
from quoth.search.duplicates import group_hits
from quoth.search.rerank import RerankingSearcher
from quoth.shards.engine import ShardedEngine
from quoth.shards.split_and_merge import split_collection

LEAST = 0.8
AnyEngine = Engine | ShardedEngine
WORDS = ("owl", "barn", "night", "raven", "hen", "hunt", "sleep", "dusk", "mouse", "wing")


def _documents() -> Iterator[Document]:
    """Pages about owls, most of them in several places, some with a line more."""
    chance = random.Random(7)
    for page in range(30):
        words = chance.choices(WORDS, k=60) + [f"x{page}x{at}" for at in range(40)]
        chance.shuffle(words)
        for place in range(chance.choice((1, 1, 2, 3, 6))):
            text = f"The owl. {' '.join(words)}." + " Printed again." * (place % 2)
            yield Document(f"{place}/{page}", {"text": (text,)}, {"page": page})


@pytest.fixture(scope="module")
def engine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Engine]:
    folder = tmp_path_factory.mktemp("distinct")
    settings = {
        "dense": {"encoder": str(save_tiny_encoder(folder / "tiny"))},
        "rerank": {"reader": str(make_reader(folder).folder), "depth": 6, "late_interaction": 1.0},
        "fusion": {"depth": 40},
        "duplicates": {"similarity": LEAST},
    }
    with Engine.open(folder / "c.quoth", settings=[settings]) as opened:
        opened.add_documents(_documents())
        opened.encode()
        yield opened


@pytest.fixture(scope="module", params=["whole", "one shard", "three shards"])
def opened(
    request: pytest.FixtureRequest, engine: Engine, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[AnyEngine]:
    if request.param == "whole":
        yield engine
        return
    folder = tmp_path_factory.mktemp("shards") / "c.shards"
    split_collection(engine.folder, folder, count=1 if request.param == "one shard" else 3)
    with ShardedEngine.open(folder, settings=engine.given_settings) as sharded:
        sharded.encode()
        yield sharded


def _search_again(engine: AnyEngine, request: SearchRequest) -> list[ShownHit]:
    """Find what a page shows by searching for more until it is full, at most four times."""
    wide = replace(request, offset=0, k=request.reach, distinct=True)
    for _round in range(4):
        found = engine._find(wide, least=None).hits
        signatures = [each.signature for each in found]
        groups = group_hits([each.hit for each in found], signatures, least=LEAST)
        missing = request.reach - len(groups)
        if missing <= 0 or len(found) < wide.k:
            break
        wide = replace(wide, k=wide.k + 2 * missing)
    shown = {each.hit.docid: each for each in found}
    page = groups[request.offset : request.reach]
    return [
        replace(shown[each.best.docid], rank=rank, also=tuple(each.others))
        for rank, each in enumerate(page, start=request.offset + 1)
    ]


def _plain(shown: ShownHit) -> ShownHit:
    """Leave out what is not shown, and what depends on which hits are read together.

    Last digits do, and with them the order in which a reader has copies, which it reads alike.
    """
    sides = {
        name: RankAndScore(0 if name == "cross-encoder" else each.rank, round(each.score, 5))
        for name, each in shown.found_by.items()
    }
    hit = replace(shown.hit, score=round(shown.hit.score, 5))
    return replace(shown, signature=b"", hit=hit, found_by=sides)


@pytest.mark.parametrize("searcher", ["lexical", "dense", "hybrid", "reranked"])
@pytest.mark.parametrize(("k", "offset"), [(1, 0), (5, 0), (10, 0), (5, 10), (25, 0), (60, 0)])
def test_a_page_is_what_searching_again_finds(
    opened: AnyEngine, searcher: str, k: int, offset: int
) -> None:
    name, rerank = ("hybrid", True) if searcher == "reranked" else (searcher, False)
    for text in ("owl night", "hunt mouse at dusk", "x3x1 x4x2 owl"):
        request = SearchRequest(text, k=k, offset=offset, searcher=name, rerank=rerank)
        once, again = opened.find(request).hits, _search_again(opened, request)
        assert [_plain(each) for each in once] == [_plain(each) for each in again]
        assert k < 10 or any(each.also for each in once)


@pytest.mark.parametrize("searcher", ["lexical", "hybrid", "reranked"])
def test_conditions_and_explanations_are_those_of_searching_again(
    opened: AnyEngine, searcher: str
) -> None:
    name, rerank = ("hybrid", True) if searcher == "reranked" else (searcher, False)
    request = SearchRequest(
        "owl night", k=6, searcher=name, rerank=rerank, where="page < 20", explain=True
    )
    once, again = opened.find(request).hits, _search_again(opened, request)
    assert [_plain(each) for each in once] == [_plain(each) for each in again]
    assert any(each.also for each in once) and all(each.explanation for each in once)


def test_a_query_is_encoded_once_and_its_hits_are_read_once(
    opened: AnyEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    engines = opened._engines if isinstance(opened, ShardedEngine) else [opened]
    encoder: Any = engines[0].make_searchers(engines[0]._reader()).dense()._encoder
    encode, score, asked = encoder.encode_queries, RerankingSearcher._score_pairs, []
    searched: list[int] = []
    search = RerankingSearcher.search
    monkeypatch.setattr(
        encoder,
        "encode_queries",
        lambda texts, **named: asked.append(("encoded", *texts)) or encode(texts, **named),
    )
    monkeypatch.setattr(
        RerankingSearcher,
        "_score_pairs",
        lambda self, pairs: asked.append(("read", pairs[0].query)) or score(self, pairs),
    )
    monkeypatch.setattr(
        RerankingSearcher,
        "search",
        lambda self, queries, **named: (
            searched.append(named["k"]) or search(self, queries, **named)
        ),
    )
    text = "barn at dusk"
    request = SearchRequest(text, k=10, searcher="hybrid", rerank=True, where="page >= 0")
    found = opened.find(request)
    assert len(found.hits) == 10 and sum(len(each.also) for each in found.hits) > 4
    assert asked.count(("read", text)) == 1 and len(searched) == 1
    assert asked.count(("encoded", text)) == 1  # for all shards
