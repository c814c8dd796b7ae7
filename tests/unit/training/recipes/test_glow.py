"""The recipe learns: a tiny network finds eight documents by heart under every weighting."""

from __future__ import annotations

import copy
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from tiny_encoder import make_tokenizer

from quoth.errors import ConfigError
from quoth.models.glow.config import GlowConfig
from quoth.models.glow.encoder import GlowEncoder
from quoth.models.glow.network import GlowNetwork, layer_stack
from quoth.training.recipes.glow import (
    GlowPairs,
    GlowRecipe,
    as_encoder,
    build_network,
    train_glow,
)
from quoth.training.retriever.training_set import TrainingSet

RECIPE = GlowRecipe(
    num_layers=2, steps=40, batch_size=8, learning_rate=5e-3, dropout=0.0, query_similarity=2.0
)
CPU = torch.device("cpu")


def num_found(network: GlowNetwork, pairs: TrainingSet) -> int:
    batch = pairs.batch(np.arange(8))
    with torch.inference_mode():
        cosines = (
            network.encode_queries(batch.queries) @ network.encode_documents(batch.documents).T
        )
    return int((cosines.argmax(1) == torch.arange(8)).sum())


@pytest.mark.parametrize("weighting", ["none", "row", "column", "add_log", "merge"])
def test_eight_pairs_are_learnt_by_heart(
    base: torch.nn.Module, pairs: TrainingSet, weighting: str
) -> None:
    recipe = replace(RECIPE, weighting=weighting)
    network, report = train_glow(base, pairs, recipe, device=CPU)
    assert num_found(build_network(base, recipe).eval(), pairs) < 8
    assert num_found(network, pairs) == 8
    assert report.losses[-1][1] < 0.05


@pytest.mark.parametrize(
    "others",
    [
        {"loss": "bce", "steps": 80, "learning_rate": 3e-3},
        {"towers": "separate"},
        {"start": "random", "pooling": "cls"},
        {"weighting": "row", "ramp_steps": 20},
    ],
    ids=["bce", "separate", "random", "ramped"],
)
def test_other_ways_learn_too(
    base: torch.nn.Module, pairs: TrainingSet, others: dict[str, object]
) -> None:
    network, _ = train_glow(base, pairs, replace(RECIPE, **others), device=CPU)  # type: ignore[arg-type]
    assert num_found(network, pairs) == 8


def test_the_line_starts_where_the_pairs_are(base: torch.nn.Module, pairs: TrainingSet) -> None:
    recipe = replace(RECIPE, loss="bce", towers="separate", pooling="cls")
    model = GlowPairs(build_network(base, recipe), recipe).eval()
    batch = pairs.batch(np.arange(8))
    model.centre_scorer(batch)
    with torch.no_grad():
        queries = model.network.encode_queries(batch.queries)
        cosines = queries @ model.network.encode_documents(batch.documents).T
        assert model.scorer is not None
        assert float(model.scorer(cosines).mean()) == pytest.approx(0.0, abs=1e-5)
        assert float(model.scorer.scale) == recipe.scorer_scale


def test_the_base_stays_as_it_was(base: torch.nn.Module, pairs: TrainingSet) -> None:
    before = {name: tensor.clone() for name, tensor in base.state_dict().items()}
    chance = torch.get_rng_state()
    train_glow(base, pairs, replace(RECIPE, steps=2), device=CPU)
    assert all(torch.equal(tensor, before[name]) for name, tensor in base.state_dict().items())
    assert torch.equal(torch.get_rng_state(), chance)


@pytest.mark.parametrize(("spread", "places"), [(False, [0, 1, 2]), (True, [0, 2, 5])])
def test_layers_are_kept_from_the_bottom_or_spread(
    base: torch.nn.Module, spread: bool, places: list[int]
) -> None:
    deep = copy.deepcopy(base)
    stack = layer_stack(deep)
    stack.layer = torch.nn.ModuleList([copy.deepcopy(stack.layer[0]) for _ in range(6)])
    for at, layer in enumerate(stack.layer):
        layer.output.dense.bias.data.fill_(at)
    network = build_network(deep, replace(RECIPE, num_layers=3, spread_layers=spread))
    kept = layer_stack(network.query_encoder).layer
    assert [int(layer.output.dense.bias[0]) for layer in kept] == places


def test_equal_seeds_give_equal_networks(base: torch.nn.Module, pairs: TrainingSet) -> None:
    recipe = replace(RECIPE, steps=3, dropout=0.1)
    first, second = (train_glow(base, pairs, recipe, device=CPU)[0] for _ in range(2))
    other, _ = train_glow(base, pairs, replace(recipe, seed=1), device=CPU)
    vectors = [
        network.encode_queries(pairs.batch(np.arange(8)).queries)
        for network in (first, second, other)
    ]
    assert torch.equal(vectors[0], vectors[1])
    assert not torch.equal(vectors[0], vectors[2])


def test_no_gradient_flows_into_the_weights(base: torch.nn.Module, pairs: TrainingSet) -> None:
    batch = pairs.batch(np.arange(8))
    for weighting in ("row", "column", "add_log", "merge"):
        recipe = replace(RECIPE, weighting=weighting)
        model = GlowPairs(build_network(base, recipe), recipe)
        weights = batch.documents.weights.clone().requires_grad_()
        watched = batch._replace(documents=batch.documents._replace(weights=weights))
        model(watched, strength=1.0, generator=torch.Generator()).backward()
        assert weights.grad is None


def test_a_trained_encoder_is_saved_and_loaded(
    base: torch.nn.Module, pairs: TrainingSet, tmp_path: Path
) -> None:
    network, _ = train_glow(base, pairs, replace(RECIPE, steps=2), device=CPU)
    config = GlowConfig(pooling="mean", max_subwords=32, max_query_subwords=32)
    as_encoder("glow-birds", network, make_tokenizer(), config).save(tmp_path / "glow")
    loaded = GlowEncoder.load(str(tmp_path / "glow"), fast=False)
    batch = pairs.batch(np.arange(8)).documents
    with torch.inference_mode():
        found, expected = loaded.network.encode_documents(batch), network.encode_documents(batch)
    torch.testing.assert_close(found, expected)


def test_impossible_recipes_are_errors() -> None:
    with pytest.raises(ConfigError, match=r"loss is 'hinge'.*batch_size is 1, expected at least 2"):
        GlowRecipe(loss="hinge", batch_size=1)
