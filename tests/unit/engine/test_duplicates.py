"""Near-identical documents are shown once, with their other places, in pieces and in shards."""

from __future__ import annotations

import contextlib
import random
import sqlite3
from pathlib import Path

import pytest

from quoth import Engine
from quoth.collection.store import FILE_NAME
from quoth.records import Document, Query, SearchRequest
from quoth.shards.engine import ShardedEngine
from quoth.shards.split_and_merge import split_collection
from quoth.wire.writing import search_response


def _page(number: int) -> str:
    chance = random.Random(number)
    return f"Page about owls, number{number}. " + " ".join(
        f"word{chance.randrange(1_000)}" for _ in range(100)
    )


PAGES = {
    **{f"a/{number}": _page(number) for number in range(4)},
    "b/0": _page(0),
    "c/0": _page(0).replace("word", "Word") + " Printed on Monday.",
    "b/2": _page(2),
    "short/1": "owls",
    "short/2": "owls",
}


@pytest.fixture
def engine(tmp_path: Path) -> Engine:
    opened = Engine.open(tmp_path / "c.quoth")
    opened.add_documents(Document(docid, {"text": (text,)}) for docid, text in PAGES.items())
    return opened


def _grouped(engine: Engine | ShardedEngine, **request: int) -> list[tuple[str, ...]]:
    found = engine.find(SearchRequest("owls", **request))  # type: ignore[arg-type]
    return [tuple(sorted((each.hit.docid, *each.also))) for each in found.hits]


SAME = {("a/0", "b/0", "c/0"), ("a/2", "b/2")}
ALONE = {("a/1",), ("a/3",), ("short/1",), ("short/2",)}


def test_the_same_page_is_shown_once(engine: Engine) -> None:
    with engine:
        assert set(_grouped(engine)) == SAME | ALONE
        found = engine.find(SearchRequest("owls"))
        assert [each.rank for each in found.hits] == [1, 2, 3, 4, 5, 6]
        body = search_response(SearchRequest("owls"), found)
        assert {tuple(sorted(each.also)) for each in body.hits if each.also} == {
            ("b/2",),
            ("b/0", "c/0"),
        }


def test_a_page_is_filled_and_pages_do_not_overlap(engine: Engine) -> None:
    with engine:
        best = [each.hit.docid for each in engine.find(SearchRequest("owls")).hits]
        assert [hit.docid for hit in engine.search("owls", k=2)] == best[:2]
        assert [hit.docid for hit in engine.search("owls", k=4, offset=2)] == best[2:]
        assert [len(engine.search("owls", k=k)) for k in (1, 4, 6)] == [1, 4, 6]


def test_the_best_of_a_group_keeps_its_score_and_place(engine: Engine) -> None:
    with engine:
        every = engine.find(SearchRequest("owls", distinct=False)).hits
        once = engine.find(SearchRequest("owls")).hits
        assert len(every) == len(PAGES) and all(each.also == () for each in every)
        scores = {each.hit.docid: each.hit.score for each in every}
        assert [each.hit.docid for each in every if each.hit.docid in {h.hit.docid for h in once}]
        assert all(each.hit.score == scores[each.hit.docid] for each in once)


def test_a_setting_turns_it_off_and_runs_are_unaffected(engine: Engine) -> None:
    with engine:
        run = engine.run([Query("q", "owls")])
        assert len(run.hits["q"]) == len(PAGES)
    off = {"duplicates": {"together": False}}
    with Engine.open(engine.folder, settings=[off]) as every:
        assert len(every.search("owls")) == len(PAGES)


def test_documents_from_before_there_were_signatures_are_recognised(engine: Engine) -> None:
    engine.close()
    with contextlib.closing(sqlite3.connect(engine.folder / FILE_NAME)) as database:
        database.execute("DROP TABLE signatures")
        database.commit()
    with Engine.open(engine.folder) as old:
        assert set(_grouped(old)) == SAME | ALONE
        old.add_documents([Document("d/0", {"text": (_page(0),)})])
        assert ("a/0", "b/0", "c/0", "d/0") in _grouped(old)
        old.remove(["d/0"])
        assert old.verify().is_clean


def test_shards_show_the_same(engine: Engine, tmp_path: Path) -> None:
    with engine:
        expected = _grouped(engine)
    split_collection(engine.folder, tmp_path / "s", count=3)
    with ShardedEngine.open(tmp_path / "s") as sharded:
        assert _grouped(sharded) == expected
        assert _grouped(sharded, k=9, offset=1) == expected[1:]
