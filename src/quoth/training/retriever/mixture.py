"""How likely a query is under a mixture of passages (RUMBArt, as RAG-sequence and RAG-token). Pure.

With log p(z_i|x) the prior over K neighbours and ll_i = Σ_j log p(y_j | z_i, y_<j):
    sequence  log p(y|x) = logsumexp_i(log p(z_i|x) + ll_i)                one passage explains all
    token     log p(y|x) = Σ_j logsumexp_i(log p(z_i|x) + log p(y_j | …))  each token may change it
The gradient of −log p(y|x) with respect to the score of passage i is p_i − r_i, where r is the
posterior: the prior is pulled to what the query generator finds. Differences between ll_i are tens
of nats, so r is nearly one-hot; a tempering below 1 (ll_i · α) lets more than one passage speak.
"""

from __future__ import annotations

import torch
from torch import Tensor


def sequence_log_likelihoods(
    token_log_probs: Tensor,  # (B, K, L), 0 where padded
    *,
    tempering: float = 1.0,
    lengths: Tensor | None = None,  # (B,)
) -> Tensor:  # (B, K)
    """Add up the tokens of each passage's query; with lengths, take their mean.

    >>> sequence_log_likelihoods(torch.tensor([[[-1.0, -2.0]]]), tempering=0.5).tolist()
    [[-1.5]]
    """
    total = token_log_probs.sum(-1) * tempering
    return total if lengths is None else total / lengths[:, None].clamp_min(1)


def sequence_marginal(log_prior: Tensor, log_likelihoods: Tensor) -> Tensor:  # (B,)
    """Return the log-likelihood of each query where one passage writes all of it; (B, K) both.

    >>> half = torch.tensor([[0.5, 0.5]]).log()
    >>> found = sequence_marginal(half, torch.tensor([[0.2, 0.6]]).log())
    >>> round(found.exp().item(), 4)  # .5·.2 + .5·.6
    0.4
    """
    return torch.logsumexp(log_prior + log_likelihoods, dim=-1)


def token_marginal(
    log_prior: Tensor,  # (B, K)
    token_log_probs: Tensor,  # (B, K, L), 0 where padded
    *,
    tempering: float = 1.0,
) -> Tensor:  # (B,)
    """Return the log-likelihood of each query where every token may come from another passage.

    Padding adds nothing: its log-probability is 0 under every passage, and the prior sums to 1.
    """
    mixed = torch.logsumexp(log_prior[..., None] + tempering * token_log_probs, dim=1)
    return mixed.sum(-1)


def log_posterior(log_prior: Tensor, log_likelihoods: Tensor) -> Tensor:  # (B, K)
    """Return log p(z_i | x, y), with which the mixture says each passage wrote the query.

    >>> prior, likely = torch.tensor([[0.5, 0.5]]).log(), torch.tensor([[0.3, 0.1]]).log()
    >>> [round(each, 4) for each in log_posterior(prior, likely).exp()[0].tolist()]
    [0.75, 0.25]
    """
    return torch.log_softmax(log_prior + log_likelihoods, dim=-1)


def divergence(log_target: Tensor, log_prior: Tensor) -> Tensor:  # (B,)
    """Return KL(target ‖ prior), the target without gradient; its gradient is again p_i − r_i.

    >>> even = torch.tensor([[0.5, 0.5]]).log()
    >>> divergence(even, even).tolist()
    [0.0]
    """
    fixed = log_target.detach()
    return (fixed.exp() * (fixed - log_prior)).sum(-1)


def entropy(log_probs: Tensor) -> Tensor:  # (B,)
    """Return the entropy in nats.

    >>> round(entropy(torch.tensor([[0.5, 0.5]]).log()).item(), 4)  # ln 2
    0.6931
    """
    return -(log_probs.exp() * log_probs.clamp_min(-1e4)).sum(-1)
