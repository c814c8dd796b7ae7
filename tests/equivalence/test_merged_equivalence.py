"""Scores stay exact after tantivy merged segments that held removed documents.

Such a merge counts the lengths of the documents it keeps from their one-byte form, so tantivy's
mean length is no longer the true one although no removed document is counted any more.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path

import pytest

from quoth.engine.engine import Engine
from quoth.index.lexical.index import LexicalIndex
from quoth.records import Document, Query
from quoth.search.lexical.agreement import CountAgreement
from quoth.search.lexical.by_postings import PostingsRanking

ROUNDS = 8  # as many segments as tantivy merges into one
SETTINGS = [{"lexical": {"compact_share": 1.0}}]


def _document(name: str, chance: random.Random) -> Document:
    words = [f"w{int(chance.paretovariate(0.7))}" for _ in range(chance.randint(45, 400))]
    return Document(name, {"title": (" ".join(words[:7]),), "text": (" ".join(words),)})


@pytest.fixture(scope="module")
def kept() -> dict[str, Document]:
    return {}


@pytest.fixture(scope="module")
def merged(tmp_path_factory: pytest.TempPathFactory, kept: dict[str, Document]) -> Iterator[Engine]:
    """Return a collection whose segments were merged after some of their documents had gone."""
    chance = random.Random(5)
    folder = tmp_path_factory.mktemp("merged") / "c.quoth"
    with Engine.open(folder, settings=SETTINGS) as engine:
        for turn in range(ROUNDS):
            batch = [_document(f"d{turn}-{n}", chance) for n in range(9)]
            engine.add_documents(batch)
            kept.update({each.docid: each for each in batch})
            if turn < ROUNDS - 1:
                gone = chance.sample(sorted(kept), 2)
                engine.remove(gone)
                for docid in gone:
                    del kept[docid]
        yield engine


def _queries() -> list[Query]:
    chance = random.Random(6)
    texts = [" ".join(f"w{int(chance.paretovariate(0.7))}" for _ in range(4)) for _ in range(60)]
    return [Query(str(n), text) for n, text in enumerate(texts)]


def test_tantivy_merged_removed_documents_away(merged: Engine, kept: dict[str, Document]) -> None:
    index = LexicalIndex.open(merged.folder / "lexical")
    assert index is not None and index.num_dead == 0
    state = index.state("*", "w1")
    true = sum(len(each.fields["text"][0].split()) + 7 for each in kept.values()) / len(kept)
    assert state is not None and state.average_length != pytest.approx(true, rel=1e-4)


def test_scores_are_those_of_a_fresh_collection(
    merged: Engine, kept: dict[str, Document], tmp_path: Path
) -> None:
    with Engine.open(tmp_path / "fresh.quoth", settings=SETTINGS) as fresh:
        fresh.add_documents(kept.values())
        expected = fresh.run(_queries(), k=20)
    found = merged.run(_queries(), k=20)
    for qid, hits in expected.hits.items():
        assert [hit.docid for hit in found.hits[qid]] == [hit.docid for hit in hits]
        scores = [hit.score for hit in hits]
        assert [hit.score for hit in found.hits[qid]] == pytest.approx(scores, rel=1e-5)


def test_what_is_shown_has_the_score_that_explains_it(merged: Engine) -> None:
    for query in _queries()[:10]:
        hits = merged.search(query.text, k=5)
        for hit, part in zip(
            hits, merged.explain(query.text, [h.docid for h in hits]), strict=True
        ):
            assert hit.score == pytest.approx(part.value, rel=1e-5)


def test_verify_notices_scores_by_other_counts(
    merged: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert merged.verify().is_clean
    monkeypatch.setattr(PostingsRanking, "can_answer", lambda self, query: False)
    monkeypatch.setattr(CountAgreement, "holds", lambda self, query: True)
    assert any("scores" in problem for problem in merged.verify().indexes)
