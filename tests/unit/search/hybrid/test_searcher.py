"""Fusing searchers: scores explained, weights heeded, and nobody asked in vain."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pytest

from quoth.records import Document, Hit, Part, Query, Run
from quoth.search.hybrid.fusion_config import FusionConfig
from quoth.search.hybrid.searcher import HybridSearcher

QUERY = Query("q", "owl")


class Fixed:
    """A searcher whose hits are given."""

    def __init__(self, name: str, scores: Mapping[str, float]) -> None:
        self.name = name
        self.scores = scores
        self.asked: list[int] = []

    def search(self, queries: Sequence[Query], *, k: int, allowed: set[int] | None) -> Run:
        self.asked.append(k)
        ranked = sorted(self.scores.items(), key=lambda pair: (-pair[1], pair[0]))[:k]
        return Run(self.name, {q.qid: tuple(Hit(d, s) for d, s in ranked) for q in queries})

    def explain(
        self,
        query: Query,
        documents: Sequence[Document],
        *,
        k: int = 10,
        allowed: set[int] | None = None,
    ) -> tuple[Part, ...]:
        return tuple(Part(self.name, self.scores.get(each.docid, 0.0)) for each in documents)

    def close(self) -> None:
        raise AssertionError("whoever made it closes it")


LEXICAL = {f"d{at}": 20.0 - at for at in range(12)}
DENSE = {f"d{at}": 0.5 + (at * 7 % 13) / 40 for at in range(3, 16)}


def _hybrid(
    config: FusionConfig | None = None, *, dense: float = 0.25
) -> tuple[HybridSearcher, Fixed, Fixed]:
    sides = Fixed("lexical", LEXICAL), Fixed("dense", DENSE)
    weights = {"lexical": 1 - dense, "dense": dense}
    return HybridSearcher(sides, config=config or FusionConfig(), weights=weights), *sides


def _document(docid: str) -> Document:
    return Document(docid, {"text": ("owl",)})


def test_a_fused_score_is_the_weighted_sum_of_scaled_scores() -> None:
    hybrid, _lexical, _dense = _hybrid()
    run = hybrid.search([QUERY], k=100, allowed=None)
    assert run.name == "hybrid"
    found = {hit.docid: hit.score for hit in run.hits["q"]}
    low, high = min(DENSE.values()), max(DENSE.values())
    assert found["d5"] == pytest.approx(
        0.75 * (LEXICAL["d5"] - 9) / (20 - 9) + 0.25 * (DENSE["d5"] - low) / (high - low)
    )
    assert found["d1"] == pytest.approx(0.75 * (19 - 9) / 11)
    assert set(found) == LEXICAL.keys() | DENSE.keys()


@pytest.mark.parametrize("method", ["calibrated", "convex", "rrf"])
@pytest.mark.parametrize("normalise", ["min_max", "z_score", "none"])
@pytest.mark.parametrize("k", [1, 4, 100])
def test_explanations_add_up_to_the_fused_score(method: str, normalise: str, k: int) -> None:
    hybrid, _lexical, _dense = _hybrid(FusionConfig(method=method, normalise=normalise, depth=6))
    hits = hybrid.search([QUERY], k=k, allowed=None).hits["q"]
    parts = hybrid.explain(QUERY, [_document(hit.docid) for hit in hits], k=k)
    assert len(hits) >= min(k, 6)
    for hit, part in zip(hits, parts, strict=True):
        assert part.value == pytest.approx(hit.score, abs=1e-6)
        assert sum(each.value for each in part.parts) == pytest.approx(hit.score, abs=1e-6)
        assert [each.label.split(":")[0] for each in part.parts] == ["lexical", "dense"]


def test_searchers_are_asked_to_the_depth_or_to_k() -> None:
    hybrid, lexical, dense = _hybrid(FusionConfig(depth=6))
    hybrid.search([QUERY], k=2, allowed=None)
    hybrid.search([QUERY], k=9, allowed=None)
    assert lexical.asked == dense.asked == [6, 9]


def test_weights_of_one_and_zero_give_the_first_run_and_ask_nobody_else() -> None:
    hybrid, lexical, dense = _hybrid(dense=0.0)
    hits = hybrid.search([QUERY], k=100, allowed=None).hits["q"]
    assert [hit.docid for hit in hits] == list(LEXICAL)
    assert lexical.asked and not dense.asked
    (part,) = hybrid.explain(QUERY, [_document("d5")])
    assert part.value == pytest.approx(hits[5].score, abs=1e-6)
    assert part.parts[1].value == 0.0 and "rank" in part.parts[1].label  # it says what it found


def test_ranks_alone_need_every_searcher_whatever_its_weight() -> None:
    hybrid, _lexical, dense = _hybrid(FusionConfig(method="rrf"), dense=0.0)
    hits = hybrid.search([QUERY], k=100, allowed=None).hits["q"]
    ranks = {docid: rank for rank, (docid, _s) in enumerate(_ranked(DENSE), 1)}
    found = {hit.docid: hit.score for hit in hits}
    assert found["d3"] == pytest.approx(1 / (60 + 4) + 1 / (60 + ranks["d3"])) and dense.asked


def _ranked(scores: Mapping[str, float]) -> list[tuple[str, float]]:
    return sorted(scores.items(), key=lambda pair: (-pair[1], pair[0]))


def test_closing_leaves_the_searchers_open() -> None:
    _hybrid()[0].close()
