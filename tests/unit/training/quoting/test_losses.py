"""Losses by chunks are those of the formulas over all scores at once, gradients included."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from quoth.training.quoting.losses import divergences, mean_or_zero, mixed_terms, plain_losses

WIDTH, SUBWORDS, PHRASES, ROWS = 6, 11, 4, 10


class Tables:
    """Scores by inner products, as the network does."""

    num_subwords = SUBWORDS

    def __init__(self) -> None:
        chance = torch.Generator().manual_seed(0)
        self.table = torch.randn(SUBWORDS, WIDTH, generator=chance).requires_grad_()

    def subword_scores(self, states: Tensor) -> Tensor:
        return states @ self.table.T

    def phrase_scores(self, states: Tensor, phrase_vectors: Tensor) -> Tensor:
        return states @ phrase_vectors.T


@pytest.fixture
def scorer() -> Tables:
    return Tables()


def draw(rows: int, seed: int) -> Tensor:
    chance = torch.Generator().manual_seed(seed)
    return torch.randn(rows, WIDTH, generator=chance).requires_grad_()


def same_gradients(found: Tensor, expected: Tensor, *leaves: Tensor) -> bool:
    own = torch.autograd.grad(found.sum(), leaves)
    other = torch.autograd.grad(expected.sum(), leaves)
    return all(torch.allclose(a, b, atol=1e-5) for a, b in zip(own, other, strict=True))


@pytest.mark.parametrize("chunk", [3, 100])
def test_mixed_losses_are_over_subwords_and_phrases(scorer: Tables, chunk: int) -> None:
    states, vectors = draw(ROWS, 1), draw(PHRASES, 2)
    targets = torch.tensor([0, 3, SUBWORDS, SUBWORDS + 3, 10, 5, 1, 12, 2, 7])
    found = mixed_terms(scorer, states, targets, phrase_vectors=vectors, chunk=chunk)
    scores = torch.cat((states @ scorer.table.T, states @ vectors.T), dim=1)
    expected = -scores.log_softmax(1)[torch.arange(ROWS), targets]
    assert torch.allclose(found.losses, expected, atol=1e-5)
    assert torch.equal(found.is_right, scores.argmax(1) == targets)
    assert torch.equal(found.is_phrase, scores.argmax(1) >= SUBWORDS)
    assert same_gradients(found.losses, expected, states, vectors, scorer.table)


@pytest.mark.parametrize("chunk", [3, 100])
def test_choices_are_among_phrases_alone_where_one_is_right(scorer: Tables, chunk: int) -> None:
    states, vectors = draw(ROWS, 1), draw(PHRASES, 2)
    targets = torch.tensor([0, 3, SUBWORDS, SUBWORDS + 3, 10, 5, 1, 12, 2, 7])
    found = mixed_terms(scorer, states, targets, phrase_vectors=vectors, chunk=chunk).choices
    is_phrase = targets >= SUBWORDS
    scores = (states @ vectors.T)[is_phrase]
    columns = targets[is_phrase] - SUBWORDS
    expected = -scores.log_softmax(1)[torch.arange(len(columns)), columns]
    assert torch.allclose(found[is_phrase], expected, atol=1e-5)
    assert not found[~is_phrase].any()
    assert same_gradients(found, expected, states, vectors)


def test_columns_of_a_batch_before_are_no_choice(scorer: Tables) -> None:
    states, vectors, before = draw(ROWS, 1), draw(PHRASES, 2), draw(3, 3)
    targets = torch.tensor([0, 3, SUBWORDS, SUBWORDS + 3, 10, 5, 1, 12, 2, 7])
    alone = mixed_terms(scorer, states, targets, phrase_vectors=vectors)
    found = mixed_terms(
        scorer,
        states,
        targets,
        phrase_vectors=torch.cat((vectors, before)),
        num_learnt=PHRASES,
    )
    assert torch.equal(found.choices, alone.choices)
    assert (found.losses > alone.losses).all()


@pytest.mark.parametrize("chunk", [3, 100])
def test_columns_that_are_not_offered_do_not_count(scorer: Tables, chunk: int) -> None:
    states, vectors = draw(ROWS, 1), draw(PHRASES, 2)
    targets = torch.tensor([0, 3, SUBWORDS, SUBWORDS + 3, 10, 5, 1, 12, 2, 7])
    offered = torch.arange(ROWS)[:, None] % 3 != torch.arange(PHRASES) % 3
    is_phrase = targets >= SUBWORDS
    offered[is_phrase, targets[is_phrase] - SUBWORDS] = True
    found = mixed_terms(
        scorer, states, targets, phrase_vectors=vectors, offered=offered, chunk=chunk
    )
    of_phrases = (states @ vectors.T).masked_fill(~offered, float("-inf"))
    scores = torch.cat((states @ scorer.table.T, of_phrases), dim=1)
    expected = -scores.log_softmax(1)[torch.arange(ROWS), targets]
    assert torch.allclose(found.losses, expected, atol=1e-5)
    assert same_gradients(found.losses, expected, states, vectors, scorer.table)


@pytest.mark.parametrize("chunk", [3, 100])
def test_blocked_columns_do_not_count(scorer: Tables, chunk: int) -> None:
    states, vectors = draw(ROWS, 1), draw(PHRASES, 2)
    targets = torch.arange(ROWS)
    blocked = torch.tensor([[0, 2], [7, 1], [7, 3]])
    found = mixed_terms(
        scorer, states, targets, phrase_vectors=vectors, blocked=blocked, chunk=chunk
    ).losses
    for row, columns in ((0, [0, 1, 3]), (7, [0, 2]), (4, [0, 1, 2, 3])):
        scores = torch.cat((scorer.table @ states[row], vectors[columns] @ states[row]))
        assert found[row].item() == pytest.approx(-scores.log_softmax(0)[row].item(), abs=1e-5)


def test_plain_losses_and_divergences(scorer: Tables) -> None:
    mixed, plain = draw(ROWS, 1), draw(ROWS, 2)
    targets = torch.arange(ROWS)
    expected = torch.nn.functional.cross_entropy(mixed @ scorer.table.T, targets, reduction="none")
    found = plain_losses(scorer, mixed, targets, chunk=4)
    assert torch.allclose(found, expected, atol=1e-5)
    assert same_gradients(found, expected, mixed, scorer.table)
    p, q = ((each @ scorer.table.T).softmax(1) for each in (mixed, plain))
    expected = (p * (p / q).log()).sum(1)
    found = divergences(scorer, mixed, plain, chunk=4)
    assert torch.allclose(found, expected, atol=1e-5)
    assert same_gradients(found, expected, mixed, plain, scorer.table)
    assert torch.allclose(divergences(scorer, mixed, mixed), torch.zeros(ROWS), atol=1e-6)


def test_no_rows_make_a_zero_that_can_be_lowered(scorer: Tables) -> None:
    none, targets = draw(0, 1), torch.zeros(0, dtype=torch.int64)
    losses = (
        mixed_terms(scorer, none, targets, phrase_vectors=draw(2, 2)).losses,
        plain_losses(scorer, none, targets),
        divergences(scorer, none, none),
    )
    assert all(mean_or_zero(each).item() == 0 for each in losses)
