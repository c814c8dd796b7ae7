"""Write queries under a mixture of passages, in the thesis' two ways.

`marginal_greedy` takes the likeliest next token of the mixture, step by step; the thesis found it
poor, since tokens of different passages get mixed. `candidates_per_passage` writes one query per
passage and `rescore_candidates` keeps the one that is likeliest under the whole mixture ("thorough
decoding" of RAG), which reads better. Candidates may also come from beams or samples.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from quoth.models.query_generator.network import QueryGeneratorNetwork, TextBatch
from quoth.training.retriever.mixture import sequence_log_likelihoods, sequence_marginal

Tokens = tuple[int, ...]
"""A query as it is generated: subwords up to the end symbol, which is the last one."""


class Mixture(NamedTuple):
    """K passages for each of B queries, as the query generator reads them."""

    states: Tensor  # (B, K, T, D)
    mask: Tensor  # (B, K, T)
    log_prior: Tensor  # (B, K)


class Rescored(NamedTuple):
    """A candidate and its log-likelihood under the mixture."""

    tokens: Tokens
    log_likelihood: float


@torch.no_grad()
def marginal_greedy(
    query_generator: QueryGeneratorNetwork,
    mixture: Mixture,
    *,
    start_id: int,
    end_id: int,
    max_subwords: int,
    marginal: str = "sequence",
) -> list[Tokens]:
    """Take the likeliest next token of each mixture until the end symbol, which is always written.

    With the marginal `sequence` the passages that explained what is written so far weigh more at
    the next step, as the mixture says; with `token` the prior stays.
    """
    count, k = mixture.log_prior.shape
    states, mask = mixture.states.flatten(0, 1), mixture.mask.flatten(0, 1)
    weights = mixture.log_prior.float()
    inputs = torch.full((count, 1), start_id, device=weights.device)
    is_open = torch.ones(count, dtype=torch.bool, device=weights.device)
    for length in range(1, max_subwords + 1):
        rows = inputs.repeat_interleave(k, dim=0)
        logits = query_generator.decode(rows, states, mask)[:, -1].float()
        log_probs = logits.log_softmax(-1).view(count, k, -1)  # (B, K, V)
        chosen = torch.logsumexp(weights[..., None] + log_probs, dim=1).argmax(-1)
        if length == max_subwords:
            chosen = torch.full_like(chosen, end_id)
        chosen = chosen.masked_fill(~is_open, end_id)
        if marginal == "sequence":
            own = log_probs.gather(2, chosen[:, None, None].expand(-1, k, 1)).squeeze(2)
            weights = torch.log_softmax(weights + own, dim=-1)
        inputs = torch.cat((inputs, chosen[:, None]), dim=1)
        is_open = is_open & (chosen != end_id)
        if not is_open.any():
            break
    return [_to_end(row, end_id) for row in inputs[:, 1:].tolist()]


def candidates_per_passage(
    query_generator: QueryGeneratorNetwork,
    mixture: Mixture,
    *,
    start_id: int,
    end_id: int,
    max_subwords: int,
) -> list[list[Tokens]]:
    """Write one query greedily from each passage alone; B lists of K."""
    count, k = mixture.log_prior.shape
    alone = Mixture(
        mixture.states.flatten(0, 1)[:, None],
        mixture.mask.flatten(0, 1)[:, None],
        torch.zeros((count * k, 1), device=mixture.log_prior.device),
    )
    found = marginal_greedy(
        query_generator, alone, start_id=start_id, end_id=end_id, max_subwords=max_subwords
    )
    return [found[at * k : (at + 1) * k] for at in range(count)]


@torch.no_grad()
def rescore_candidates(
    query_generator: QueryGeneratorNetwork,
    mixture: Mixture,
    candidates: Sequence[Sequence[Tokens]],  # of each query
) -> list[list[Rescored]]:
    """Score each query's distinct candidates under its whole mixture, best first."""
    ranked = []
    for at, own in enumerate(candidates):
        distinct = list(dict.fromkeys(own))
        targets = _pad(distinct, mixture.log_prior.device)
        k = mixture.log_prior.shape[1]
        wide = TextBatch(*(each.repeat_interleave(k, dim=0) for each in targets))
        many = len(distinct)
        log_probs = query_generator.log_probs(
            wide,
            mixture.states[at].repeat(many, 1, 1),
            mixture.mask[at].repeat(many, 1),
        ).float()
        likely = sequence_log_likelihoods(log_probs.view(many, k, -1))
        scores = sequence_marginal(mixture.log_prior[at].float().expand(many, k), likely).tolist()
        found = [Rescored(tokens, score) for tokens, score in zip(distinct, scores, strict=True)]
        ranked.append(sorted(found, key=lambda each: (-each.log_likelihood, each.tokens)))
    return ranked


def _to_end(tokens: Sequence[int], end_id: int) -> Tokens:
    """Cut after the first end symbol.

    >>> _to_end([7, 8, 3, 3], 3)
    (7, 8, 3)
    """
    return tuple(tokens[: tokens.index(end_id) + 1])


def _pad(candidates: Sequence[Tokens], device: torch.device) -> TextBatch:
    longest = max(map(len, candidates))
    ids = torch.tensor([[*each, *([0] * (longest - len(each)))] for each in candidates])
    mask = torch.tensor([[at < len(each) for at in range(longest)] for each in candidates])
    return TextBatch(ids, mask).to(device)
