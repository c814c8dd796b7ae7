"""A curriculum's recipes, and what comes out: between the network before and after."""

from __future__ import annotations

import copy
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from tests.unit.training.passage_worlds import World, make_network, make_writer

from quoth.errors import ConfigError
from quoth.models.glow.network import GlowNetwork
from quoth.settings.learn import LearnConfig
from quoth.training.recipes.rumbart import RumbartRecipe
from quoth.training.recipes.warm_up import WarmUpRecipe
from quoth.training.retriever.curriculum import Curriculum, CurriculumRun, blend, run_curriculum


@pytest.fixture
def before(base: torch.nn.Module) -> GlowNetwork:
    own = copy.deepcopy(base)
    return GlowNetwork(own, pooling="mean", weighting="none", separate=False)


@pytest.mark.parametrize("share", [0.25, 0.5])
def test_every_parameter_lies_between_at_the_share(before: GlowNetwork, share: float) -> None:
    after = copy.deepcopy(before)
    with torch.no_grad():
        for parameter in after.parameters():
            parameter.add_(1.0)
    mixed = blend(before, after, share=share)
    for own, old in zip(mixed.parameters(), before.parameters(), strict=True):
        torch.testing.assert_close(own, old + share)


def test_a_whole_share_gives_what_was_learned_and_changes_neither_network(
    before: GlowNetwork,
) -> None:
    after = copy.deepcopy(before)
    with torch.no_grad():
        for parameter in after.parameters():
            parameter.mul_(3.0)
    kept = [copy.deepcopy(network.state_dict()) for network in (before, after)]
    mixed = blend(before, after, share=1.0)
    for name, tensor in mixed.state_dict().items():
        torch.testing.assert_close(tensor, kept[1][name], rtol=0, atol=0)
    for network, old in zip((before, after), kept, strict=True):
        assert all(torch.equal(old[name], now) for name, now in network.state_dict().items())


@pytest.mark.parametrize("share", [0.0, -0.5, 1.5])
def test_a_share_outside_zero_to_one_is_refused(share: float) -> None:
    with pytest.raises(ConfigError, match="share is"):
        Curriculum(share=share)


def test_the_thesis_is_reached_by_dot_products_and_sums_over_tokens() -> None:
    thesis = Curriculum(method="rumbart", similarity="dot", marginal="token")
    joint, warm = thesis.joint(), thesis.warm_up()
    assert isinstance(joint, RumbartRecipe) and joint.marginal == "token"
    assert {warm.similarity, joint.similarity} == {"dot"}
    assert {warm.scale, joint.score_scale, joint.contrastive_scale} == {1.0}


def test_what_is_not_set_is_as_the_recipes_have_it() -> None:
    usual, learn = Curriculum(method="rumbart"), LearnConfig()
    joint, warm, plain = usual.joint(), usual.warm_up(), RumbartRecipe()
    assert isinstance(joint, RumbartRecipe) and joint.marginal == plain.marginal == learn.marginal
    assert joint.similarity == plain.similarity == warm.similarity == learn.similarity
    assert warm.scale == WarmUpRecipe().scale
    assert (joint.score_scale, joint.contrastive_scale) == (
        plain.score_scale,
        plain.contrastive_scale,
    )


def test_a_sum_over_tokens_needs_the_method_that_makes_it() -> None:
    with pytest.raises(ConfigError, match="marginal = token needs method = rumbart, found auto"):
        LearnConfig(marginal="token")


def test_a_generator_that_learned_too_comes_out_and_outlives_an_interruption(
    tmp_path: Path,
) -> None:
    world, writer = World(), make_writer()
    steps = {"warm_up_steps": 1, "steps": 2, "batch_size": 4, "warm_up_batch": 4, "k": 3}
    curriculum = Curriculum(method="rumbart", validations=1, learning_rate=1e-3, **steps)
    run = CurriculumRun(torch.device("cpu"), tmp_path, lambda *_told: None)
    first, again = (
        run_curriculum(make_network(), writer, world.passage_set, curriculum, run)
        for _ in range(2)  # the second finds both stages finished
    )
    assert first.query_generator is not None and again.query_generator is not None
    trained, opened = first.query_generator.state_dict(), again.query_generator.state_dict()
    assert all(torch.equal(each, opened[name]) for name, each in trained.items())
    frozen = replace(curriculum, method="distil")
    run = replace(run, folder=tmp_path / "frozen")
    made = run_curriculum(make_network(), writer, world.passage_set, frozen, run)
    assert made.query_generator is None
