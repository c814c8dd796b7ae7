"""What reranking is worth, tried on known items: the target is read without its query."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import closing
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from quoth.collection.store import Store
from quoth.engine import calibrating
from quoth.engine.calibrating import RerankingTrial, calibrate_fusion
from quoth.engine.models import LoadedModels
from quoth.records import Document, Hit, Part, Query, Run
from quoth.search.hybrid.calibration import Calibration
from quoth.search.hybrid.fusion_config import FusionConfig
from quoth.search.rerank import ReadPassage
from quoth.search.rerank_config import RerankConfig
from quoth.search.searcher import ignore_progress
from quoth.text.passages import PassageConfig, cut_document
from quoth.text.words import Analyser, AnalyserConfig

CUT = partial(cut_document, config=PassageConfig())


class Blind:
    """Finds all documents for every query, those with the least docids first."""

    name = "blind"

    def __init__(self, docids: Sequence[str]) -> None:
        self.docids = docids

    def search(self, queries: Sequence[Query], *, k: int, allowed: set[int] | None) -> Run:
        hits = tuple(Hit(docid, 1.0 - at / 100) for at, docid in enumerate(self.docids))[:k]
        return Run(self.name, {query.qid: hits for query in queries})

    def score(self, queries: Sequence[Query], documents: Sequence[Document]) -> tuple[float, ...]:
        return tuple(1.0 - self.docids.index(each.docid) / 100 for each in documents)

    def explain(
        self,
        query: Query,
        documents: Sequence[Document],
        *,
        k: int = 10,
        allowed: set[int] | None = None,
    ) -> tuple[Part, ...]:
        raise NotImplementedError

    def close(self) -> None:
        raise NotImplementedError


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with closing(Store.create(tmp_path / "c.quoth")) as made:
        documents = [
            Document(
                f"d{at:02}",
                {
                    "title": (f"owl{at} and raven{at} of barn{at}",),
                    "text": (f"Here owl{at} watches raven{at} asleep near barn{at} until dusk.",),
                },
            )
            for at in range(40)
        ]
        made.add(documents, cut=CUT)
        yield made


def _calibrate(store: Store, read: list[tuple[str, ReadPassage]]) -> Calibration:
    def score(queries: Sequence[str], passages: Sequence[ReadPassage]) -> list[float]:
        read.extend(zip(queries, passages, strict=True))
        words = (
            (set(query.split()), set(each.text.split())) for query, each in read[-len(queries) :]
        )
        return [16.0 * len(asked & held) for asked, held in words]

    def fetch(_query: Query, hits: Sequence[Hit]) -> list[ReadPassage]:
        found = (store.get(hit.docid) for hit in hits)
        return [
            ReadPassage(each.fields["title"][0], each.fields["text"][0]) for each in found if each
        ]

    def own(_query: Query, document: Document) -> ReadPassage:
        return ReadPassage("held out", document.fields["text"][0])

    trial = RerankingTrial(RerankConfig(depth=40), "m", 16.0, lambda: score, fetch, own)
    return calibrate_fusion(
        store,
        [Blind(store.all_docids())],
        analyser=Analyser(AnalyserConfig()),
        fusion=FusionConfig(normalise="none"),
        reranking=trial,
        seed=0,
        progress=ignore_progress,
    )


def test_a_reader_that_finds_the_targets_gains_a_share(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in (("LEAST_RERANKED", 20), ("DEPTH_RERANKED", 40), ("NUM_RERANKED", 100)):
        monkeypatch.setattr(calibrating, name, value)
    read: list[tuple[str, ReadPassage]] = []
    found = _calibrate(store, read).rerank
    assert found is not None and found.model == "m" and found.num_queries > 20
    assert found.scores["reranked"] > found.scores["first"]
    assert "held out" in {passage.title for _query, passage in read}
    assert found == _calibrate(store, []).rerank, "the same again"


def test_a_small_collection_reads_nothing_and_keeps_the_default(store: Store) -> None:
    read: list[tuple[str, ReadPassage]] = []
    found = _calibrate(store, read).rerank
    assert found is not None and found.share == RerankConfig().weight and read == []


class Heard(LoadedModels):
    """Voices that say the same of the same text, and what the slower one was asked about."""

    def __init__(self) -> None:
        super().__init__()
        self.asked: list[str] = []

    def reader(self, name: str) -> Any:
        assert name == "reader"
        return SimpleNamespace(
            score=lambda queries, texts, most: [len(each.text) for each in texts]
        )

    def generator(self, name: str) -> Any:
        def score(_queries: list[str], texts: list[str]) -> Any:
            self.asked += texts
            return np.array([-10.0 * len(each) for each in texts])

        return SimpleNamespace(score=score, likelihood_factor=0.4)


def read_all(score: Any, texts: dict[str, str]) -> list[float]:
    queries = [query for query, own in texts.items() for _text in own]
    found = score(queries, [ReadPassage("", text * at) for at, text in _counted(texts)])
    return [round(each, 6) for each in found]


def _counted(texts: dict[str, str]) -> list[tuple[int, str]]:
    """Return each letter with how often it is repeated: 1, 2, … for each query."""
    return [(at, text) for own in texts.values() for at, text in enumerate(own, start=1)]


def test_both_voices_are_added_up() -> None:
    score = Heard().reranker(RerankConfig(by="both", likelihood_factor=0.1))
    assert read_all(score, {"owl": "ab", "hen": "c"}) == [0.0, 0.0, 0.0]


def test_the_slower_voice_counts_for_as_much_as_suits_it() -> None:
    score = Heard().reranker(RerankConfig(by="both"))
    assert read_all(score, {"owl": "a"}) == [-3.0]


def test_the_slower_voice_is_asked_about_the_best_only() -> None:
    heard = Heard()
    score = heard.reranker(RerankConfig(by="both", likelihood_factor=0.5, likelihood_hits=2))
    found = read_all(score, {"owl": "abc", "hen": "d"})
    assert heard.asked == ["ccc", "bb", "d"]
    assert found == [1.0 - 15.0, 2.0 - 10.0, 3.0 - 15.0, 1.0 - 5.0]
