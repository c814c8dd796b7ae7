"""RUMBArt: learn to retrieve by rebuilding queries from what was retrieved, marginalised.

    loss = −log Σ_i p(z_i|x) · p(y = x | z_i),  p(z|x) the softmax over the k neighbours' scores

as in RAG, but without the query in the query generator's input, and with both encoders trained. The
gradient of the score of passage i is p_i − r_i: the prior is pulled to the query generator's
posterior r. The thesis has plain dot products (`similarity` dot), no tempering of the likelihood
(`tempering` 1) and no contrastive loss (`contrastive` 0). `objective` also offers to distil the
posterior of a frozen query generator, which needs no gradient through it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Annotated

import torch
from torch import Tensor

from quoth.constraints import OneOf, Positive
from quoth.models.glow.network import GlowNetwork
from quoth.models.query_generator.network import QueryGeneratorNetwork, TextBatch
from quoth.training.retriever.joint import (
    JointModule,
    JointRecipe,
    Reading,
    copy_retriever,
    learn_jointly,
)
from quoth.training.retriever.learning import Learned, LearningRun
from quoth.training.retriever.mixture import (
    divergence,
    log_posterior,
    sequence_log_likelihoods,
    sequence_marginal,
    token_marginal,
)
from quoth.training.retriever.passage_set import PassageSet


@dataclass(frozen=True, slots=True)
class RumbartRecipe(JointRecipe, title="rumbart recipe"):
    """Settings of RUMBArt."""

    marginal: Annotated[str, OneOf("sequence", "token")] = "sequence"
    """What is summed over passages: the probability of the query (sequence), or of each token."""

    tempering: Positive = 0.25
    """Factor of the log-likelihoods; 1 is the thesis. Below 1 more than one passage speaks."""

    per_subword: bool = False
    """Take the mean log-likelihood of a query's subwords instead of their sum."""

    objective: Annotated[str, OneOf("marginal", "distil_posterior", "distil_likelihood")] = (
        "marginal"
    )
    """marginal trains both models; distil_posterior pulls the prior to a frozen query generator's
    posterior, distil_likelihood to the softmax of its likelihoods alone."""

    def conflicts(self) -> Iterator[str]:
        """Say where what is learned does not fit what is trained."""
        yield from JointRecipe.conflicts(self)
        if self.objective != "marginal" and self.train_query_generator:
            yield "distillation is from a frozen model: set train_query_generator = false"
        if self.per_subword and self.marginal == "token":
            yield "per_subword needs the marginal sequence"


class RumbartModule(JointModule):
    """A retriever and a query generator whose output is the loss of the mixture."""

    _recipe: RumbartRecipe

    def rebuild(self, reading: Reading) -> Tensor:
        """Return −log p(y|x), or the divergence from the posterior, averaged over the batch."""
        recipe = self._recipe
        with torch.set_grad_enabled(recipe.objective == "marginal" and torch.is_grad_enabled()):
            token_log_probs = neighbour_log_probs(self.query_generator, reading)
        with torch.autocast(token_log_probs.device.type, enabled=False):
            lengths = reading.targets.mask.sum(-1) if recipe.per_subword else None
            likely = sequence_log_likelihoods(
                token_log_probs, tempering=recipe.tempering, lengths=lengths
            )
            self._watch(reading, token_log_probs, likely)
            prior = reading.log_prior
            if recipe.objective == "distil_posterior":
                return divergence(log_posterior(prior, likely), prior).mean()
            if recipe.objective == "distil_likelihood":
                return divergence(torch.log_softmax(likely, dim=-1), prior).mean()
            if recipe.marginal == "token":
                return -token_marginal(prior, token_log_probs, tempering=recipe.tempering).mean()
            return -sequence_marginal(prior, likely).mean()

    @torch.no_grad()
    def _watch(self, reading: Reading, token_log_probs: Tensor, likely: Tensor) -> None:
        if self.monitor is None:
            return
        self.monitor.note_mixture(reading.log_prior, likely)
        if self.watches:  # the best neighbour of the next query stands for a random passage
            others = reading._replace(places=reading.places[:, :1].roll(1, dims=0))
            other = neighbour_log_probs(self.query_generator, others)
            self.monitor.note_use(token_log_probs[:, 0].sum(-1), other[:, 0].sum(-1))


def neighbour_log_probs(query_generator: QueryGeneratorNetwork, reading: Reading) -> Tensor:
    """Return log p(y_j | z_i, y_<j) of every query under each of its neighbours, (B, K, L)."""
    count, k = reading.places.shape
    rows = reading.places.reshape(-1)
    targets = TextBatch(*(each.repeat_interleave(k, dim=0) for each in reading.targets))
    found = query_generator.log_probs(targets, reading.states[rows], reading.mask[rows])
    return found.view(count, k, -1)


def train_rumbart(
    network: GlowNetwork,
    query_generator: QueryGeneratorNetwork,
    passage_set: PassageSet,
    recipe: RumbartRecipe,
    run: LearningRun,
) -> Learned:
    """Train copies of a warmed-up dual encoder and of a query generator together."""
    return learn_jointly(
        RumbartModule,
        lambda _writer: copy_retriever(network, recipe, run.device),
        query_generator,
        passage_set,
        recipe,
        run,
    )
