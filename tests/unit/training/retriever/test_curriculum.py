"""What comes out of a curriculum lies between the network before and after."""

from __future__ import annotations

import copy

import pytest
import torch

from quoth.errors import ConfigError
from quoth.models.glow.network import GlowNetwork
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
