"""The mixture against sums written out, in float64."""

from __future__ import annotations

import math

import pytest
import torch

from quoth.training.retriever.mixture import (
    divergence,
    entropy,
    log_posterior,
    sequence_log_likelihoods,
    sequence_marginal,
    token_marginal,
)

B, K, L = 3, 4, 5


@pytest.fixture
def scores() -> torch.Tensor:
    return torch.randn(B, K, dtype=torch.float64, generator=torch.Generator().manual_seed(0))


@pytest.fixture
def token_log_probs() -> torch.Tensor:
    """Random, and 0 behind the end of the last two queries."""
    chance = torch.Generator().manual_seed(1)
    found = -3 * torch.rand(B, K, L, dtype=torch.float64, generator=chance)
    found[1, :, 3:] = 0.0
    found[2, :, 1:] = 0.0
    return found


def test_one_passage_writes_all(scores: torch.Tensor, token_log_probs: torch.Tensor) -> None:
    found = sequence_marginal(scores.log_softmax(-1), sequence_log_likelihoods(token_log_probs))
    for b in range(B):
        total = sum(math.exp(score) for score in scores[b].tolist())
        expected = sum(
            math.exp(scores[b, i].item())
            / total
            * math.prod(math.exp(x) for x in token_log_probs[b, i].tolist())
            for i in range(K)
        )
        assert found[b].item() == pytest.approx(math.log(expected), rel=1e-12)


def test_every_token_may_change_its_passage(
    scores: torch.Tensor, token_log_probs: torch.Tensor
) -> None:
    prior = scores.softmax(-1)
    found = token_marginal(prior.log(), token_log_probs)
    for b, length in enumerate((5, 3, 1)):
        expected = math.prod(
            sum(prior[b, i].item() * math.exp(token_log_probs[b, i, j].item()) for i in range(K))
            for j in range(length)
        )
        assert found[b].item() == pytest.approx(math.log(expected), rel=1e-12)
    one = sequence_marginal(prior.log(), sequence_log_likelihoods(token_log_probs))
    assert found[2].item() == pytest.approx(one[2].item(), rel=1e-12)  # one token: the same
    assert not torch.isclose(found[0], one[0])


@pytest.mark.parametrize("tempering", [1.0, 0.25])
def test_the_gradient_of_a_score_is_prior_less_posterior(
    scores: torch.Tensor, token_log_probs: torch.Tensor, tempering: float
) -> None:
    watched = scores.clone().requires_grad_()
    log_prior = watched.log_softmax(-1)
    likely = sequence_log_likelihoods(token_log_probs, tempering=tempering)
    (-sequence_marginal(log_prior, likely).sum()).backward()
    p = scores.softmax(-1)
    r = p * likely.exp()
    r = r / r.sum(-1, keepdim=True)
    torch.testing.assert_close(watched.grad, p - r)
    torch.testing.assert_close(log_posterior(log_prior, likely).exp().detach(), r)


def test_distillation_has_the_same_gradient_without_one_to_the_generator(
    scores: torch.Tensor, token_log_probs: torch.Tensor
) -> None:
    watched, tokens = scores.clone().requires_grad_(), token_log_probs.clone().requires_grad_()
    log_prior = watched.log_softmax(-1)
    posterior = log_posterior(log_prior, sequence_log_likelihoods(tokens))
    divergence(posterior, log_prior).sum().backward()
    torch.testing.assert_close(watched.grad, (scores.softmax(-1) - posterior.exp()).detach())
    assert tokens.grad is None


def test_lengths_give_the_mean_per_subword(token_log_probs: torch.Tensor) -> None:
    lengths = torch.tensor([5, 3, 1])
    found = sequence_log_likelihoods(token_log_probs, lengths=lengths, tempering=0.5)
    assert found[1, 2].item() == pytest.approx(0.5 * token_log_probs[1, 2, :3].mean().item())


def test_divergence_and_entropy_are_their_sums() -> None:
    p, r = torch.tensor([[0.7, 0.2, 0.1]]), torch.tensor([[0.1, 0.6, 0.3]])
    expected = 0.1 * math.log(0.1 / 0.7) + 0.6 * math.log(0.6 / 0.2) + 0.3 * math.log(0.3 / 0.1)
    assert divergence(r.log(), p.log()).item() == pytest.approx(expected, rel=1e-5)
    sharp = torch.tensor([[0.0, -math.inf]])
    assert entropy(sharp).item() == 0.0  # and not nan
