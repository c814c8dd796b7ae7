"""Compiled search finds what scoring every document by its formula finds, with the same scores.

Not nearly: bit for bit, for any division into segments, with removed documents, several fields,
signs, restrictions and ties, and before and after segments are merged.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import corpora
import pytest

from quoth.engine.engine import Engine
from quoth.index.lexical.postings import Postings, PostingsEntry, open_segments, pack_numbers
from quoth.index.lexical.postings_writer import PostingsWriter
from quoth.index.lexical.query import Clause, LexicalQuery
from quoth.records import Query, SearchRequest
from quoth.search.lexical.by_postings import idf_by_view
from quoth.search.lexical.score import QueryStatistics, score
from quoth.vocabulary.term_counts import EVERYTHING, FieldTerms, join_terms, view_terms

pytest.importorskip("quoth.native", reason="without a compiler there is nothing to compare")

Documents = dict[int, FieldTerms]


class World:
    """Random documents under their rows, some of them removed, and postings of them."""

    def __init__(self, folder: Path, seed: int) -> None:
        self.chance = chance = random.Random(seed)
        self.folder = folder
        self.fields = [f"f{at}" for at in range(chance.choice([1, 2, 5]))]
        if chance.random() < 0.5:
            self.fields[-1] = "text"
        self.words = [f"w{at}" for at in range(chance.choice([5, 60, 900]))]
        count = chance.choice([1, 30, 700, 3000])
        self.live: Documents = {3 * at + 1: self._document() for at in range(count)}
        self.entry: PostingsEntry | None = None
        self._write()

    def _document(self) -> FieldTerms:
        chance = self.chance
        named = [field for field in self.fields if chance.random() < 0.8]
        return {
            field: [
                [self._word() for _each in range(chance.choice([0, 1, 4, 30]))]
                for _instance in range(chance.choice([1, 1, 2]))
            ]
            for field in (*named, *(["beyond"] if chance.random() < 0.1 else []))
        }

    def _word(self) -> str:
        place = int(self.chance.expovariate(1.0) * len(self.words) / 6)
        return self.words[min(place, len(self.words) - 1)]

    def _write(self) -> None:
        """Write the documents in several batches, and remove some of earlier ones in each."""
        rows, at = sorted(self.live), 0
        while at < len(rows):
            size = self.chance.choice([1, 40, 1500])
            writer = PostingsWriter(self.folder, self.fields, current=self.entry)
            doomed = [row for row in rows[:at] if row in self.live and self.chance.random() < 0.05]
            writer.remove(doomed)
            for row in doomed:
                del self.live[row]
            for row in rows[at : at + size]:
                writer.add_joined((row,), (join_terms(self.live[row]),))
            self.entry, _seals = writer.finish()
            at += size

    def statistics(self) -> QueryStatistics:
        """Count all documents."""
        frequencies: dict[str, dict[str, int]] = {view: {} for view in (*self.fields, EVERYTHING)}
        lengths = dict.fromkeys(frequencies, 0)
        for document in self.live.values():
            for view, terms in view_terms(document):
                if view in lengths:
                    lengths[view] += len(terms)
                    for term in set(terms):
                        frequencies[view][term] = frequencies[view].get(term, 0) + 1
        count = len(self.live)
        averages = {view: total / max(1, count) for view, total in lengths.items()}
        return QueryStatistics(count, averages, frequencies)

    def query(self) -> LexicalQuery:
        """Ask for some words, now and then with signs or in one field."""
        chance = self.chance
        clauses = []
        for _each in range(chance.choice([1, 2, 6, 14])):
            boosted = [(field, 0.3) for field in self.fields if chance.random() < 0.5]
            weights = ((EVERYTHING, 1.0), *boosted)
            if chance.random() < 0.2:
                weights = ((chance.choice(self.fields), 1.0),)
            term = "unknown" if chance.random() < 0.1 else self._word()
            sign = chance.choices(["should", "must", "must_not"], [90, 5, 5])[0]
            clauses.append(Clause((term,), weights, sign))
        return LexicalQuery(tuple(clauses))

    def best(
        self, query: LexicalQuery, k: int, allowed: set[int] | None, statistics: QueryStatistics
    ) -> list[tuple[int, float]]:
        """Score every document, and return the k best and all that tie with the last."""
        scored = [
            (row, score(query, document, statistics))
            for row, document in self.live.items()
            if (allowed is None or row in allowed) and _fits(query, document)
        ]
        ranked = sorted((each for each in scored if each[1] > 0), key=_by_score)
        last = ranked[k - 1][1] if len(ranked) >= k else 0.0
        return [each for each in ranked if each[1] >= last]


def _by_score(scored: tuple[int, float]) -> tuple[float, int]:
    return -scored[1], scored[0]


def _fits(query: LexicalQuery, document: FieldTerms) -> bool:
    views = dict(view_terms(document))
    held = [
        (clause.terms[0] in views.get(clause.view, ()), clause.occur) for clause in query.clauses
    ]
    return (True, "must_not") not in held and (False, "must") not in held


@pytest.mark.parametrize("seed", range(24))
def test_hits_and_scores_are_those_of_the_formula(tmp_path: Path, seed: int) -> None:
    world = World(tmp_path, seed)
    statistics = world.statistics()
    assert world.entry is not None
    postings = Postings(open_segments(tmp_path, world.entry), world.fields, has_gone=True)
    totals = (statistics.num_documents, statistics.average_lengths)
    asked = 0
    for _each in range(25):
        query, k = world.query(), world.chance.choice([1, 3, 10, 200])
        rows = sorted(world.live)
        is_restricted = world.chance.random() < 0.3
        allowed = set(world.chance.sample(rows, len(rows) // 3)) if is_restricted else None
        if not query.wanted or not postings.can_answer(query):
            continue
        idf = idf_by_view(query, statistics)
        found = postings.top_k(query, k, allowed=allowed, totals=totals, idf=idf)
        assert sorted(found, key=_by_score) == world.best(query, k, allowed, statistics)
        asked += 1
    assert asked > 10


def _segments_of(folder: Path, documents: Documents, sizes: Sequence[int]) -> Any:
    """Write the documents in batches of these sizes, again and again, and open them."""
    entry: PostingsEntry | None = None
    rows, at = sorted(documents), 0
    while at < len(rows):
        writer = PostingsWriter(folder, ["title", "text"], current=entry)
        for row in rows[at : at + sizes[at % len(sizes)]]:
            writer.add_joined((row,), (join_terms(documents[row]),))
        entry, _seals = writer.finish()
        at += sizes[at % len(sizes)]
    assert entry is not None
    return open_segments(folder, entry)


def test_the_digest_tells_content_and_not_how_it_is_divided(tmp_path: Path) -> None:
    documents: Documents = {
        row: {"title": [[f"t{row % 7}"]], "text": [["owl"] * (row % 400), [f"w{row % 90}"]]}
        for row in range(1, 2600)
    }
    whole = _segments_of(tmp_path / "a", documents, [3000]).digest()
    assert _segments_of(tmp_path / "b", documents, [1100, 1, 400]).digest() == whole
    documents[70] = {"title": [["t0"]], "text": [["owl"] * 70, ["w71"]]}
    assert _segments_of(tmp_path / "c", documents, [3000]).digest() != whole


def test_idf_follows_from_the_segments_where_nothing_is_gone(tmp_path: Path) -> None:
    chance = random.Random(5)
    documents: Documents = {
        row: {"title": [[f"w{chance.randrange(4)}"]], "text": [[f"w{chance.randrange(30)}"] * 3]}
        for row in range(1, 500)
    }
    postings = Postings(
        _segments_of(tmp_path, documents, [200, 20]), ["title", "text"], has_gone=False
    )
    weights = ((EVERYTHING, 1.0), ("title", 0.3), ("text", 0.5))
    query = LexicalQuery(tuple(Clause((f"w{at}",), weights) for at in range(6)))
    world = World.__new__(World)
    world.live, world.fields = documents, ["title", "text"]
    statistics = world.statistics()
    totals = (statistics.num_documents, statistics.average_lengths)
    own = postings.top_k(query, 20, allowed=None, totals=totals)
    assert sorted(own, key=_by_score) == world.best(query, 20, None, statistics)


# --- Through the product --------------------------------------------------------------------------

REQUESTS = ("t0 t1", "t3 t7 t12 t1", '"t0 t1" t2', "+t4 -t2 t5", "title:t1 t30", "-t1", "t2 t2 t9")


def _shown(folder: Path) -> Iterator[tuple[tuple[str, float], ...]]:
    with Engine.open(folder) as engine:
        for asked in REQUESTS:
            found = engine.find(SearchRequest(asked, k=30)).hits
            yield tuple((each.hit.docid, each.hit.score) for each in found)
        run = engine.run([Query("q", "t0 t5 t9")], k=60, where="size>3")
        yield tuple((hit.docid, hit.score) for hit in run.hits["q"])


@pytest.mark.parametrize("has_removed", [False, True])
def test_searches_with_and_without_them_agree(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, has_removed: bool
) -> None:
    chance = random.Random(8)
    folder = tmp_path / "c"
    with Engine.open(folder, settings=[{"lexical": {"compact_share": 1.0}}]) as engine:
        made = [
            corpora.as_document(f"d{at:03}", corpora.random_fields(chance, longest=60))
            for at in range(400)
        ]
        engine.add_documents(made[:300])
        engine.add_documents(made[300:])
        if has_removed:
            engine.remove([f"d{at:03}" for at in range(0, 400, 5)])
        assert engine.verify().is_clean
    with_postings = list(_shown(folder))
    monkeypatch.setattr(Postings, "open", classmethod(lambda *_arguments: None))
    without = list(_shown(folder))
    assert sum(map(len, with_postings)) > 100
    for found, other in zip(with_postings, without, strict=True):
        assert [docid for docid, _score in found] == [docid for docid, _score in other]
        scores = [score for _docid, score in other]
        assert [score for _docid, score in found] == pytest.approx(scores, rel=1e-5)


def test_numbers_stand_at_their_views() -> None:
    packed = memoryview(pack_numbers({"text": 2.0, "gone": 3.0}, {"text": 1, "*": 32}, -1.0))
    assert packed.cast("B").cast("d").tolist() == [-1.0, 2.0] + [-1.0] * 31
