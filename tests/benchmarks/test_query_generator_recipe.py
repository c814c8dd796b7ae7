"""The recipe learns: a tiny generator knows eight queries by heart, stops in time, and resumes."""

from __future__ import annotations

import copy
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from benchmarks.query_generator.pack import is_held_out, load_pack, save_pack, writable
from benchmarks.query_generator.recipe import (
    QueryGeneratorRecipe,
    QueryPair,
    capped_rows,
    count_sources,
    fine_tune,
    held_out_rows,
    measure_held_out,
    split_documents,
    text_batches,
    tokenise_pairs,
    train_query_generator,
)
from half_precision import needs_bf16
from tiny_generator import CONFIG, make_generator, save_base, save_foreign
from transformers.utils import logging

from quoth.errors import ConfigError
from quoth.models.query_generator import generator as module
from quoth.models.query_generator.generator import QueryGenerator
from quoth.training.best_state import BestState

logging.disable_progress_bar()  # type: ignore[no-untyped-call]
CPU = torch.device("cpu")
PAIRS = [
    QueryPair("the barn owl hunts at night in the field", "owl at night", "birds"),
    QueryPair("a raven watches one hen among many", "raven and hen", "birds"),
    QueryPair("two birds sleep on the wing", "birds sleep", "birds"),
    QueryPair("swift on the wing at dusk", "swift at dusk", "birds"),
    QueryPair("one letter of many other words", "other words", "words"),
    QueryPair("here is the new word again", "new word", "words"),
    QueryPair("x is a letter in the field", "letter x", "words"),
    QueryPair("three mouse hunts in the barn", "three mouse hunt", "words"),
]
RECIPE = QueryGeneratorRecipe(
    steps=250, batch_size=8, learning_rate=5e-3, dropout=0.0, holdout=0.0, source_caps={}
)


@pytest.fixture(scope="module")
def start(tmp_path_factory: pytest.TempPathFactory) -> QueryGenerator:
    base = save_base(tmp_path_factory.mktemp("recipe") / "base")
    return QueryGenerator.start(str(base), config=CONFIG)


@pytest.fixture(scope="module")
def tuned(start: QueryGenerator) -> QueryGenerator:
    return fine_tune(start, PAIRS, RECIPE)[0]


def test_eight_queries_are_learnt_by_heart(start: QueryGenerator, tuned: QueryGenerator) -> None:
    passages = [pair.passage for pair in PAIRS]
    queries = [[pair.query] for pair in PAIRS]
    assert start.generate(passages, method="greedy") != queries
    assert tuned.generate(passages, method="greedy") == queries
    assert tuned.generate(passages, method="beam") == queries


@needs_bf16
def test_bf16_writes_what_fp32_writes(
    tuned: QueryGenerator, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tuned.save(tmp_path / "tuned", dtype="fp32")
    monkeypatch.setattr(module, "has_fast_bf16", lambda: True)
    fast = QueryGenerator.load(str(tmp_path / "tuned"))
    passages = [pair.passage for pair in PAIRS]
    assert fast.generate(passages, method="greedy") == tuned.generate(passages, method="greedy")
    with pytest.raises(ConfigError, match="bf16 cannot be trained; load it with fast=False"):
        fine_tune(fast, PAIRS, RECIPE)


def test_the_passage_is_used(tuned: QueryGenerator) -> None:
    loss = measure_held_out(
        tuned.network, tokenise_pairs(PAIRS, tuned.inputs), np.arange(len(PAIRS))
    )
    assert loss.own < 0.3 and loss.shuffled > loss.own + 2 and loss.num_pairs == 8


def test_the_generator_given_stays_as_it_was(start: QueryGenerator) -> None:
    before = {name: each.clone() for name, each in start.network.state_dict().items()}
    chance = torch.get_rng_state()
    tuned, _ = fine_tune(start, PAIRS, replace(RECIPE, steps=2, dropout=0.1))
    assert all(torch.equal(each, before[name]) for name, each in start.network.state_dict().items())
    assert torch.equal(torch.get_rng_state(), chance)
    encoder = [
        (name, each) for name, each in tuned.network.state_dict().items() if "encoder." in name
    ]
    assert encoder and all(torch.equal(each, before[name]) for name, each in encoder)
    assert tuned.identity()["digest"] != start.identity()["digest"]


def test_equal_seeds_give_equal_networks(start: QueryGenerator) -> None:
    recipe = replace(RECIPE, steps=3, dropout=0.2, label_smoothing=0.1, batch_size=4)
    first, second = (fine_tune(start, PAIRS, recipe)[0].identity() for _ in range(2))
    other, _ = fine_tune(start, PAIRS, replace(recipe, seed=1))
    assert first["digest"] == second["digest"] != other.identity()["digest"]


def test_the_encoder_is_trained_where_asked(tmp_path: Path) -> None:
    start = make_generator(tmp_path / "base", replace(CONFIG, train_encoder=True))
    tuned, _ = fine_tune(start, PAIRS, replace(RECIPE, steps=2))
    before, after = start.network.state_dict(), tuned.network.state_dict()
    name = "encoder.encoder.layer.0.attention.self.query.weight"
    assert not torch.equal(before[name], after[name])
    name = "encoder.embeddings.word_embeddings.weight"
    assert torch.equal(before[name], after[name])


def test_the_best_state_is_kept(start: QueryGenerator) -> None:
    pairs = tokenise_pairs(PAIRS, start.inputs)
    held_out = np.arange(8) >= 6
    recipe = replace(RECIPE, steps=40, validate_every=2, patience=3, batch_size=6)
    network, report = train_query_generator(
        start.network, pairs, recipe, device=CPU, held_out=held_out
    )
    scores = dict(report.training.validations)
    assert report.training.steps < 40, "eight words cannot be guessed: it must stop early"
    assert scores[report.best_step] == max(scores.values())
    assert report.best_step < report.training.steps
    own = measure_held_out(network, pairs, np.flatnonzero(held_out)).own
    assert own == pytest.approx(-max(scores.values()), abs=1e-5)
    assert report.held_out is not None and report.held_out.own == own
    assert report.pairs_by_source == {"birds": 4, "words": 2}


def test_an_interrupted_run_goes_on_as_if_it_had_not_been(
    start: QueryGenerator, tmp_path: Path
) -> None:
    pairs = tokenise_pairs(PAIRS, start.inputs)
    recipe = replace(RECIPE, steps=8, dropout=0.1, validate_every=2, batch_size=3, patience=0)
    held_out = np.arange(8) >= 6

    def run(until: int | None, folder: Path | None) -> torch.nn.Module:
        network, _ = train_query_generator(
            start.network,
            pairs,
            recipe,
            device=CPU,
            held_out=held_out,
            checkpoint=folder,
            until=until,
        )
        return network

    whole = run(None, None).state_dict()
    run(5, tmp_path)
    resumed = run(None, tmp_path).state_dict()
    assert all(torch.equal(each, resumed[name]) for name, each in whole.items())


def test_a_best_state_outlives_the_process(tmp_path: Path) -> None:
    model = torch.nn.Linear(2, 1)
    best = BestState(tmp_path / "best")
    best.offer(model, -1.0)
    kept = copy.deepcopy(model.state_dict())
    with torch.no_grad():
        model.weight += 1
    best.offer(model, -2.0)
    again = BestState(tmp_path / "best")
    assert again.best == (0, -1.0)
    again.restore(model)
    assert torch.equal(model.weight, kept["weight"])


def test_another_model_is_tuned_too(tmp_path: Path) -> None:
    start = QueryGenerator.load(str(save_foreign(tmp_path / "bart", "bart")))
    tuned, _ = fine_tune(start, PAIRS, replace(RECIPE, steps=40, learning_rate=3e-3))
    queries, passages = [p.query for p in PAIRS], [p.passage for p in PAIRS]
    assert tuned.score(queries, passages).mean() > start.score(queries, passages).mean() + 3


def test_documents_are_held_out_whole() -> None:
    rows = np.repeat(np.arange(100), 3)
    held_out = split_documents(rows, share=0.1, seed=0)
    assert held_out.sum() == 30 and len(set(rows[held_out])) == 10
    assert (split_documents(rows, share=0.1, seed=0) == held_out).all()
    assert not (split_documents(rows, share=0.1, seed=1) == held_out).all()
    some = held_out_rows(held_out, replace(RECIPE, max_held_out=7))
    assert len(some) == 7 and held_out[some].all()


def test_sources_are_capped(start: QueryGenerator) -> None:
    pairs = tokenise_pairs(PAIRS, start.inputs)
    recipe = replace(RECIPE, source_caps={"birds": 1, "fish": 5})
    rows = capped_rows(pairs, np.arange(1, 8), recipe)
    assert count_sources(pairs, rows) == {"birds": 1, "words": 4}
    assert set(rows) <= set(range(1, 8))


def test_pairs_become_the_batches_that_inputs_make(start: QueryGenerator) -> None:
    pairs = tokenise_pairs([*PAIRS, PAIRS[0]], start.inputs)
    assert len(pairs.documents) == 8 and len(pairs) == 9
    passages, queries = text_batches(pairs, np.array([8, 1]))
    texts = [PAIRS[0].passage, PAIRS[1].passage]
    expected = start.inputs.pad(start.inputs.passages(texts))
    assert torch.equal(passages.subword_ids, expected.subword_ids)
    assert torch.equal(passages.mask, expected.mask)
    expected = start.inputs.pad(start.inputs.queries([PAIRS[0].query, PAIRS[1].query]))
    assert torch.equal(queries.subword_ids, expected.subword_ids)
    with pytest.raises(ConfigError, match="no pairs to learn from"):
        tokenise_pairs([], start.inputs)


def test_a_pack_holds_the_pairs_it_was_given(start: QueryGenerator, tmp_path: Path) -> None:
    pairs = tokenise_pairs([*PAIRS, PAIRS[0]], start.inputs)
    held_out = np.arange(9) >= 7
    save_pack(tmp_path / "pack.bin", pairs, held_out, {"sources": list(pairs.sources)})
    found, split, facts = load_pack(tmp_path / "pack.bin")
    assert (split == held_out).all() and facts == {"sources": ["birds", "words"]}
    rows = np.array([8, 3, 0])
    for one, other in zip(text_batches(found, rows), text_batches(pairs, rows), strict=True):
        assert torch.equal(one.subword_ids, other.subword_ids)
        assert torch.equal(one.mask, other.mask)
    assert count_sources(found, np.arange(9)) == count_sources(pairs, np.arange(9))


def test_only_queries_that_can_be_written_are_packed(start: QueryGenerator) -> None:
    unfit = [QueryPair("owl", "owl " * 40), QueryPair("owl", ""), QueryPair("owl", "owl ☃")]
    assert writable([*unfit, *PAIRS], start.inputs, CONFIG) == PAIRS


def test_two_in_a_hundred_texts_are_held_out() -> None:
    share = np.mean([is_held_out(f"passage {at}") for at in range(5_000)])
    assert share == pytest.approx(0.02, abs=0.006)


def test_impossible_recipes_are_errors() -> None:
    with pytest.raises(ConfigError, match=r"batch_size is 0.*dropout is 1.*source_caps"):
        QueryGeneratorRecipe(batch_size=0, dropout=1.0, source_caps={"a": 0})
