"""Weighted attention against a softmax written out with loops."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor

from quoth.models.attention import MODES, Merge, attend, attend_merged

B, H, T, D = 2, 3, 5, 4
WEIGHTED = ("row", "column", "add_log")


@pytest.fixture
def inputs() -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
    """Query, key, value, weights, and a mask that hides the end of the second sequence."""
    chance = torch.Generator().manual_seed(3)
    query, key, value = (torch.randn(B, H, T, D, generator=chance) for _ in range(3))
    weights = torch.rand(B, T, generator=chance) * 3 + 0.1
    mask = torch.ones(B, 1, T, T, dtype=torch.bool)
    mask[1, :, :, 3:] = False
    return query, key, value, weights, mask


def _weigh(mode: str, logit: float, own: float, looked_at: float) -> float:
    if mode == "row":
        return own * logit
    if mode == "column":
        return looked_at * logit
    return logit + (math.log(looked_at) if mode == "add_log" else 0.0)


def _by_hand(
    query: Tensor, key: Tensor, value: Tensor, *, weights: Tensor, mode: str, mask: Tensor
) -> Tensor:
    out = torch.zeros(B, H, T, D)
    for b in range(B):
        for h in range(H):
            for i in range(T):
                shares = []
                for j in range(T):
                    logit = sum(
                        float(query[b, h, i, d]) * float(key[b, h, j, d]) for d in range(D)
                    ) / math.sqrt(D)
                    logit = _weigh(mode, logit, float(weights[b, i]), float(weights[b, j]))
                    shares.append(math.exp(logit) if mask[b, 0, i, j] else 0.0)
                for d in range(D):
                    attended = sum(s * float(value[b, h, j, d]) for j, s in enumerate(shares))
                    out[b, h, i, d] = attended / sum(shares)
    return out


def _distributions(query: Tensor, key: Tensor, **options: object) -> Tensor:
    """Attend to one-hot values: what comes out is the attention itself, (B, H, T, T)."""
    eye = torch.eye(T).expand(B, H, T, T)
    return attend(query, key, eye, **options)  # type: ignore[arg-type]


@pytest.mark.parametrize("mode", (*WEIGHTED, "none"))
def test_each_mode_equals_the_formula(inputs: tuple[Tensor, ...], mode: str) -> None:
    query, key, value, weights, mask = inputs
    found = attend(query, key, value, weights=weights, mode=mode, mask=mask)
    expected = _by_hand(query, key, value, weights=weights, mode=mode, mask=mask)
    torch.testing.assert_close(found, expected, atol=1e-6, rtol=1e-5)


@pytest.mark.parametrize("mode", WEIGHTED)
def test_modes_differ_from_the_unweighted_network(inputs: tuple[Tensor, ...], mode: str) -> None:
    query, key, value, weights, mask = inputs
    plain = attend(query, key, value, weights=None, mode="none", mask=mask)
    found = attend(query, key, value, weights=weights, mode=mode, mask=mask)
    assert (found - plain).abs().max() > 1e-2


@pytest.mark.parametrize("mode", WEIGHTED)
def test_weights_of_one_change_nothing(inputs: tuple[Tensor, ...], mode: str) -> None:
    query, key, value, _weights, mask = inputs
    plain = attend(query, key, value, weights=None, mode="none", mask=mask)
    found = attend(query, key, value, weights=torch.ones(B, T), mode=mode, mask=mask)
    torch.testing.assert_close(found, plain, atol=1e-6, rtol=0)


def test_a_row_weight_changes_its_own_row_only(inputs: tuple[Tensor, ...]) -> None:
    query, key, _value, weights, mask = inputs
    before = _distributions(query, key, weights=weights, mode="row", mask=mask)
    heavier = weights.clone()
    heavier[:, 2] *= 3
    after = _distributions(query, key, weights=heavier, mode="row", mask=mask)
    changed = (after - before).abs().amax(dim=(0, 1, 3))
    assert changed[2] > 1e-3 and changed[[0, 1, 3, 4]].max() == 0


def test_a_column_weight_of_zero_is_a_logit_of_zero_not_an_attention_of_zero(
    inputs: tuple[Tensor, ...],
) -> None:
    query, key, _value, weights, _mask = inputs
    weights = weights.clone()
    weights[:, 1] = 0
    shares = _distributions(query, key, weights=weights, mode="column")
    logits = (query @ key.transpose(-1, -2) / math.sqrt(D)) * weights[:, None, None, :]
    expected = 1.0 / logits.exp().sum(-1)  # exp(0) over the sum
    torch.testing.assert_close(shares[..., 1], expected, atol=1e-6, rtol=1e-5)


def test_an_added_log_of_zero_is_almost_no_attention(inputs: tuple[Tensor, ...]) -> None:
    query, key, _value, weights, mask = inputs
    weights = weights.clone()
    weights[:, 1] = 0
    shares = _distributions(query, key, weights=weights, mode="add_log", mask=mask)
    assert torch.isfinite(shares).all() and shares[..., 1].max() < 1e-30


@pytest.mark.parametrize("mode", MODES)
def test_what_is_masked_stays_masked(inputs: tuple[Tensor, ...], mode: str) -> None:
    query, key, _value, weights, mask = inputs
    heavy = weights.clone()
    heavy[1, 3:] = 20.0
    if mode == "merge":
        shares = attend_merged(
            query,
            key,
            torch.eye(T).expand(B, H, T, T),
            weights=heavy,
            merge=Merge(),
            mask=mask,
            scale=D**-0.5,
            dropout=0.0,
        )
    else:
        shares = _distributions(query, key, weights=heavy, mode=mode, mask=mask)
    assert shares[1, :, :, 3:].max() == 0 and shares[0, :, :, 3:].min() > 0


@pytest.mark.parametrize("mode", WEIGHTED)
def test_no_gradient_reaches_the_weights(inputs: tuple[Tensor, ...], mode: str) -> None:
    query, key, value, weights, mask = inputs
    weights, query = weights.requires_grad_(), query.requires_grad_()
    attend(query, key, value, weights=weights, mode=mode, mask=mask).sum().backward()
    assert weights.grad is None and query.grad is not None and query.grad.abs().max() > 0


def test_an_unknown_mode_is_refused(inputs: tuple[Tensor, ...]) -> None:
    query, key, value, weights, _mask = inputs
    with pytest.raises(ValueError, match="no weighting mode 'rows'"):
        attend(query, key, value, weights=weights, mode="rows")


def test_merging_starts_as_the_unweighted_network_and_can_learn(
    inputs: tuple[Tensor, ...],
) -> None:
    query, key, value, weights, mask = inputs
    torch.manual_seed(0)
    merge = Merge()
    merged = attend_merged(
        query, key, value, weights=weights, merge=merge, mask=mask, scale=D**-0.5, dropout=0.0
    )
    plain = attend(query, key, value, weights=None, mode="none", mask=mask)
    torch.testing.assert_close(merged, plain, atol=1e-6, rtol=1e-5)
    merged.pow(2).sum().backward()
    assert merge.outer.weight.grad is not None and merge.outer.weight.grad.abs().max() > 0
