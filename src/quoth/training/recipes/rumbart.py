"""RUMBArt: learn to retrieve by rebuilding queries from what was retrieved, marginalised.

    loss = −log Σ_i p(z_i|x) · p(y = x | z_i),  p(z|x) the softmax over the k neighbours' scores

as in RAG, but without the query in the query generator's input, and with both encoders trained. The
gradient of the score of passage i is p_i − r_i: the prior is pulled to the query generator's
posterior r. The thesis has plain dot products (`similarity` dot), no tempering of the likelihood
(`tempering` 1) and no contrastive loss (`contrastive` 0). `objective` also offers to distil the
posterior of a frozen query generator, which needs no gradient through it.
"""

from __future__ import annotations

import copy
from dataclasses import dataclass

import torch
from torch import Tensor

from quoth.models.glow.network import GlowNetwork
from quoth.models.query_generator.network import QueryGeneratorNetwork, TextBatch
from quoth.training.retriever.joint import JointModule, JointRecipe, Reading
from quoth.training.retriever.learning import Learned, LearningRun, learn
from quoth.training.retriever.mixture import (
    divergence,
    log_posterior,
    sequence_log_likelihoods,
    sequence_marginal,
    token_marginal,
)
from quoth.training.retriever.monitors import Monitor
from quoth.training.retriever.passage_set import PassageSet
from quoth.training.retriever.refresh import PassageIndex, Refresher
from quoth.training.retriever.retriever import Retriever, prepare_network, vector_width

OBJECTIVES = ("marginal", "distil_posterior", "distil_likelihood")
MARGINALS = ("sequence", "token")


@dataclass(frozen=True, slots=True)
class RumbartRecipe(JointRecipe):
    """Settings of RUMBArt."""

    marginal: str = "sequence"
    """What is summed over passages: the probability of the query (sequence), or of each token."""

    tempering: float = 0.25
    """Factor of the log-likelihoods; 1 is the thesis. Below 1 more than one passage speaks."""

    per_subword: bool = False
    """Take the mean log-likelihood of a query's subwords instead of their sum."""

    objective: str = "marginal"
    """marginal trains both models; distil_posterior pulls the prior to a frozen query generator's
    posterior, distil_likelihood to the softmax of its likelihoods alone."""

    def problems(self) -> list[str]:
        """Say what is wrong with the settings."""
        found = JointRecipe.problems(self)
        if self.marginal not in MARGINALS:
            found.append(f"marginal is {self.marginal!r}, expected one of {', '.join(MARGINALS)}")
        if self.objective not in OBJECTIVES:
            found.append(
                f"objective is {self.objective!r}, expected one of {', '.join(OBJECTIVES)}"
            )
        if self.objective != "marginal" and self.train_query_generator:
            found.append("distillation is from a frozen model: set train_query_generator = false")
        if self.per_subword and self.marginal == "token":
            found.append("per_subword needs the marginal sequence")
        if self.tempering <= 0:
            found.append("tempering must be > 0")
        return found


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
    devices = [run.device] if run.device.type == "cuda" else []
    with torch.random.fork_rng(devices=devices):
        torch.manual_seed(recipe.seed)
        own = prepare_network(
            network, projection=recipe.projection, dropout=recipe.dropout, device=run.device
        )
        retriever = Retriever(own, similarity=recipe.similarity)
        writer = copy.deepcopy(query_generator).to(run.device)
        here = passage_set.to(run.device)
        index = PassageIndex(here.num_passages, vector_width(retriever, run.device)).to(run.device)
        module = RumbartModule(retriever, writer, here, recipe, index=index)
        module.monitor = Monitor(run.bounds, num_passages=here.num_passages, k=recipe.k)
        return learn(
            module,
            here,
            run.loop or recipe.loop(),
            run,
            batch_size=recipe.batch_size,
            seed=recipe.seed,
            refresher=Refresher(index, retriever, here, recipe.refresh(), k=recipe.k),
            query_generator=writer,
        )
