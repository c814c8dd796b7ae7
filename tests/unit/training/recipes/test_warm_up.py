"""Warm-up: every type of negative, layout, similarity and size learns from pseudo-labels."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from tests.unit.training.passage_worlds import World, make_network

from quoth.errors import ConfigError
from quoth.training.recipes.warm_up import WarmUpPairs, WarmUpRecipe, train_warm_up
from quoth.training.retriever.contrast import in_batch_loss
from quoth.training.retriever.learning import LearningRun
from quoth.training.retriever.retriever import Retriever
from quoth.training.retriever.validation import held_out_mrr

RUN = LearningRun(torch.device("cpu"))
RECIPE = WarmUpRecipe(steps=40, batch_size=16, learning_rate=2e-3, dropout=0.0)


@pytest.fixture(scope="module")
def world() -> World:
    return World(wrong=0.0)


@pytest.mark.parametrize(
    "changed",
    [
        {},
        {"negatives": "random"},
        {"negatives": "bm25"},
        {"negatives": "labelled"},
        {"negatives": "retriever", "refresh_every": 10},
        {"layout": "one_of_n", "negatives": "random"},
        {"layout": "one_of_n", "negatives": "bm25"},
        {"layout": "one_of_n", "negatives": "labelled", "num_negatives": 2},
        {"similarity": "dot", "scale": 1.0},
        {"similarity": "l2", "scale": 1.0},
        {"projection": 64},
    ],
    ids=str,
)
def test_queries_find_their_passages_after_it(world: World, changed: dict[str, object]) -> None:
    recipe = replace(RECIPE, **changed)  # type: ignore[arg-type]
    judge = held_out_mrr(world.passage_set)
    before = judge(Retriever(make_network().eval(), similarity=recipe.similarity))
    learned = train_warm_up(make_network(), world.passage_set, recipe, RUN)
    assert before < 0.75
    assert judge(learned.retriever) > 0.9
    assert learned.report.training.steps == 40 and learned.report.stopped_because == ""


def test_the_loss_is_that_of_the_batch_written_out(world: World) -> None:
    own = world.passage_set
    retriever = Retriever(make_network().eval(), similarity="cosine")
    rows = np.array([1, 7, 13])
    found = WarmUpPairs(retriever, own, RECIPE)(rows, generator=torch.Generator())
    queries = retriever.encode_queries(own.query_batch(rows))
    passages = retriever.encode_passages(own.passage_batch(own.positive_rows[rows]))
    logits = 20.0 * queries @ passages.T
    expected = -torch.stack([logits[i].log_softmax(0)[i] for i in range(3)]).mean()
    torch.testing.assert_close(found, expected)


def test_hard_negatives_are_shared_by_all() -> None:
    scores = torch.tensor([[1.0, 0.2, 0.5, 0.1], [0.3, 0.9, 0.4, 0.6]])
    mask = torch.zeros(2, 4, dtype=torch.bool)
    mask[0, 3] = True  # excluded for the first query alone
    exps = (2.0 * scores).exp()
    expected = -0.5 * ((exps[0, 0] / exps[0, :3].sum()).log() + (exps[1, 1] / exps[1].sum()).log())
    torch.testing.assert_close(in_batch_loss(scores, mask, scale=2.0), expected)


def test_the_given_network_stays_as_it_was(world: World) -> None:
    network = make_network()
    before = {name: tensor.clone() for name, tensor in network.state_dict().items()}
    chance = torch.get_rng_state()
    train_warm_up(network, world.passage_set, replace(RECIPE, steps=2), RUN)
    assert all(torch.equal(tensor, before[name]) for name, tensor in network.state_dict().items())
    assert torch.equal(torch.get_rng_state(), chance)


def test_the_best_state_is_kept_and_both_are_reported(world: World, tmp_path: Path) -> None:
    scores = iter([0.1, 0.3, 0.8, 0.5, 0.4, 0.9])
    vectors = []

    def judge(retriever: Retriever) -> float:
        batch = world.passage_set.query_batch(np.array([0]))
        with torch.no_grad():
            vectors.append(retriever.encode_queries(batch))
        return next(scores)

    loop = replace(RECIPE.loop(), validate_every=2, patience=2)
    run = replace(RUN, loop=loop, validate=judge, checkpoint=tmp_path)
    learned = train_warm_up(make_network(), world.passage_set, RECIPE, run)
    assert learned.report.best == (4, 0.8) and learned.report.last == (8, 0.4)
    with torch.no_grad():
        found = learned.retriever.encode_queries(world.passage_set.query_batch(np.array([0])))
    torch.testing.assert_close(found, vectors[2])
    name = "retriever.network.query_encoder.embeddings.LayerNorm.bias"
    own = dict(learned.retriever.named_parameters(prefix="retriever"))
    assert not torch.equal(learned.last_state[name], own[name])
    assert (tmp_path / "best.safetensors").exists()


def test_a_run_that_helps_nothing_gives_back_its_start(world: World) -> None:
    scores = iter([0.9, 0.5, 0.4])
    loop = replace(RECIPE.loop(), steps=4, validate_every=2)
    run = replace(RUN, loop=loop, validate=lambda _retriever: next(scores))
    network = make_network()
    learned = train_warm_up(network, world.passage_set, RECIPE, run)
    assert learned.report.best == (0, 0.9) and learned.report.last == (4, 0.4)
    found = learned.network.state_dict()
    assert all(torch.equal(tensor, found[name]) for name, tensor in network.state_dict().items())


def test_the_last_step_is_judged_even_between_validations(world: World) -> None:
    scores = iter([0.1, 0.2])
    run = replace(RUN, validate=lambda _retriever: next(scores))
    recipe = replace(RECIPE, steps=3, validate_every=50)
    learned = train_warm_up(make_network(), world.passage_set, recipe, run)
    assert learned.report.best == learned.report.last == (3, 0.2)


def test_impossible_recipes_are_errors() -> None:
    with pytest.raises(ConfigError, match=r"similarity is 'cos'.*needs negatives"):
        WarmUpRecipe(similarity="cos", layout="one_of_n")
