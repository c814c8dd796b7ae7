"""Fitting the reranker inside a learning: examples, judging, and who is used afterwards."""

from __future__ import annotations

from pathlib import Path

import pytest
from learning_worlds import copy_words, make_collection, make_documents, save_models
from tiny_reader import make_reader

from quoth.engine.engine import Engine
from quoth.jobs.job_folder import JobFolder
from quoth.jobs.learn import job, reranker
from quoth.jobs.learn.plan import LearnRequest
from quoth.jobs.report.words import by_how_much, headline, reasons
from quoth.models.query_generator.generator import QueryGenerator


@pytest.mark.parametrize("trains_encoder", [True, False])
def test_a_fitted_reranker_is_used_if_it_is_better(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, trains_encoder: bool
) -> None:
    encoder, generator = save_models(tmp_path)
    reader = make_reader(tmp_path / "tiny").folder
    collection = make_collection(tmp_path / "birds.quoth", make_documents(104))
    monkeypatch.setattr(QueryGenerator, "generate", copy_words)
    monkeypatch.setattr(reranker, "decide_reader", lambda *_scores: (True, "told so"))
    settings = {
        "dense": {"encoder": str(encoder)},
        "rerank": {"reader": str(reader), "max_subwords": 48},
        "learn": {
            "generator": str(generator),
            "method": "none" if trains_encoder else "auto",
            "queries_per_passage": 1,
            "warm_up_steps": 1,
            "reranker_steps": 1,
            "minutes": 120.0,  # so that the plan has room for it on any machine
            "judged_queries": 8,
            "device": "cpu",
        },
    }
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
