"""Losses against their formulas, written out pair by pair."""

from __future__ import annotations

import math

import pytest
import torch
from torch.nn import functional

from quoth.training.retriever.losses import (
    PairScorer,
    bce_with_sampled_negatives,
    duplicate_mask,
    info_nce,
    sample_negatives,
)


def unit(*shape: int, seed: int = 0) -> torch.Tensor:
    generator = torch.Generator().manual_seed(seed)
    return functional.normalize(torch.randn(shape, generator=generator), dim=-1)


def seeded(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def log_sigmoid(x: float) -> float:
    return -math.log1p(math.exp(-x))


def test_bce_is_half_positives_and_half_hardest_negatives() -> None:
    queries, documents = unit(5, 8), unit(5, 8, seed=1)
    cosines = (queries @ documents.T).tolist()
    a, b = 7.0, -1.5
    own = [log_sigmoid(a * cosines[i][i] + b) for i in range(5)]
    hardest = [max(cosines[i][j] for j in range(5) if j != i) for i in range(5)]
    others = [log_sigmoid(-(a * cosine + b)) for cosine in hardest]
    loss = bce_with_sampled_negatives(
        queries,
        documents,
        scale=torch.tensor(a),
        bias=torch.tensor(b),
        temperature=1e6,
        generator=seeded(),
    )
    assert loss.item() == pytest.approx(-0.5 * sum(own) / 5 - 0.5 * sum(others) / 5, rel=1e-5)


def test_bce_takes_labels_of_the_given_pairs() -> None:
    queries, documents = unit(3, 8), unit(3, 8, seed=1)
    settings = {"scale": torch.tensor(2.0), "bias": torch.tensor(0.5), "temperature": 1e6}
    labels = torch.tensor([1.0, 0.0, 1.0])
    logits = 2.0 * (queries * documents).sum(1) + 0.5
    plain = bce_with_sampled_negatives(queries, documents, **settings, generator=seeded())
    labelled = bce_with_sampled_negatives(
        queries, documents, **settings, generator=seeded(), labels=labels
    )
    expected = 0.5 * logits[1] / 3  # log(1 + e^x) - log(1 + e^-x) = x, for the pair of label 0
    assert (labelled - plain).item() == pytest.approx(expected.item(), rel=1e-4)


def test_negatives_are_drawn_from_the_softmax_of_those_not_masked() -> None:
    cosines = torch.tensor([[0.9, 0.5, 0.2, 0.4]]).repeat(20_000, 1)
    mask = torch.tensor([[True, False, False, True]]).repeat(20_000, 1)
    drawn = sample_negatives(cosines, mask=mask, temperature=3.0, generator=seeded())
    shares = torch.bincount(drawn, minlength=4) / 20_000
    expected = torch.tensor([1.5, 0.6]).softmax(0)
    assert shares[[0, 3]].tolist() == [0.0, 0.0]
    assert shares[[1, 2]].tolist() == pytest.approx(expected.tolist(), abs=0.015)


def test_alike_queries_and_equal_documents_are_no_negatives() -> None:
    queries = functional.normalize(torch.tensor([[1.0, 0.0], [1.0, 0.1], [0.0, 1.0]]), dim=-1)
    assert duplicate_mask(queries).int().tolist() == [[1, 1, 0], [1, 1, 0], [0, 0, 1]]
    ids = torch.tensor([4, 5, 4])
    assert duplicate_mask(queries, document_ids=ids).int().tolist() == [
        [1, 1, 1],
        [1, 1, 0],
        [1, 0, 1],
    ]


def test_a_query_without_any_negative_counts_only_its_own_pair() -> None:
    queries = unit(1, 4).repeat(3, 1)
    documents = unit(3, 4, seed=1)
    loss = bce_with_sampled_negatives(
        queries,
        documents,
        scale=torch.tensor(1.0),
        bias=torch.tensor(0.0),
        temperature=10.0,
        generator=seeded(),
    )
    own = [-log_sigmoid(cosine) for cosine in (queries * documents).sum(1).tolist()]
    assert loss.item() == pytest.approx(0.5 * sum(own) / 3, rel=1e-5)


def test_info_nce_is_the_log_share_of_the_own_document() -> None:
    queries, documents = unit(4, 8), unit(6, 8, seed=1)
    mask = torch.zeros(4, 6, dtype=torch.bool)
    mask[0, 2] = mask[3, 5] = True
    mask[1, 1] = True  # the own document is never masked
    exps = (20.0 * queries @ documents.T).exp()
    shares = [
        exps[i, i] / sum(exps[i, j] for j in range(6) if (i, j) not in {(0, 2), (3, 5)})
        for i in range(4)
    ]
    expected = -sum(math.log(share) for share in shares) / 4
    loss = info_nce(queries, documents, scale=20.0, mask=mask)
    assert loss.item() == pytest.approx(expected, rel=1e-5)


def test_info_nce_symmetric_is_the_mean_of_both_directions() -> None:
    queries, documents = unit(4, 8), unit(4, 8, seed=1)
    both = info_nce(queries, documents, scale=5.0, symmetric=True)
    there = info_nce(queries, documents, scale=5.0)
    back = info_nce(documents, queries, scale=5.0)
    assert both.item() == pytest.approx((there + back).item() / 2, rel=1e-6)


def test_the_choice_of_negatives_carries_no_gradient() -> None:
    queries, documents = unit(4, 8).requires_grad_(), unit(4, 8, seed=1)
    scorer = PairScorer(3.0)
    loss = bce_with_sampled_negatives(
        queries,
        documents,
        scale=scorer.scale,
        bias=scorer.bias,
        temperature=1e6,
        generator=seeded(),
    )
    loss.backward()
    cosines = queries.detach() @ documents.T
    hardest = cosines.masked_fill(torch.eye(4, dtype=torch.bool), -2).argmax(1)
    own = torch.sigmoid(3.0 * cosines.diagonal()) - 1
    other = torch.sigmoid(3.0 * cosines.gather(1, hardest[:, None]).squeeze(1))
    expected = 0.5 * 3.0 * (own[:, None] * documents + other[:, None] * documents[hardest]) / 4
    torch.testing.assert_close(queries.grad, expected)
    assert scorer.scale.grad is not None and scorer.bias.grad is not None
