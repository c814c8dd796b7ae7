"""Our ranking of short single-field documents is that of bm25s, an independent BM25.

bm25s's "lucene" method leaves out the constant factor k1 + 1 of the textbook formula, which changes
no ranking; it is put back here. Documents have at most 40 terms, so that lengths are kept exactly.
"""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import corpora
import pytest

from quoth.engine.engine import Engine
from quoth.records import Document, Query
from quoth.vocabulary.weighting import K1, B

bm25s: Any = pytest.importorskip("bm25s", reason='bm25s is not installed: pip install ".[bench]"')


@pytest.fixture(scope="module")
def texts() -> dict[str, list[str]]:
    chance = random.Random(2)
    return {f"d{n:03}": [*corpora.random_terms(chance, longest=39), "t0"] for n in range(300)}


@pytest.fixture(scope="module")
def queries() -> list[list[str]]:
    chance = random.Random(3)
    return [chance.sample(corpora.TERMS, chance.randint(1, 5)) for _ in range(40)]


def _scores_of_bm25s(
    texts: dict[str, list[str]], queries: list[list[str]]
) -> list[dict[str, float]]:
    retriever = bm25s.BM25(method="lucene", k1=K1, b=B)
    retriever.index(list(texts.values()), show_progress=False)
    return [
        {
            docid: float(score) * (K1 + 1.0)
            for docid, score in zip(texts, retriever.get_scores(query), strict=True)
            if score > 0
        }
        for query in queries
    ]


@pytest.mark.parametrize("with_dead", [False, True], ids=["clean", "with removed documents"])
def test_every_score_is_the_one_of_bm25s(
    tmp_path: Path, texts: dict[str, list[str]], queries: list[list[str]], with_dead: bool
) -> None:
    documents = [Document(docid, {"text": (" ".join(terms),)}) for docid, terms in texts.items()]
    expected = _scores_of_bm25s(texts, queries)
    with Engine.open(
        tmp_path / "c.quoth", settings=[{"lexical": {"compact_share": 1.0}}]
    ) as engine:
        if with_dead:
            gone = [Document(f"x{n}", {"text": ("t0 t1 t2 " * 40,)}) for n in range(100)]
            engine.add_documents([*documents[:100], *gone, *documents[100:]])
            engine.remove([each.docid for each in gone])
            assert engine.status()["indexes"]["lexical"]["removed_but_counted"] == len(gone)
        else:
            engine.add_documents(documents)
        asked = [Query(str(n), " ".join(terms)) for n, terms in enumerate(queries)]
        run = engine.run(asked, k=len(texts))
    for query, scores in zip(asked, expected, strict=True):
        found = {hit.docid: hit.score for hit in run.hits[query.qid]}
        assert found == pytest.approx(scores, rel=1e-5, abs=1e-6), query  # single precision
        ranked = [scores[hit.docid] for hit in run.hits[query.qid]]
        assert ranked == pytest.approx(sorted(scores.values(), reverse=True), rel=1e-5, abs=1e-6)


def test_the_lengths_are_short_enough_to_be_kept_exactly(texts: dict[str, list[str]]) -> None:
    assert max(map(len, texts.values())) == 40 and len({tuple(t) for t in texts.values()}) > 250
