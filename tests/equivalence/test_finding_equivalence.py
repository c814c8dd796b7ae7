"""Hits as they are shown are those of a search that explains and stems everything.

The reference ranks, explains every hit and orders by what the explanations add up to, and chooses
passages by analysing each of them; `find` does neither.
"""

from __future__ import annotations

import random
from collections import Counter
from typing import Any

import corpora
import pytest
from tiny_encoder import save_tiny_encoder

from quoth.engine.engine import Engine
from quoth.records import TITLES, Document, Hit, Passage, Query, SearchRequest
from quoth.text.passages import cut_document
from quoth.text.words import Analyser
from quoth.vocabulary.weighting import saturate

QUERIES = (
    "t0 t1",
    "t3 t7 t12 t1",
    '"t0 t1" t2',
    "+t4 -t2 t5",
    "title:t1 t30",
    "t39",
    "every",
    "every t0",
    "nothing",
    "",
)
SETTINGS: dict[str, Any] = {"lexical": {"compact_share": 1.0}, "passages": {"max_words": 20}}


def _documents(count: int, *, seed: int) -> list[Document]:
    """Make documents of which every third has the same words as another, in another order."""
    chance = random.Random(seed)
    made = [
        corpora.as_document(f"d{at:03}", corpora.random_fields(chance, longest=80))
        for at in range(count)
    ]
    for at in range(0, count - 1, 3):
        fields = dict(made[at].fields)
        words = fields["text"][0].split()
        chance.shuffle(words)
        fields["text"] = (" ".join(words),)
        made[at + 1] = Document(made[at + 1].docid, {**fields, "id": (made[at].docid,)})
    return [
        Document(
            each.docid,
            {**each.fields, "text": (f"{each.fields['text'][0]} every",)},
            {"year": 2000 + at % 5},
        )
        for at, each in enumerate(made)
    ]


@pytest.fixture(scope="module", params=["clean", "with removed documents"])
def engine(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Any:
    folder = tmp_path_factory.mktemp("finding")
    encoder = save_tiny_encoder(folder / "tiny")
    settings = [{**SETTINGS, "dense": {"encoder": str(encoder)}}]
    with Engine.open(folder / "c.quoth", settings=settings) as engine:
        engine.add_documents(_documents(120, seed=1))
        if request.param != "clean":
            engine.remove([f"d{at:03}" for at in range(0, 120, 7)])
            engine.add_documents(_documents(10, seed=2))
        engine.encode()
        yield engine


def _reference(
    engine: Engine, text: str, *, k: int, where: str = "", searcher: str = "lexical"
) -> list[Hit]:
    """Rank, explain every hit, and order by what explanations add up to."""
    run = engine.run([Query("", text)], k=k, where=where, searcher=searcher, syntax=True)
    docids = [hit.docid for hit in run.hits[""]]
    parts = engine.explain(text, docids, k=k, where=where, searcher=searcher)
    hits = [Hit(docid, part.value) for docid, part in zip(docids, parts, strict=True)]
    return sorted(hits, key=lambda hit: (-hit.score, hit.docid))


@pytest.mark.parametrize("where", ["", "year >= 2002"])
@pytest.mark.parametrize("searcher", ["lexical", "dense", "hybrid"])
def test_ranks_are_equal_and_scores_to_single_precision(
    engine: Engine, searcher: str, where: str
) -> None:
    for text in QUERIES:
        options: dict[str, Any] = {"where": where, "searcher": searcher}
        expected = _reference(engine, text, k=30, **options)
        found = engine.search(text, k=30, **options)
        assert [hit.docid for hit in found] == [hit.docid for hit in expected], text
        assert [hit.score for hit in found] == pytest.approx(
            [hit.score for hit in expected], rel=1e-6, abs=1e-6
        )


@pytest.mark.parametrize("searcher", ["lexical", "hybrid"])
def test_pages_put_together_are_the_whole(engine: Engine, searcher: str) -> None:
    for text in QUERIES[:4]:
        whole = engine.search(text, k=21, searcher=searcher)
        pages = [
            each
            for offset in range(0, 21, 3)
            for each in engine.search(text, k=3, offset=offset, searcher=searcher)
        ]
        if searcher == "lexical":
            assert [hit.docid for hit in pages] == [hit.docid for hit in whole], text
        assert len(pages) == len(whole)


def test_explanations_change_neither_hits_nor_order(engine: Engine) -> None:
    for text in QUERIES:
        plain = engine.find(SearchRequest(text, k=20)).hits
        told = engine.find(SearchRequest(text, k=20, explain=True)).hits
        assert [each.hit.docid for each in told] == [each.hit.docid for each in plain]
        assert [each.hit.passage for each in told] == [each.hit.passage for each in plain]
        assert all(each.explanation is None for each in plain)
        assert all(each.explanation and each.explanation.value == each.hit.score for each in told)


def test_passages_are_those_with_most_of_the_words(engine: Engine) -> None:
    analyser = Analyser(engine.config.analyser)
    for text in ("t0 t1", "t3 t7 t12 t1", "t39"):
        weights = engine._searchers.lexical(syntax=True).term_weights(Query("", text))

        def weigh(passage: Passage, weights: dict[str, float] = weights) -> float:
            terms = analyser.terms(passage.text)
            counts = Counter(term for term in terms if term in weights)
            matched = sum(weights[term] * saturate(tf, 1.0) for term, tf in counts.items())
            return matched * min(1.0, len(terms) / 10)

        for hit in engine.search(text, k=20, searcher="lexical"):
            every = cut_document(engine.document(hit.docid), config=engine.config.passages)
            fit = [each for each in every if each.field not in TITLES] or every
            assert hit.passage == max(fit, key=weigh)
