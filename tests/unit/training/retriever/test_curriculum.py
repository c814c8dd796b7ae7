"""A curriculum's recipes, and what comes out: between the network before and after."""

from __future__ import annotations

import copy

import pytest
import torch

from quoth.errors import ConfigError
from quoth.models.glow.network import GlowNetwork
from quoth.settings.learn import LearnConfig
from quoth.training.recipes.rumbart import RumbartRecipe
from quoth.training.recipes.warm_up import WarmUpRecipe
from quoth.training.retriever.curriculum import Curriculum, blend


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
