"""Fitting the reranker inside a learning: examples, judging, and who is used afterwards."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from learning_worlds import copy_words, make_collection, make_documents, save_models
from tiny_reader import make_reader

from quoth.engine.engine import Engine
from quoth.jobs.job_folder import JobFolder
from quoth.jobs.learn import job, reranker
from quoth.jobs.learn.plan import LearnRequest
from quoth.jobs.learn.queries import Unit
from quoth.jobs.learn.reranker import familiarity
from quoth.jobs.report.words import by_how_much, headline, reasons
from quoth.models.query_generator.generator import QueryGenerator
from quoth.search.rerank import ReadPassage
from quoth.selfsupervision.pseudo_pairs import SourceText


def make_settings(folder: Path, **learn: Any) -> dict[str, Any]:
    """Return settings under which tiny models learn in seconds."""
    encoder, generator = save_models(folder)
    reader = make_reader(folder / "tiny").folder
    return {
        "dense": {"encoder": str(encoder)},
        "rerank": {"reader": str(reader), "max_subwords": 48},
        "learn": {
            "generator": str(generator),
            "queries_per_passage": 1,
            "warm_up_steps": 1,
            "reranker_steps": 1,
            "minutes": 120.0,  # so that the plan has room for it on any machine
            "judged_queries": 8,
            "device": "cpu",
            "reranker_familiar": 1e6,
            **learn,
        },
    }


@pytest.mark.parametrize("trains_encoder", [True, False])
def test_a_fitted_reranker_is_used_if_it_is_better(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, trains_encoder: bool
) -> None:
    collection = make_collection(tmp_path / "birds.quoth", make_documents(104))
    monkeypatch.setattr(QueryGenerator, "generate", copy_words)
    monkeypatch.setattr(reranker, "decide_reader", lambda *_scores: (True, "told so"))
    settings = make_settings(tmp_path, method="none" if trains_encoder else "auto")
    with Engine.open(collection, settings=[settings]) as engine:
        report = job.learn(engine, LearnRequest()).report
    assert report is not None and report.reranker_fitted and report.reranker_reason == "told so"
    told = " ".join([headline(report), *by_how_much(report), *reasons(report)])
    assert "uses the new reranker" in told and "Reranked search on" in told
    assert {each.searcher for each in report.quality} == (
        {"reranked", "lexical", "dense", "hybrid"} if trains_encoder else {"reranked"}
    )
    assert ("the encoder stays as it is" in told) is not trains_encoder
    found = JobFolder(collection / job.LEARNING).found("reranker")
    assert found["fitted"] and found["examples"] == 16, found
    assert set(found["scores"]) == {"before", "after"}
    fitted = collection / "models" / "learned-1-reader"
    with Engine.open(collection) as engine:
        assert engine.config.rerank.reader == str(fitted)


def test_a_reranker_that_knows_such_questions_is_left_as_it_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    collection = make_collection(tmp_path / "birds.quoth", make_documents(104))
    monkeypatch.setattr(QueryGenerator, "generate", copy_words)
    monkeypatch.setattr(reranker, "familiarity", lambda *_units, **_score: 5.25)
    settings = make_settings(tmp_path, method="auto", reranker_familiar=5.25)
    with Engine.open(collection, settings=[settings]) as engine:
        report = job.learn(engine, LearnRequest()).report
    assert report is not None and not report.reranker_fitted
    assert "median relevance of 5.2" in report.reranker_reason
    assert "the reranker stays as it is" in " ".join([headline(report), *reasons(report)])
    assert not (collection / "models" / "learned-1-reader").exists()


def test_familiarity_is_the_median_relevance_of_passages_for_their_own_queries() -> None:
    units = [Unit(f"d{at}", {}, SourceText(f"text {at}"), False) for at in range(4)]
    written = {0: ["query 0"], 1: [" ", "query 1"], 2: [" "], 3: ["query 3", "more"]}
    asked: list[tuple[str, str]] = []

    def score(queries: Sequence[str], passages: Sequence[ReadPassage]) -> list[float]:
        asked.extend(zip(queries, [each.text for each in passages], strict=True))
        return [float(each.text.split()[-1]) for each in passages]

    assert familiarity(units, written, score=score) == 1.0
    assert asked == [("query 0", "text 0"), ("query 1", "text 1"), ("query 3", "text 3")]
    assert familiarity(units, {2: [" "]}, score=score) == -math.inf
