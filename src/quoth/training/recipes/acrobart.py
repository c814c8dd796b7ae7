"""ACROBArT: learn to retrieve by rebuilding queries from all neighbours at once, as in MARGE.

The neighbours are encoded one by one and their states joined; every cross-attention logit of the
decoder gets β · f(score of the passage), the same for all its tokens. The retriever's only gradient
flows through that bias, so the decoder may learn to find the useful tokens without it: the thesis
gained less this way. f is the prior's probability (the thesis), the score itself (MARGE), or its
log-probability, which multiplies attention by exactly p_i.

`layer` makes a single model: that layer of the query generator's encoder, pooled, is the retriever.
It collapsed in the thesis at every layer, which the monitors report.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Annotated

import torch
from torch import Tensor, nn

from quoth.constraints import FREE, AtLeastZero, OneOf, Positive
from quoth.models.glow.network import GlowNetwork
from quoth.models.query_generator.network import QueryGeneratorNetwork
from quoth.training.loop_config import LoopConfig
from quoth.training.retriever.joint import (
    JointModule,
    JointRecipe,
    Reading,
    copy_retriever,
    learn_jointly,
)
from quoth.training.retriever.learning import Learned, LearningRun
from quoth.training.retriever.passage_set import PassageSet
from quoth.training.retriever.refresh import PassageIndex
from quoth.training.retriever.retriever import LayerRetriever, Retriever


@dataclass(frozen=True, slots=True)
class AcrobartRecipe(JointRecipe, title="acrobart recipe"):
    """Settings of ACROBArT."""

    bias: Annotated[str, OneOf("prob", "score", "logprob")] = "prob"
    """What biases attention: prob (the thesis), score (MARGE), or logprob."""

    beta: Annotated[str, OneOf("global", "per_layer", "per_head")] = "global"
    """One factor of the bias for all (global), one per_layer (MARGE), or one per_head."""

    beta_start: Annotated[float, FREE] = 1.0
    """Where the factor starts."""

    beta_learning_rate: Positive = 1e-3
    """Highest learning rate of the factor, which has far to go."""

    layer: AtLeastZero = 0
    """Single model: layer of the query generator's encoder that retrieves; 0 is a dual encoder."""

    pooling: Annotated[str, OneOf("mean", "cls")] = "mean"
    """Single model: how the layer's states become a vector, mean or cls."""

    def conflicts(self) -> Iterator[str]:
        """Say where what is learned does not fit what is trained."""
        yield from JointRecipe.conflicts(self)
        if self.layer and not self.train_query_generator:
            yield "a single model is trained as a whole: set train_query_generator = true"

    def loop(self) -> LoopConfig:
        """Return the loop's part of the settings."""
        common = JointRecipe.loop(self)
        rates = {**common.learning_rates, "beta": self.beta_learning_rate}
        return replace(common, learning_rates=rates)


class AcrobartModule(JointModule):
    """A retriever and a query generator that reads all neighbours at once, some more closely."""

    _recipe: AcrobartRecipe

    def __init__(
        self,
        retriever: Retriever | LayerRetriever,
        query_generator: QueryGeneratorNetwork,
        passage_set: PassageSet,
        recipe: AcrobartRecipe,
        *,
        index: PassageIndex,
    ) -> None:
        super().__init__(retriever, query_generator, passage_set, recipe, index=index)
        layers, heads = query_generator.num_decoder_layers, query_generator.num_heads
        shape = {"global": (1, 1), "per_layer": (layers, 1), "per_head": (layers, heads)}
        self.beta = nn.Parameter(torch.full(shape[recipe.beta], recipe.beta_start))

    def rebuild(self, reading: Reading) -> Tensor:
        """Return −log p(y | all neighbours), averaged over the batch."""
        recipe = self._recipe
        with torch.autocast(reading.scores.device.type, enabled=False):
            signal = passage_signal(reading.scores, scale=recipe.score_scale, kind=recipe.bias)
            bias = attention_bias(signal, self.beta, num_subwords=reading.mask.shape[1])
        likely = joined_log_likelihood(self.query_generator, reading, bias)
        self._watch(reading, likely, bias)
        return -likely.mean()

    @torch.no_grad()
    def _watch(self, reading: Reading, likely: Tensor, bias: Tensor) -> None:
        if self.monitor is None:
            return
        self.monitor.note_mixture(reading.log_prior, None)
        if self.watches:  # the neighbours of the next query stand for random passages
            others = reading._replace(places=reading.places.roll(1, dims=0))
            other = joined_log_likelihood(self.query_generator, others, bias)
            self.monitor.note_use(likely, other)


def passage_signal(scores: Tensor, *, scale: float, kind: str) -> Tensor:  # (B, K)
    """Return what biases attention to each passage.

    >>> scores = torch.tensor([[0.0, 0.0]])
    >>> [passage_signal(scores, scale=1.0, kind=kind)[0, 0].item() for kind in ("prob", "score")]
    [0.5, 0.0]
    """
    if kind == "score":
        return scores
    prior = torch.log_softmax(scale * scores, dim=-1)
    return prior.exp() if kind == "prob" else prior


def attention_bias(
    signal: Tensor,  # (B, K)
    beta: Tensor,  # (layers or 1, heads or 1)
    *,
    num_subwords: int,
) -> Tensor:  # (layers or 1, B, heads or 1, K · T)
    """Give every subword of a passage β times the passage's signal.

    >>> attention_bias(torch.tensor([[0.5, 2.0]]), torch.ones(1, 1), num_subwords=2)[0, 0, 0]
    tensor([0.5000, 0.5000, 2.0000, 2.0000])
    """
    spread = signal.repeat_interleave(num_subwords, dim=1)  # (B, K · T)
    return beta[:, None, :, None] * spread[None, :, None, :]


def joined_log_likelihood(
    query_generator: QueryGeneratorNetwork, reading: Reading, bias: Tensor
) -> Tensor:  # (B,)
    """Return log p(y | all neighbours), their states joined along time."""
    states = reading.states[reading.places].flatten(1, 2)  # (B, K · T, D)
    mask = reading.mask[reading.places].flatten(1, 2)  # (B, K · T)
    return query_generator.log_probs(reading.targets, states, mask, bias=bias).sum(-1)


def train_acrobart(
    network: GlowNetwork | None,
    query_generator: QueryGeneratorNetwork,
    passage_set: PassageSet,
    recipe: AcrobartRecipe,
    run: LearningRun,
) -> Learned:
    """Train copies of a dual encoder (none for a single model) and a query generator together."""
    return learn_jointly(
        AcrobartModule,
        lambda writer: make_retriever(network, writer, recipe, device=run.device),
        query_generator,
        passage_set,
        recipe,
        run,
    )


def make_retriever(
    network: GlowNetwork | None,
    query_generator: QueryGeneratorNetwork,
    recipe: AcrobartRecipe,
    *,
    device: torch.device,
) -> Retriever | LayerRetriever:
    """Make the retriever: a copy of the dual encoder, or a layer of the query generator."""
    if recipe.layer or network is None:
        return LayerRetriever(
            query_generator,
            layer=recipe.layer,
            pooling=recipe.pooling,
            similarity=recipe.similarity,
        )
    return copy_retriever(network, recipe, device)
