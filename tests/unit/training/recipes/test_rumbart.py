"""RUMBArt: its loss written out, what it learns, what stops it, and that a killed run goes on."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from tests.unit.training.passage_worlds import (
    CopyGenerator,
    World,
    make_network,
    make_writer,
)

from quoth.errors import ConfigError
from quoth.models.glow.network import GlowNetwork
from quoth.training.loop import Progress
from quoth.training.recipes.rumbart import (
    RumbartModule,
    RumbartRecipe,
    train_rumbart,
)
from quoth.training.recipes.warm_up import WarmUpRecipe, train_warm_up
from quoth.training.retriever.learning import Learned, LearningRun
from quoth.training.retriever.monitors import NO_BOUNDS, Bounds
from quoth.training.retriever.neighbourhood import find_neighbours
from quoth.training.retriever.refresh import PassageIndex, encode_passages, encode_queries
from quoth.training.retriever.retriever import Retriever
from quoth.training.retriever.validation import held_out_mrr

RUN = LearningRun(torch.device("cpu"), bounds=NO_BOUNDS)
RECIPE = RumbartRecipe(
    steps=40,
    batch_size=16,
    k=6,
    learning_rate=1e-3,
    refresh_every=10,
    dropout=0.0,
    train_query_generator=False,
)


@pytest.fixture(scope="module")
def world() -> World:
    return World(wrong=0.5)


@pytest.fixture(scope="module")
def warm(world: World) -> GlowNetwork:
    recipe = WarmUpRecipe(steps=60, batch_size=16, learning_rate=2e-3, dropout=0.0)
    return train_warm_up(make_network(), world.passage_set, recipe, RUN).network


def truth(world: World, learned: Learned) -> float:
    """MRR of what the held-out queries are really about, which no recipe was told."""
    return held_out_mrr(world.passage_set, targets=world.truth)(learned.retriever)


def test_rebuilding_queries_mends_what_wrong_pseudo_labels_taught(
    world: World, warm: GlowNetwork
) -> None:
    """Half of BM25's labels are wrong: more contrast follows them, rebuilding finds the truth."""
    before = held_out_mrr(world.passage_set, targets=world.truth)(
        Retriever(warm, similarity="cosine")
    )
    learned = train_rumbart(warm, CopyGenerator(), world.passage_set, RECIPE, RUN)  # type: ignore[arg-type]
    control = train_rumbart(
        warm,
        CopyGenerator(),  # type: ignore[arg-type]
        world.passage_set,
        replace(RECIPE, reconstruction=0.0, contrastive=1.0),
        RUN,
    )
    assert truth(world, learned) > before + 0.05
    assert truth(world, learned) > truth(world, control) + 0.1
    assert [step for step, _ in learned.report.refreshes] == [1, 11, 21, 31]


@pytest.mark.parametrize(
    "changed",
    [
        {"tempering": 1.0, "contrastive": 0.0},
        {"objective": "distil_posterior"},
        {"marginal": "token"},
        {"per_subword": True, "tempering": 1.0},
        {"explore": 2, "exploration": "random"},
        {"similarity": "dot", "score_scale": 1.0, "contrastive_scale": 1.0},
    ],
    ids=str,
)
def test_the_other_ways_learn_too(
    world: World, warm: GlowNetwork, changed: dict[str, object]
) -> None:
    recipe = replace(RECIPE, **changed)  # type: ignore[arg-type]
    learned = train_rumbart(warm, CopyGenerator(), world.passage_set, recipe, RUN)  # type: ignore[arg-type]
    assert truth(world, learned) > 0.93


def make_module(world: World, recipe: RumbartRecipe) -> RumbartModule:
    retriever = Retriever(make_network().eval(), similarity=recipe.similarity)
    index = PassageIndex(30, 32)
    index.vectors.copy_(encode_passages(retriever, world.passage_set))
    return RumbartModule(
        retriever, make_writer().eval(), world.passage_set, recipe, index=index
    ).eval()


@pytest.mark.parametrize("marginal", ["sequence", "token"])
def test_the_loss_is_the_mixture_written_out(world: World, marginal: str) -> None:
    recipe = RumbartRecipe(k=3, contrastive=0.0, tempering=1.0, marginal=marginal)
    module, own = make_module(world, recipe), world.passage_set
    rows = np.array([1, 8, 9])
    found = module(rows, generator=torch.Generator())
    expected = []
    for row in rows:
        query = module.retriever.encode_queries(own.query_batch(np.array([row])))[0]
        cosines = encode_passages(module.retriever, own) @ query
        nearest = cosines.argsort(descending=True)[:3].numpy()
        prior = (20.0 * cosines[nearest]).softmax(0)
        tokens = []
        for passage in nearest:
            batch = own.passage_batch(np.array([passage]))
            states = module.query_generator.encode(batch)  # type: ignore[arg-type]
            targets = own.query_targets(np.array([row]))
            tokens.append(module.query_generator.log_probs(targets, states, batch.mask)[0])
        probs = torch.stack(tokens).exp()  # (K, L)
        whole = (prior * probs.prod(1)).sum()
        each = (prior[:, None] * probs).sum(0).prod()
        expected.append(-(whole if marginal == "sequence" else each).log())
    torch.testing.assert_close(found, torch.stack(expected).mean(), rtol=1e-4, atol=1e-4)


def test_both_models_get_a_gradient_and_a_frozen_one_none(world: World) -> None:
    rows = np.array([1, 8, 9])
    joint = make_module(world, RumbartRecipe(k=3, contrastive=0.0))
    joint(rows, generator=torch.Generator()).backward()
    assert any(p.grad is not None and p.grad.any() for p in joint.retriever.parameters())
    assert any(p.grad is not None and p.grad.any() for p in joint.query_generator.parameters())
    recipe = RumbartRecipe(
        k=3, contrastive=0.0, objective="distil_posterior", train_query_generator=False
    )
    frozen = make_module(world, recipe)
    frozen(rows, generator=torch.Generator()).backward()
    assert any(p.grad is not None and p.grad.any() for p in frozen.retriever.parameters())
    assert all(p.grad is None for p in frozen.query_generator.parameters())


def test_excluded_passages_are_never_read(world: World) -> None:
    own = world.passage_set
    module = make_module(world, RumbartRecipe(k=3, contrastive=0.0))
    rows = np.arange(len(own.queries))
    queries = encode_queries(module.retriever, own, rows)
    settings = {"k": 3, "similarity": "cosine"}
    assert module.index is not None
    before = find_neighbours(module.index, queries, own, rows, **settings)  # type: ignore[arg-type]
    apart = replace(own, excluded_rows=before[:, :2])
    after = find_neighbours(module.index, queries, apart, rows, **settings)  # type: ignore[arg-type]
    assert not (after[:, :, None] == before[:, None, :2]).any()
    assert (after[:, 0] == before[:, 2]).all()  # the next best moves up


def test_a_constant_encoder_is_stopped_and_nothing_is_lost(world: World) -> None:
    network = make_network()
    with torch.no_grad():
        network.query_encoder.embeddings.LayerNorm.weight.zero_()  # type: ignore[union-attr]
        network.query_encoder.embeddings.LayerNorm.bias.zero_()  # type: ignore[union-attr]
    run = replace(RUN, bounds=Bounds(window=64))
    recipe = replace(RECIPE, learning_rate=1e-9, k=4)
    learned = train_rumbart(network, CopyGenerator(), world.passage_set, recipe, run)  # type: ignore[arg-type]
    assert "queries find only 4 different passages of 30" in learned.report.stopped_because
    assert learned.report.training.steps == 4  # 64 queries
    assert learned.last_state and learned.report.health[0].largest_share == 1.0


def test_a_healthy_run_touches_no_bound(world: World, warm: GlowNetwork) -> None:
    run = replace(RUN, bounds=Bounds(window=160))
    learned = train_rumbart(warm, CopyGenerator(), world.passage_set, RECIPE, run)  # type: ignore[arg-type]
    assert learned.report.stopped_because == "" and len(learned.report.health) == 6
    last = learned.report.health[-1]
    assert last.over_random is not None and last.over_random > 1
    assert last.overlap is not None and last.overlap > 0.5


RESUMED = RumbartRecipe(
    steps=8,
    batch_size=8,
    k=4,
    learning_rate=1e-3,
    query_generator_learning_rate=1e-3,
    explore=1,
    exploration="random",
    refresh_every=3,
    dropout=0.1,
    watch_every=2,
)


def test_a_killed_run_goes_on_as_if_nothing_had_happened(world: World, tmp_path: Path) -> None:
    """It is killed between two checkpoints, with an index made before the last of them."""

    def kill(progress: Progress) -> None:
        if progress.step == 7:
            raise KeyboardInterrupt

    def learn(run: LearningRun) -> Learned:
        return train_rumbart(make_network(), make_writer(), world.passage_set, RESUMED, run)

    judge = held_out_mrr(world.passage_set)
    loop = replace(RESUMED.loop(), checkpoint_every=5, report_every=1, validate_every=4)
    whole = learn(replace(RUN, loop=loop, validate=judge))
    with pytest.raises(KeyboardInterrupt):
        learn(replace(RUN, loop=loop, validate=judge, checkpoint=tmp_path, progress=kill))
    resumed = learn(replace(RUN, loop=loop, validate=judge, checkpoint=tmp_path))
    assert resumed.report.training.steps == 8
    assert resumed.last_state.keys() == whole.last_state.keys()
    for name, tensor in whole.last_state.items():
        assert torch.equal(tensor, resumed.last_state[name]), name
    assert resumed.report.best == whole.report.best
    assert resumed.report.training.losses == whole.report.training.losses


def test_impossible_recipes_are_errors() -> None:
    with pytest.raises(ConfigError, match=r"rumbart recipe: .*marginal is 'both'"):
        RumbartRecipe(k=1, marginal="both")
    with pytest.raises(ConfigError, match="frozen model"):
        RumbartRecipe(objective="distil_posterior")
    with pytest.raises(ConfigError, match="nothing to learn"):
        RumbartRecipe(reconstruction=0.0, contrastive=0.0)
