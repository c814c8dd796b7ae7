"""Decoding against all queries that could be written, and with a generator that copies."""

from __future__ import annotations

import itertools

import pytest
import torch
from tests.unit.training.passage_worlds import CLS, SEP, CopyGenerator, make_writer

from quoth.models.query_generator.network import TextBatch
from quoth.training.retriever.mixture_decoding import (
    Mixture,
    candidates_per_passage,
    marginal_greedy,
    rescore_candidates,
)

SETTINGS = {"start_id": CLS, "end_id": SEP}


def read(writer: torch.nn.Module, passages: list[list[int]], prior: list[float]) -> Mixture:
    """Two passages of one query, as the generator reads them."""
    ids = torch.tensor(passages)
    states = writer.encode(TextBatch(ids, torch.ones_like(ids, dtype=torch.bool)))  # type: ignore[operator]
    mask = torch.ones((1, *ids.shape), dtype=torch.bool)
    return Mixture(states[None], mask, torch.tensor([prior]).log())


def likelihood(writer: torch.nn.Module, mixture: Mixture, tokens: tuple[int, ...]) -> float:
    """Σ_i p_i Π_j p(y_j | z_i, y_<j), by the decoder's softmax step by step."""
    total = 0.0
    for i, prior in enumerate(mixture.log_prior[0].exp().tolist()):
        product = prior
        for j, token in enumerate(tokens):
            inputs = torch.tensor([[CLS, *tokens[:j]]])
            logits = writer.decode(inputs, mixture.states[:, i], mixture.mask[:, i])  # type: ignore[operator]
            product *= float(logits[0, -1].softmax(-1)[token])
        total += product
    return total


@pytest.fixture(scope="module")
def writer() -> torch.nn.Module:
    return make_writer().eval()


@torch.no_grad()
def test_candidates_are_scored_under_the_whole_mixture(writer: torch.nn.Module) -> None:
    mixture = read(writer, [[2, 11, 12, 3], [2, 40, 41, 3]], [0.3, 0.7])
    candidates = [(11, 12, SEP), (40, SEP), (11, 12, SEP), (50, 51, 52, SEP)]
    (ranked,) = rescore_candidates(writer, mixture, [candidates])  # type: ignore[arg-type]
    assert len(ranked) == 3  # the repeated one counts once
    expected = {each: likelihood(writer, mixture, each) for each in candidates}
    assert [each.tokens for each in ranked] == sorted(expected, key=lambda each: -expected[each])
    for each in ranked:
        assert torch.tensor(each.log_likelihood).exp().item() == pytest.approx(
            expected[each.tokens], rel=1e-4
        )


@torch.no_grad()
def test_greedy_takes_the_likeliest_token_of_the_mixture(writer: torch.nn.Module) -> None:
    mixture = read(writer, [[2, 11, 12, 3], [2, 40, 41, 3]], [0.3, 0.7])
    (found,) = marginal_greedy(writer, mixture, max_subwords=4, **SETTINGS)  # type: ignore[arg-type]
    written: tuple[int, ...] = ()
    while len(written) < 3 and (not written or written[-1] != SEP):
        following = {t: likelihood(writer, mixture, (*written, t)) for t in range(100)}
        written = (*written, max(following, key=following.__getitem__))
    assert found == (written if written[-1] == SEP else (*written, SEP))


class Scripted(CopyGenerator):
    """Both passages may begin with 11, the first far more likely; then each goes its own way."""

    steps = (
        ({11: 0.9}, {11: 0.3, 13: 0.6}),
        ({12: 0.6, 15: 0.3}, {14: 0.8, 16: 0.1}),
        ({SEP: 0.9}, {SEP: 0.9}),
    )

    def decode(
        self,
        inputs: torch.Tensor,
        states: torch.Tensor,
        mask: torch.Tensor,
        *,
        bias: torch.Tensor | None = None,
    ) -> torch.Tensor:
        shares = torch.full((*inputs.shape, 100), 1e-4)
        for row in range(len(inputs)):
            for token, share in self.steps[inputs.shape[1] - 1][row % 2].items():
                shares[row, -1, token] = share
        return shares.log()


@pytest.mark.parametrize(("marginal", "written"), [("sequence", 12), ("token", 14)])
def test_what_was_written_decides_which_passage_goes_on(marginal: str, written: int) -> None:
    """After 11 the first passage has .9 / (.9 + .3) of the sequence's mixture: .75 · .6 > .25 · .8.

    The token's mixture keeps the prior: .5 · .6 < .5 · .8.
    """
    scripted = Scripted()
    mixture = read(scripted, [[2, 11, 12, 3], [2, 13, 14, 3]], [0.5, 0.5])
    (found,) = marginal_greedy(
        scripted,  # type: ignore[arg-type]
        mixture,
        max_subwords=3,
        marginal=marginal,
        **SETTINGS,
    )
    assert found == (11, written, SEP)


@torch.no_grad()
def test_a_candidate_is_what_its_passage_alone_would_write(writer: torch.nn.Module) -> None:
    mixture = read(writer, [[2, 11, 12, 3], [2, 40, 41, 3]], [0.3, 0.7])
    (found,) = candidates_per_passage(writer, mixture, max_subwords=4, **SETTINGS)  # type: ignore[arg-type]
    for i, tokens in enumerate(found):
        alone = Mixture(mixture.states[:, i : i + 1], mixture.mask[:, i : i + 1], torch.zeros(1, 1))
        assert tokens == marginal_greedy(writer, alone, max_subwords=4, **SETTINGS)[0]  # type: ignore[arg-type]
        assert tokens[-1] == SEP and len(tokens) <= 4


def test_rescoring_prefers_the_words_both_passages_share() -> None:
    copier = CopyGenerator()
    mixture = read(copier, [[2, 11, 12, 3], [2, 11, 40, 3]], [0.5, 0.5])
    pairs = list(itertools.permutations((11, 12, 40), 1))
    (ranked,) = rescore_candidates(copier, mixture, [[(*own, SEP) for own in pairs]])  # type: ignore[arg-type]
    assert ranked[0].tokens == (11, SEP)
