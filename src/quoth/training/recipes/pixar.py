"""The recipe of PIXAR: each slot names its phrase, the pooled vector all, and normalisers are 1.

    ℓ₁ = −Σ_t log P_t(d^t)    ℓ₂ = −Σ_t log P₀(d^t)    ℓ₃ = Σ_t (log Z_t)²    ℓ₁ + λ₂ ℓ₂ + λ₃ ℓ₃

All come from one pass over the head. Sums are divided by the number of phrases, so that the loss is
in nats per phrase; several targets of one query are averaged. The paper leaves open what slots
after the end learn: here the end once, and nothing after it. The pooled vector is taught phrases
alone, not the end; ℓ₃ holds for slots that have a target.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

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
from quoth.training.large_softmax import CHUNK, large_softmax
from quoth.training.loop import (
    BeforeStep,
    LoopConfig,
    Progress,
    TrainingReport,
    learning_rate_share,
    train,
)
from quoth.training.recipes.pixar_config import PixarRecipe
from quoth.training.rowwise import RowwiseOptimiser
from quoth.training.selfsupervision.identifier_pairs import NONE, IdentifierPairs, TargetBatch

_MOST_VALIDATED = 4_096

Validate = Callable[[nn.Module], float]
Rows = NDArray[np.int64]


class PixarLosses(NamedTuple):
    """The three sums, each over the number of phrases."""

    slots: Tensor  # ℓ₁
    pooled: Tensor  # ℓ₂
    normalisers: Tensor  # ℓ₃


class PixarPairs(nn.Module):
    """What is trained: network and head; its output is the loss of a batch."""

    def __init__(self, network: PixarNetwork, head: PhraseHead, recipe: PixarRecipe) -> None:
        super().__init__()
        self.network = network
        self.head = head
        self.rowwise: RowwiseOptimiser | None = None
        self.recipe = recipe
        for module in network.modules():
            if isinstance(module, nn.Dropout):
                module.p = recipe.dropout

    def losses(self, queries: QueryBatch, targets: TargetBatch) -> PixarLosses:
        """Give the terms of the loss."""
        device = queries.mask.device.type
        product = torch.float32
        if torch.is_autocast_enabled(device):
            product = torch.get_autocast_dtype(device)
        wanted = add_tail(
            targets, tail=self.network.config.tail, eos_id=len(self.head.bias) - NUM_SYMBOLS
        )
        return pixar_losses(
            self.network(queries), self.head, wanted=wanted, chunk=self.recipe.chunk, dtype=product
        )

    def forward(self, queries: QueryBatch, targets: TargetBatch, *, strength: float) -> Tensor:
        """Give the loss of a batch, with a share of λ₃."""
        terms, recipe = self.losses(queries, targets), self.recipe
        regular = recipe.normaliser_weight * strength * terms.normalisers
        return terms.slots + recipe.pooled_weight * terms.pooled + regular


def add_tail(targets: TargetBatch, *, tail: str, eos_id: int) -> Tensor:  # (B, K, S)
    """Say what slots after an identifier are taught; padding follows the end in the head.

    >>> two = TargetBatch(torch.tensor([[[7, 8, -1, -1]]]), torch.tensor([[2]]))
    >>> [add_tail(two, tail=tail, eos_id=9).flatten().tolist() for tail in ("eos", "pad", "none")]
    [[7, 8, 9, -1], [7, 8, 9, 10], [7, 8, -1, -1]]
    """
    wanted, lengths = targets.phrase_ids, targets.lengths[..., None]
    slots = torch.arange(wanted.shape[-1], device=wanted.device)
    if tail in ("eos", "pad"):
        wanted = wanted.masked_fill((slots == lengths) & (lengths > 0), eos_id)
    if tail == "pad":
        wanted = wanted.masked_fill((slots > lengths) & (lengths > 0), eos_id + 1)
    return wanted


def pixar_losses(
    vectors: PixarVectors,
    head: PhraseHead,
    *,
    wanted: Tensor,  # (B, K, S) int64 rows of the head, NONE where nothing is taught
    chunk: int = CHUNK,
    dtype: torch.dtype = torch.float32,
) -> PixarLosses:
    """Compute the three terms in one pass over the head; products are made in `dtype`."""
    is_wanted = wanted != NONE
    count = is_wanted.any(2).sum(1).clamp_min(1)  # (B,) targets of each query
    shares = is_wanted / count[:, None, None]  # (B, K, S)
    use = shares.sum(1)  # (B, S) share of the targets that teach a slot
    active = use > 0
    number = active.flatten().cumsum(0).view_as(active) - 1  # which active slot each is
    query, target, slot = is_wanted.nonzero(as_tuple=True)
    phrases, share = wanted[query, target, slot], shares[query, target, slot]
    is_phrase = phrases < len(head.bias) - NUM_SYMBOLS
    slot_rows = number[query, slot]
    pooled_rows = active.sum() + query[is_phrase]
    terms = large_softmax(
        torch.cat((vectors.slots[active], vectors.pooled)),
        head.rows,
        targets=torch.cat((phrases, phrases[is_phrase])),
        target_rows=torch.cat((slot_rows, pooled_rows)),
        bias=head.bias,
        unit=head.unit,
        chunk=chunk,
        dtype=dtype,
    )
    normalisers, total = terms.log_normalisers, share.sum().clamp_min(1e-12)
    of_slots = share * (normalisers[slot_rows] - terms.logits[: len(phrases)])
    of_pooled = share[is_phrase] * (normalisers[pooled_rows] - terms.logits[len(phrases) :])
    squares = use[active] * normalisers[: len(normalisers) - len(vectors.pooled)].square()
    return PixarLosses(of_slots.sum() / total, of_pooled.sum() / total, squares.sum() / total)


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
    with torch.random.fork_rng(devices=[device] if device.type == "cuda" else []):
        torch.manual_seed(recipe.seed)  # dropout takes no generator
        model = _build(start, recipe, chosen, device)
        generator = torch.Generator(device=device).manual_seed(recipe.seed)
        on_device, rows = pairs.to(device), pairs.training_rows
        best = None
        if recipe.keep_best:
            best = BestState(None if checkpoint is None else checkpoint / "best")
        judge = _Judge(validate or _validation(on_device), best, chosen)
        report = train(
            model,
            _batches(pairs, rows, recipe),
            lambda own, at, strength: own(
                query_batch(on_device, rows[at]),
                _targets(on_device, rows[at], model, generator),
                strength=strength,
            ),
            chosen,
            generator=generator,
            progress=progress,
            checkpoint=checkpoint,
            validate=judge.validate if judge.is_wanted else None,
            before_step=judge.before_step(_keep_rate(model, recipe, chosen, before_step)),
            until=until,
        )
        report = judge.end(model, report)
        if model.rowwise is not None:
            model.rowwise.close()
    return as_pixar(model, start, name=name), report


def loop_config(recipe: PixarRecipe) -> LoopConfig:
    """Give the loop's part of a recipe."""
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
    """Give the mean terms on held-out queries, at most a few thousand, always the same targets."""
    rows = pairs.held_out_rows[:_MOST_VALIDATED]
    device = pairs.phrase_ids.device
    generator = torch.Generator(device=device).manual_seed(0)
    sums, total = torch.zeros(3, device=device), 0
    for start in range(0, len(rows), size):
        some = rows[start : start + size]
        with _precision(device, model.recipe):
            terms = model.losses(query_batch(pairs, some), _targets(pairs, some, model, generator))
        sums += len(some) * torch.stack(terms)
        total += len(some)
    return PixarLosses(*(sums / max(total, 1)))


def _precision(device: torch.device, recipe: PixarRecipe) -> AbstractContextManager[object]:
    """Validate as training computes: in bf16 on a GPU."""
    if device.type == "cuda" and recipe.bf16:
        return torch.autocast("cuda", dtype=torch.bfloat16)
    return nullcontext()


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
        return -float(terms.slots + model.recipe.pooled_weight * terms.pooled)

    return validate


class _Judge:
    """Validates and keeps the best state, also over an interruption."""

    def __init__(self, validate: Validate | None, best: BestState | None, loop: LoopConfig) -> None:
        self._validate = validate
        self._best = best
        self._loop = loop
        self._step = 0

    @property
    def is_wanted(self) -> bool:
        """Whether there is anything to validate by."""
        return self._validate is not None and self._loop.validate_every > 0

    def before_step(self, others: BeforeStep) -> BeforeStep:
        """Note which step follows, before others do their part."""

        def note(step: int) -> str:
            self._step = step
            return others(step)

        return note

    def validate(self, model: nn.Module) -> float:
        """Score a model, and keep its state if it is the best so far."""
        assert self._validate is not None
        score = self._validate(model)
        if self._best is not None:
            self._best.offer(model, score, step=self._step)
        return score

    def end(self, model: PixarPairs, report: TrainingReport) -> TrainingReport:
        """Validate the last step unless it was, and put the best state into the model."""
        seen = report.validations
        is_unseen = not seen or seen[-1][0] != report.steps
        if self.is_wanted and is_unseen and report.steps == self._loop.steps:
            self._step = report.steps
            seen = (*seen, (report.steps, self.validate(model)))
        if self._best is not None:
            self._best.restore(model)
        return replace(report, validations=seen)


def _build(start: Pixar, recipe: PixarRecipe, loop: LoopConfig, device: torch.device) -> PixarPairs:
    """Copy a model to where it is trained."""
    rows, bias = (torch.from_numpy(np.array(each)) for each in (start.head.rows, start.head.bias))
    head = PhraseHead(rows, bias, unit=start.config.unit_rows)
    model = PixarPairs(copy.deepcopy(start.network), head, recipe).to(device)
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
    network = copy.deepcopy(model.network).cpu().eval()
    vectors = model.head.vectors().cpu().numpy()
    bias = model.head.bias.detach().cpu().numpy().copy()
    return Pixar(
        name,
        network,
        inputs=start.inputs,
        head=HeadVectors(vectors, bias),
        encoder=start.encoder,
        identity=trained_identity(name, model, config=start.config),
    )


def _batches(pairs: IdentifierPairs, rows: Rows, recipe: PixarRecipe) -> Batches:
    """Batch queries of like length; nothing clashes in a batch."""
    each = np.arange(len(rows))
    size = min(recipe.batch_size, len(rows))
    lengths = pairs.queries.lengths[pairs.query_rows[rows]]
    return Batches(each, each, batch_size=size, seed=recipe.seed, lengths=lengths)


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
