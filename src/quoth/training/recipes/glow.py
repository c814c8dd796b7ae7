"""The recipe of GLOW: natural or made pairs, in-batch negatives, weighted attention.

The paper trains two three-layer towers with a binary loss on one hard negative of the batch; the
same loop also lowers InfoNCE, which learns more from a batch. Weights may be ramped in, since a
pretrained network has never seen them.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from tokenizers import Tokenizer
from torch import Tensor, nn
from torch.nn import functional

from quoth.models.glow.config import GlowConfig
from quoth.models.glow.encoder import GlowEncoder
from quoth.models.glow.network import (
    GlowNetwork,
    TokenBatch,
    grow_field_table,
    keep_layers,
    layer_stack,
)
from quoth.training.batching import Batches
from quoth.training.distribution import gather_rows
from quoth.training.loop import Progress, TrainingReport, seeded, set_dropout, train
from quoth.training.loop_config import LoopConfig
from quoth.training.recipes.glow_config import GlowRecipe
from quoth.training.retriever.hard_negatives import HardNegatives, NegativeBatch, negative_mask
from quoth.training.retriever.losses import (
    PairScorer,
    bce_with_sampled_negatives,
    duplicate_mask,
    info_nce,
    query_likeness,
)
from quoth.training.retriever.training_set import PairBatch, TrainingSet
from quoth.vocabulary.counting import CountedTerms


class GlowPairs(nn.Module):
    """What is trained: the dual encoder and the line from cosine to logit; its output is the loss.

    The loss is computed inside, so that with several processes unused parameters are known.
    """

    def __init__(self, network: GlowNetwork, recipe: GlowRecipe) -> None:
        super().__init__()
        self.network = network
        self.scorer = PairScorer(recipe.scorer_scale) if recipe.loss == "bce" else None
        self._recipe = recipe

    @torch.no_grad()
    def centre_scorer(self, batch: PairBatch) -> None:
        """Start the line where the pairs of a batch, matching or not, are on average."""
        if self.scorer is not None:
            queries = self.network.encode_queries(soften(batch.queries, strength=0.0))
            documents = self.network.encode_documents(soften(batch.documents, strength=0.0))
            self.scorer.bias.copy_(-self.scorer.scale * (queries @ documents.T).float().mean())

    def forward(
        self,
        batch: PairBatch,
        *,
        strength: float,
        generator: torch.Generator,
        negatives: NegativeBatch | None = None,
    ) -> Tensor:
        """Return the loss of a batch and its labelled negatives, with a share of the weights."""
        queries = self.network.encode_queries(soften(batch.queries, strength=strength))
        documents = self.network.encode_documents(soften(batch.documents, strength=strength))
        recipe, drawn = self._recipe, None
        if negatives is not None:
            drawn = self.network.encode_documents(soften(negatives.documents, strength=strength))
        with torch.autocast(queries.device.type, enabled=False):  # cosines in full precision
            if self.scorer is None:
                mask = _info_nce_mask(queries, batch.document_rows, recipe, negatives)
                parts = [documents, gather_rows(documents)] if recipe.gather else [documents]
                against = torch.cat([*parts, *([] if drawn is None else [drawn])])
                return info_nce(queries, against, scale=recipe.scale, mask=mask)
            loss = bce_with_sampled_negatives(
                queries,
                documents,
                scale=self.scorer.scale,
                bias=self.scorer.bias,
                temperature=recipe.temperature,
                generator=generator,
                query_similarity=recipe.query_similarity,
                centre=recipe.centre_queries,
                document_ids=batch.document_rows,
            )
            if negatives is None or drawn is None:
                return loss
            # Labelled pairs of label 0, beside the drawn negatives and the pairs of label 1.
            cosines = (queries[negatives.query_at] * drawn).sum(1)
            return loss + 0.5 * functional.softplus(self.scorer(cosines)).mean()


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
    negatives: HardNegatives | None = None,
    until: int | None = None,
) -> tuple[GlowNetwork, TrainingReport]:
    """Train a dual encoder on a copy of a base, as `models.glow.encoder.load_base` loads it.

    The training set moves to the device whole: batches are cut there. `negatives` are labelled ones
    (`take_negatives`); `until` stops after that step, as an interruption would.
    """
    with seeded(recipe.seed, device) as generator:
        pairs = GlowPairs(build_network(base, recipe), recipe).to(device)
        on_device = training_set.to(device)
        if recipe.loss == "bce" and recipe.centre_scorer:
            pairs.centre_scorer(on_device.batch(np.arange(min(len(on_device), recipe.batch_size))))
        report = train(
            pairs,
            Batches(
                training_set.document_rows,
                training_set.query_rows,
                batch_size=recipe.batch_size,
                seed=recipe.seed,
            ),
            lambda model, rows, strength: model(
                on_device.batch(rows),
                strength=strength,
                generator=generator,
                negatives=negatives.draw(on_device, rows, generator) if negatives else None,
            ),
            loop or loop_config(recipe),
            generator=generator,
            progress=progress,
            checkpoint=checkpoint,
            validate=validate,
            until=until,
        )
    return pairs.network, report


def loop_config(recipe: GlowRecipe) -> LoopConfig:
    """Return the loop's part of a recipe."""
    return LoopConfig(
        steps=recipe.steps,
        learning_rate=recipe.learning_rate,
        learning_rates={"scorer.": recipe.scorer_learning_rate},
        ramp_steps=recipe.ramp_steps,
    )


def _info_nce_mask(
    queries: Tensor, document_rows: Tensor, recipe: GlowRecipe, negatives: NegativeBatch | None
) -> Tensor:
    """Mark what is no negative: in this process, then in all of them, then among labelled ones."""
    limit = recipe.query_similarity
    own = duplicate_mask(
        queries,
        document_ids=document_rows,
        query_similarity=limit,
        centre=recipe.centre_queries,
    )
    parts = [own]
    if recipe.gather:
        everyone = gather_rows(queries.detach())
        alike = query_likeness(queries, everyone, centre=recipe.centre_queries) > limit
        same = document_rows[:, None] == gather_rows(document_rows)[None, :]  # own rows as well
        parts.append(same | alike)
    if negatives is not None:
        parts.append(negative_mask(own, document_rows, negatives))
    return torch.cat(parts, dim=1)


def soften(batch: TokenBatch, *, strength: float) -> TokenBatch:
    """Bring in a share of the weights: w becomes 1 + strength · (w − 1)."""
    if strength == 1.0:
        return batch
    return batch._replace(weights=1.0 + strength * (batch.weights - 1.0))


def build_network(base: nn.Module, recipe: GlowRecipe) -> GlowNetwork:
    """Make the dual encoder from a copy of the base."""
    own: Any = copy.deepcopy(base)
    if recipe.num_layers:
        keep_layers(own, recipe.num_layers, spread=recipe.spread_layers)
    if recipe.layout == "fields":
        grow_field_table(own)
    network = GlowNetwork(
        own,
        pooling=recipe.pooling,
        weighting=recipe.weighting,
        separate=recipe.towers == "separate",
    )
    set_dropout(network, recipe.dropout)
    for encoder in {id(e): e for e in (network.query_encoder, network.document_encoder)}.values():
        if recipe.start == "random":
            renew_layers(encoder)
    return network


def renew_layers(encoder: Any, *, first: int = 0) -> None:
    """Start the layers from the first one on afresh, as BERT does; the embeddings stay."""
    deviation = float(encoder.config.initializer_range)
    for module in layer_stack(encoder).layer[first:].modules():
        if isinstance(module, nn.Linear):
            nn.init.normal_(module.weight, std=deviation)
            nn.init.zeros_(module.bias)
        elif isinstance(module, nn.LayerNorm):
            nn.init.ones_(module.weight)
            nn.init.zeros_(module.bias)


def as_encoder(
    name: str,
    network: GlowNetwork,
    tokenizer: Tokenizer,
    config: GlowConfig,
    *,
    subword_counts: CountedTerms | None = None,
) -> GlowEncoder:
    """Join a trained network with its inputs, to be used or saved in the Hugging Face layout."""
    identity = {"name": name}
    return GlowEncoder(
        name, network.cpu(), tokenizer, config, identity=identity, subword_counts=subword_counts
    )
