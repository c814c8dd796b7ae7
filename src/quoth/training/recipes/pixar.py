"""The recipe of PIXAR: each slot names its phrase, the pooled vector all, and normalisers are 1.

    ℓ₁ = −Σ_t log P_t(d^t)    ℓ₂ = −Σ_t log P₀(d^t)    ℓ₃ = Σ_t (log Z_t)²    ℓ₁ + λ₂ ℓ₂ + λ₃ ℓ₃

All come from one pass over the head. Sums are divided by the number of phrases, so that the loss is
in nats per phrase; several targets of one query are averaged. The paper leaves open what slots
after the end learn: here the end once, and nothing after it. The pooled vector is taught phrases
alone, not the end; ℓ₃ holds for slots that have a target.

Several processes share each batch and split the head (`split_table.py`): a process encodes its
share of the queries, and meets the vectors of all with its own phrases.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from quoth.errors import ConfigError
from quoth.models.pixar.head import NUM_SYMBOLS, HeadVectors
from quoth.models.pixar.network import PhraseHead, PixarNetwork, PixarVectors, QueryBatch
from quoth.models.pixar.pixar import Pixar, trained_identity
from quoth.training.batching import Batches
from quoth.training.best_state import BestState
from quoth.training.distribution import count_processes, gather_rows, process_number
from quoth.training.identifiers.bag_contrast import Bags, bag_contrast
from quoth.training.identifiers.losses import PixarLosses, add_tail, pixar_losses
from quoth.training.identifiers.pairs import (
    IdentifierPairs,
    TargetBatch,
    phrase_counts,
)
from quoth.training.identifiers.rowwise import RowwiseOptimiser
from quoth.training.loop import (
    BeforeStep,
    Progress,
    TrainingReport,
    Validate,
    learning_rate_share,
    precision,
    seeded,
    set_dropout,
    train,
)
from quoth.training.loop_config import LoopConfig
from quoth.training.recipes.pixar_config import PixarRecipe
from quoth.training.split_table import Splits, TableSplit
from quoth.vocabulary.phrases.rarity import rarities

_MOST_VALIDATED = 4_096

Rows = NDArray[np.int64]


class PixarPairs(nn.Module):
    """What is trained: network and head; its output is the loss of a batch."""

    def __init__(self, network: PixarNetwork, head: PhraseHead, recipe: PixarRecipe) -> None:
        super().__init__()
        self.network = network
        self.head = head
        self.rowwise: RowwiseOptimiser | None = None
        self.split: TableSplit | None = None
        self.recipe = recipe
        set_dropout(network, recipe.dropout)

    @property
    def splits(self) -> Splits:
        """The parameters of which this process holds a part."""
        return {} if self.split is None else {"head.rows": self.split, "head.bias": self.split}

    def whole(self) -> PixarPairs:
        """Return the model with the phrases of all processes, all of which must ask."""
        if self.split is None:
            return self
        rows, bias = self.split.whole(self.head.rows), self.split.whole(self.head.bias)
        return PixarPairs(self.network, PhraseHead(rows, bias, unit=self.head.unit), self.recipe)

    def losses(self, queries: QueryBatch, targets: TargetBatch) -> PixarLosses:
        """Return the terms of the loss; of several processes, each has its share of the queries."""
        return self._terms(self._read(queries, targets), targets)

    def _read(self, queries: QueryBatch, targets: TargetBatch) -> PixarVectors:
        """Return the vectors of all queries of a batch, of whichever process."""
        vectors: PixarVectors = self.network(queries)
        if self.split is None:
            return vectors
        own = vectors.pooled, vectors.slots
        pooled, slots = (gather_rows(each)[: len(targets.lengths)] for each in own)
        return PixarVectors(pooled, slots)

    def _terms(self, vectors: PixarVectors, targets: TargetBatch) -> PixarLosses:
        device = vectors.pooled.device.type
        product = torch.float32
        if torch.is_autocast_enabled(device):
            product = torch.get_autocast_dtype(device)
        rows = len(self.head.bias) if self.split is None else self.split.total
        tail = self.network.config.tail
        return pixar_losses(
            vectors,
            self.head,
            wanted=add_tail(targets, tail=tail, eos_id=rows - NUM_SYMBOLS),
            chunk=self.recipe.chunk,
            dtype=product,
            split=self.split,
        )

    def forward(
        self,
        queries: QueryBatch,
        targets: TargetBatch,
        *,
        strength: float,
        bags: Bags | None = None,
    ) -> Tensor:
        """Return the loss of a batch, with a share of λ₃."""
        vectors, recipe = self._read(queries, targets), self.recipe
        terms = self._terms(vectors, targets)
        regular = recipe.normaliser_weight * strength * terms.normalisers
        named = recipe.slot_weight * terms.slots + recipe.pooled_weight * terms.pooled
        loss = named + regular
        if bags is None:
            return loss
        return loss + recipe.bag_weight * bag_contrast(
            vectors.pooled,
            self.head.rows,
            phrase_ids=targets.phrase_ids,
            bags=bags,
            unit=self.head.unit,
            split=self.split,
        )


def train_pixar(
    start: Pixar,
    pairs: IdentifierPairs,
    *,
    recipe: PixarRecipe,
    device: torch.device,
    name: str = "trained",
    loop: LoopConfig | None = None,
    progress: Callable[[Progress], None] | None = None,
    checkpoint: Path | None = None,
    validate: Validate | None = None,
    before_step: BeforeStep | None = None,
    until: int | None = None,
) -> tuple[Pixar, TrainingReport]:
    """Train a copy of a model, loaded with fast=False, on pairs, which move to the device whole.

    `validate` scores the model that is trained (`PixarPairs`), higher being better; without one it
    is the loss on held-out queries. The last step is validated whatever the interval, and the best
    state is given back, unless the recipe says otherwise. `until` stops after that step, as an
    interruption would.
    """
    _require_fit(start, pairs)
    chosen = loop or loop_config(recipe)
    with seeded(recipe.seed, device) as generator:
        model = _build(start, recipe, chosen, device)
        on_device, rows = pairs.to(device), pairs.training_rows
        weights = _bag_weights(pairs).to(device) if recipe.bag_weight else None
        best = None
        if recipe.keep_best:
            best = BestState(None if checkpoint is None else checkpoint / "best", model.splits)
        report = train(
            model,
            _batches(pairs, rows, recipe),
            lambda own, at, strength: own(
                query_batch(on_device, own_share(rows[at])),
                _targets(on_device, rows[at], model, generator),
                strength=strength,
                bags=None if weights is None else Bags(weights, on_device.passage_rows[rows[at]]),
            ),
            chosen,
            generator=generator,
            progress=progress,
            checkpoint=checkpoint,
            validate=(validate or _validation(on_device)) if chosen.validate_every else None,
            best=best,
            before_step=_keep_rate(model, recipe, chosen, before_step),
            until=until,
            splits=model.splits,
        )
        if best is not None:
            best.restore(model)
        if model.rowwise is not None:
            model.rowwise.close()
    return as_pixar(model, start, name=name), report


def loop_config(recipe: PixarRecipe) -> LoopConfig:
    """Return the loop's part of a recipe."""
    return LoopConfig(
        steps=recipe.steps,
        learning_rate=recipe.learning_rate,
        learning_rates={
            "network.encoder.": recipe.encoder_learning_rate,
            "network.log_scale": recipe.scale_learning_rate,
            "head.": recipe.head_learning_rate,
        },
        weight_decay=recipe.weight_decay,
        ramp_steps=round(recipe.normaliser_ramp * recipe.steps),
        bf16=recipe.bf16,
        report_every=recipe.report_every,
        validate_every=recipe.validate_every,
        patience=recipe.patience,
        checkpoint_every=recipe.checkpoint_every,
    )


def query_batch(pairs: IdentifierPairs, rows: Rows) -> QueryBatch:
    """Pad the queries of some inputs."""
    batch = pairs.queries.batch(pairs.query_rows[rows])
    return QueryBatch(batch.subword_ids, batch.mask)


@torch.inference_mode()
def held_out_losses(model: PixarPairs, pairs: IdentifierPairs, *, size: int = 256) -> PixarLosses:
    """Return mean terms on held-out queries, at most a few thousand, always the same targets."""
    rows = pairs.held_out_rows[:_MOST_VALIDATED]
    device = pairs.phrase_ids.device
    generator = torch.Generator(device=device).manual_seed(0)
    sums, total = torch.zeros(3, device=device), 0
    for start in range(0, len(rows), size):
        some = rows[start : start + size]
        with precision(device, bf16=model.recipe.bf16):
            terms = model.losses(
                query_batch(pairs, own_share(some) if model.split else some),
                _targets(pairs, some, model, generator),
            )
        sums += len(some) * torch.stack(terms)
        total += len(some)
    return PixarLosses(*(sums / max(total, 1)))


def own_share(rows: Rows) -> Rows:
    """Take this process's share of a batch: as many as all others, the last row again if need be.

    >>> own_share(np.array([3, 1, 4])).tolist()
    [3, 1, 4]
    """
    size = -(-len(rows) // count_processes())
    first = process_number() * size
    share: Rows = rows[np.minimum(np.arange(first, first + size), len(rows) - 1)]
    return share


def _targets(
    pairs: IdentifierPairs, rows: Rows, model: PixarPairs, generator: torch.Generator
) -> TargetBatch:
    return pairs.draw_targets(
        rows,
        count=model.recipe.targets_per_input,
        num_slots=model.network.config.num_slots,
        generator=generator,
    )


def _validation(pairs: IdentifierPairs) -> Validate | None:
    """Score a model by its loss on held-out queries: the slots' and the pooled vector's."""
    if not len(pairs.held_out_rows):
        return None

    def validate(model: nn.Module) -> float:
        assert isinstance(model, PixarPairs)
        terms = held_out_losses(model, pairs)
        own = model.recipe
        return -float(own.slot_weight * terms.slots + own.pooled_weight * terms.pooled)

    return validate


def _build(start: Pixar, recipe: PixarRecipe, loop: LoopConfig, device: torch.device) -> PixarPairs:
    """Copy a model to where it is trained."""
    split, own = None, slice(None)
    if count_processes() > 1:
        split = TableSplit.over_processes(len(start.head.bias))
        own = split.rows
    rows, bias = (torch.from_numpy(np.array(x[own])) for x in (start.head.rows, start.head.bias))
    head = PhraseHead(rows, bias, unit=start.config.unit_rows)
    model = PixarPairs(copy.deepcopy(start.network), head, recipe).to(device)
    model.split = split
    if recipe.head_optimiser != "adamw":
        model.rowwise = RowwiseOptimiser(
            model.head.rows, optimiser=recipe.head_optimiser, accumulate=loop.accumulate
        )
    return model


def _keep_rate(
    model: PixarPairs, recipe: PixarRecipe, loop: LoopConfig, others: BeforeStep | None
) -> BeforeStep:
    """Let the head's own optimiser follow the learning rate of the loop."""

    def before_step(step: int) -> str:
        if model.rowwise is not None and step <= loop.steps:
            model.rowwise.learning_rate = recipe.head_learning_rate * learning_rate_share(
                step, loop
            )
        return "" if others is None else others(step)

    return before_step


def as_pixar(model: PixarPairs, start: Pixar, *, name: str) -> Pixar:
    """Copy what is trained, at any step, and join it with the inputs it is trained with."""
    whole = model.whole()
    network = copy.deepcopy(model.network).cpu().eval()
    vectors = whole.head.vectors().cpu().numpy()
    bias = whole.head.bias.detach().cpu().numpy().copy()
    return Pixar(
        name,
        network,
        inputs=start.inputs,
        head=HeadVectors(vectors, bias),
        encoder=start.encoder,
        identity=trained_identity(name, whole, config=start.config),
    )


def _batches(pairs: IdentifierPairs, rows: Rows, recipe: PixarRecipe) -> Batches:
    """Batch queries of like length; nothing clashes in a batch."""
    each = np.arange(len(rows))
    size = min(recipe.batch_size, len(rows))
    lengths = pairs.queries.lengths[pairs.query_rows[rows]]
    return Batches(each, each, batch_size=size, seed=recipe.seed, lengths=lengths)


def _bag_weights(pairs: IdentifierPairs) -> Tensor:  # (P,)
    return torch.from_numpy(rarities(phrase_counts(pairs)[: pairs.num_phrases]))


def _require_fit(start: Pixar, pairs: IdentifierPairs) -> None:
    problems = []
    if not start.is_exact:
        problems.append("a model loaded for searching cannot be trained; load it with fast=False")
    if start.head.num_phrases != pairs.num_phrases:
        problems.append(
            f"the model knows {start.head.num_phrases:,} phrases, the pairs are made of"
            f" {pairs.num_phrases:,}; make them with the same vocabulary"
        )
    if not len(pairs.training_rows):
        problems.append("all queries are held out; lower held_out_share")
    if problems:
        raise ConfigError("; ".join(problems))
