"""The recipe of GLOW: natural or made pairs, in-batch negatives, weighted attention.

The paper trains two three-layer towers with a binary loss on one hard negative of the batch; the
same loop also lowers InfoNCE, which learns more from a batch. Weights may be ramped in, since a
pretrained network has never seen them.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from tokenizers import Tokenizer
from torch import Tensor, nn
from transformers import AutoModel

from quoth.errors import ConfigError
from quoth.models.attention import IMPLEMENTATION
from quoth.models.glow.config import GlowConfig
from quoth.models.glow.encoder import GlowEncoder
from quoth.models.glow.files import DEFAULT_NAME, find_folder
from quoth.models.glow.network import GlowNetwork, TokenBatch, grow_field_table, keep_layers
from quoth.training.batching import Batches
from quoth.training.distribution import gather_rows
from quoth.training.loop import LoopConfig, Progress, TrainingReport, train
from quoth.training.losses import (
    PairScorer,
    bce_with_sampled_negatives,
    duplicate_mask,
    info_nce,
)
from quoth.training.training_set import PairBatch, TrainingSet

CHOICES: dict[str, tuple[str, ...]] = {
    "loss": ("info_nce", "bce"),
    "start": ("pretrained", "random"),
    "towers": ("shared", "separate"),
    "pooling": ("mean", "cls", "pooler"),
    "weighting": ("none", "row", "column", "add_log", "merge"),
    "layout": ("joined", "fields"),
}


@dataclass(frozen=True, slots=True)
class GlowRecipe:
    """Settings that train a GLOW encoder."""

    loss: str = "info_nce"
    """What is lowered: info_nce, or bce (the paper's, with one drawn negative per query)."""

    start: str = "pretrained"
    """Where the layers start: pretrained, or random (the embeddings stay pretrained)."""

    towers: str = "shared"
    """One encoder for both sides (shared), or two with tied word embeddings (separate)."""

    num_layers: int = 3
    """Layers kept of the base encoder, from the bottom; 0 keeps all."""

    pooling: str = "mean"
    """How token states become a vector: mean, cls or pooler."""

    weighting: str = "none"
    """How word weights act on attention: none, row, column, add_log, merge."""

    layout: str = "joined"
    """Fields joined, or fields with embeddings of their own; as the training set was written."""

    steps: int = 600
    """Steps of the optimiser."""

    batch_size: int = 512
    """Pairs per batch and process; the others of the batch are the negatives."""

    learning_rate: float = 8e-5
    """Highest learning rate."""

    scorer_learning_rate: float = 1e-2
    """Learning rate of the line from cosine to logit, which has far to go."""

    ramp_steps: int = 0
    """Steps over which word weights are brought in."""

    scale: float = 20.0
    """Factor of the cosines in info_nce."""

    scorer_scale: float = 10.0
    """Where the factor of the cosines starts in bce; the released code starts at 1."""

    temperature: float = 1000.0
    """Sharpness of the draw of negatives in bce; at 1000 it is nearly the hardest one."""

    query_similarity: float = 0.90
    """Queries more alike than this are no negatives of each other."""

    dropout: float = 0.1
    """Share of states dropped while training."""

    gather: bool = False
    """With several processes, take the documents of all of them as negatives (info_nce)."""

    seed: int = 0
    """Decides the order of pairs, the fresh layers, the dropout and the drawn negatives."""

    def __post_init__(self) -> None:
        problems = [
            f"{name} is {getattr(self, name)!r}, expected one of {', '.join(allowed)}"
            for name, allowed in CHOICES.items()
            if getattr(self, name) not in allowed
        ]
        if self.batch_size < 2:
            problems.append("batch_size must be ≥ 2, or there are no negatives")
        if problems:
            raise ConfigError("glow recipe: " + "; ".join(problems))

    def loop(self) -> LoopConfig:
        """Give the loop's part of the settings."""
        return LoopConfig(
            steps=self.steps,
            learning_rate=self.learning_rate,
            learning_rates={"scorer.": self.scorer_learning_rate},
            ramp_steps=self.ramp_steps,
        )


class GlowPairs(nn.Module):
    """What is trained: the dual encoder and the line from cosine to logit; its output is the loss.

    The loss is computed inside, so that with several processes unused parameters are known.
    """

    def __init__(self, network: GlowNetwork, recipe: GlowRecipe) -> None:
        super().__init__()
        self.network = network
        self.scorer = PairScorer(recipe.scorer_scale) if recipe.loss == "bce" else None
        self._recipe = recipe

    def forward(self, batch: PairBatch, *, strength: float, generator: torch.Generator) -> Tensor:
        """Give the loss of a batch, with a share of the weights in force."""
        queries = self.network.encode_queries(soften(batch.queries, strength=strength))
        documents = self.network.encode_documents(soften(batch.documents, strength=strength))
        recipe = self._recipe
        with torch.autocast(queries.device.type, enabled=False):  # cosines in full precision
            if self.scorer is None:
                return _info_nce_loss(queries, documents, batch.document_rows, recipe)
            return bce_with_sampled_negatives(
                queries,
                documents,
                scale=self.scorer.scale,
                bias=self.scorer.bias,
                temperature=recipe.temperature,
                generator=generator,
                query_similarity=recipe.query_similarity,
                document_ids=batch.document_rows,
            )


def train_glow(
    base: nn.Module,
    training_set: TrainingSet,
    recipe: GlowRecipe,
    *,
    device: torch.device,
    loop: LoopConfig | None = None,
    progress: Callable[[Progress], None] | None = None,
    checkpoint: Path | None = None,
    validate: Callable[[nn.Module], float] | None = None,
) -> tuple[GlowNetwork, TrainingReport]:
    """Train a dual encoder on a copy of a base; see `load_base`.

    The training set moves to the device whole: batches are cut there.
    """
    with torch.random.fork_rng(devices=_cuda_devices(device)):
        torch.manual_seed(recipe.seed)  # fresh layers and dropout take no generator
        pairs = GlowPairs(build_network(base, recipe), recipe).to(device)
        generator = torch.Generator(device=device).manual_seed(recipe.seed)
        on_device = training_set.to(device)
        report = train(
            pairs,
            Batches(
                training_set.document_rows,
                training_set.query_rows,
                batch_size=recipe.batch_size,
                seed=recipe.seed,
            ),
            lambda model, rows, strength: model(
                on_device.batch(rows), strength=strength, generator=generator
            ),
            loop or recipe.loop(),
            generator=generator,
            progress=progress,
            checkpoint=checkpoint,
            validate=validate,
        )
    return pairs.network, report


def _info_nce_loss(
    queries: Tensor, documents: Tensor, document_rows: Tensor, recipe: GlowRecipe
) -> Tensor:
    """Compare with the documents of this process, or of all."""
    limit = recipe.query_similarity
    mask = duplicate_mask(queries, document_ids=document_rows, query_similarity=limit)
    if recipe.gather:
        alike = queries.detach() @ gather_rows(queries.detach()).T > limit
        same = document_rows[:, None] == gather_rows(document_rows)[None, :]  # own rows as well
        mask = torch.cat((mask, same | alike), dim=1)
        documents = torch.cat((documents, gather_rows(documents)))
    return info_nce(queries, documents, scale=recipe.scale, mask=mask)


def soften(batch: TokenBatch, *, strength: float) -> TokenBatch:
    """Bring in a share of the weights: w becomes 1 + strength · (w − 1)."""
    if strength == 1.0:
        return batch
    return batch._replace(weights=1.0 + strength * (batch.weights - 1.0))


def load_base(name: str = DEFAULT_NAME) -> nn.Module:
    """Load a pretrained encoder to start from, by folder or name."""
    source = str(find_folder(name))
    base: nn.Module = AutoModel.from_pretrained(source, attn_implementation=IMPLEMENTATION)
    return base


def build_network(base: nn.Module, recipe: GlowRecipe) -> GlowNetwork:
    """Make the dual encoder from a copy of the base."""
    own: Any = copy.deepcopy(base)
    if recipe.num_layers:
        keep_layers(own, recipe.num_layers)
    if recipe.layout == "fields":
        grow_field_table(own)
    network = GlowNetwork(
        own,
        pooling=recipe.pooling,
        weighting=recipe.weighting,
        separate=recipe.towers == "separate",
    )
    for module in network.modules():
        if isinstance(module, nn.Dropout):
            module.p = recipe.dropout
    for encoder in {id(e): e for e in (network.query_encoder, network.document_encoder)}.values():
        if recipe.start == "random":
            renew_layers(encoder)
    return network


def renew_layers(encoder: Any) -> None:
    """Start the layers afresh, as BERT does; the embeddings stay."""
    deviation = float(encoder.config.initializer_range)
    for module in encoder.encoder.modules():
        if isinstance(module, nn.Linear):
            nn.init.normal_(module.weight, std=deviation)
            nn.init.zeros_(module.bias)
        elif isinstance(module, nn.LayerNorm):
            nn.init.ones_(module.weight)
            nn.init.zeros_(module.bias)


def as_encoder(
    name: str, network: GlowNetwork, tokenizer: Tokenizer, config: GlowConfig
) -> GlowEncoder:
    """Join a trained network with its inputs, to be used or saved in the Hugging Face layout."""
    return GlowEncoder(name, network.cpu(), tokenizer, config, identity={"name": name})


def _cuda_devices(device: torch.device) -> list[torch.device]:
    return [device] if device.type == "cuda" else []
