"""The quick layers of bf16 inference against the plain ones."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from half_precision import needs_bf16
from tiny_encoder import save_tiny_encoder
from torch import nn

from quoth.models.glow.encoder import GlowEncoder
from quoth.models.glow.quick import QuickLinear, can_quicken, quicken

pytestmark = pytest.mark.skipif(not can_quicken(), reason="this torch has no oneDNN")


def plain_layer(activation: str, bias: bool) -> tuple[nn.Linear, torch.Tensor, torch.Tensor]:
    """Make a layer with what it is given and what it returns."""
    torch.manual_seed(0)
    layer = nn.Linear(24, 16, bias=bias)
    states = torch.randn(3, 5, 24)
    with torch.inference_mode():
        expected = layer(states)
        return layer, states, nn.functional.gelu(expected) if activation == "gelu" else expected


@pytest.mark.parametrize("activation", ["none", "gelu"])
@pytest.mark.parametrize("bias", [True, False])
def test_a_quick_layer_equals_the_plain_one(activation: str, bias: bool) -> None:
    layer, states, expected = plain_layer(activation, bias)
    with torch.inference_mode():
        found = QuickLinear(layer, activation=activation)(states)
        torch.testing.assert_close(found, expected, atol=1e-5, rtol=1e-5)


@needs_bf16
@pytest.mark.parametrize("activation", ["none", "gelu"])
@pytest.mark.parametrize("bias", [True, False])
def test_a_quick_layer_in_bf16_nearly_equals_the_plain_one(activation: str, bias: bool) -> None:
    layer, states, expected = plain_layer(activation, bias)
    with torch.inference_mode():
        half = QuickLinear(layer.bfloat16(), activation=activation)(states.bfloat16())
        torch.testing.assert_close(half.float(), expected, atol=5e-2, rtol=5e-2)


def test_a_quickened_encoder_gives_the_same_vectors(tmp_path: Path) -> None:
    base = str(save_tiny_encoder(tmp_path / "base"))
    plain, quick = (GlowEncoder.load(base, fast=False) for _ in range(2))
    quicken(quick.network.query_encoder, keeps_pooler=False)
    assert not any(type(each) is nn.Linear for each in quick.network.modules())
    texts = ["owl at night", "", "barn " * 40]
    expected = torch.from_numpy(plain.encode_queries(texts).vectors)
    found = torch.from_numpy(quick.encode_queries(texts).vectors)
    torch.testing.assert_close(found, expected, atol=1e-5, rtol=0)
