"""The recipe of the query generator: passages and the queries that belong to them, teacher-forced.

Pairs are natural ones (titles, headings and questions with the text they head) or a collection's
own. Held-out pairs, split by document, decide when to stop and which state is kept; how much worse
they become under another's passage tells whether the generator reads passages at all.
"""

from __future__ import annotations

import copy
import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from quoth.constraints import (
    FREE,
    AtLeastOne,
    AtLeastZero,
    CheckedConfig,
    Positive,
    Seed,
    ShareBelowOne,
)
from quoth.errors import ConfigError
from quoth.models.query_generator.generator import QueryGenerator
from quoth.models.query_generator.inputs import QueryGeneratorInputs
from quoth.models.query_generator.loading import Network
from quoth.models.query_generator.network import TextBatch
from quoth.training.batching import Batches
from quoth.training.best_state import BestState
from quoth.training.loop import Progress, TrainingReport, seeded, set_dropout, train
from quoth.training.loop_config import LoopConfig
from quoth.training.retriever.training_set import TrainingSet
from quoth.training.sequences import SequenceTable

Rows = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class QueryGeneratorRecipe(CheckedConfig, title="query generator recipe"):
    """Settings that train a query generator."""

    steps: AtLeastOne = 1500
    """Steps of the optimiser."""

    batch_size: AtLeastOne = 512
    """Pairs per batch."""

    learning_rate: Positive = 6e-4
    """Highest learning rate of the decoder, or of all of another's model."""

    encoder_learning_rate: Positive = 2e-4
    """Highest learning rate of the encoder, where it is trained."""

    weight_decay: Annotated[float, FREE] = 0.01
    """Decay of weight matrices."""

    dropout: ShareBelowOne = 0.1
    """Share of states dropped while training."""

    label_smoothing: ShareBelowOne = 0.0
    """Share of the probability that is spread over all subwords in the loss."""

    holdout: ShareBelowOne = 0.02
    """Share of the documents whose pairs are held out, where no split is given."""

    max_held_out: AtLeastOne = 2_048
    """Most held-out pairs that are looked at, drawn by seed; the others are not trained on."""

    validate_every: AtLeastZero = 100
    """Steps between two looks at the held-out pairs; 0 never looks."""

    patience: AtLeastZero = 5
    """Looks without improvement after which training stops; 0 never stops early."""

    source_caps: Mapping[str, AtLeastOne] = field(default_factory=lambda: {"medquad": 2_000})
    """Most pairs of a source, drawn by seed: templated sources leak their templates."""

    seed: Seed = 0
    """Decides the order of pairs, the split, the caps and the dropout."""

    def loop(self) -> LoopConfig:
        """Return the loop's part of the settings."""
        return LoopConfig(
            steps=self.steps,
            learning_rate=self.learning_rate,
            learning_rates={"network.encoder.": self.encoder_learning_rate},
            weight_decay=self.weight_decay,
            validate_every=self.validate_every,
            patience=self.patience,
        )


FINE_TUNING = QueryGeneratorRecipe(
    steps=200, batch_size=64, learning_rate=1e-4, encoder_learning_rate=2e-5, validate_every=25
)
"""What suits a generator that already knows how queries look."""


@dataclass(frozen=True, slots=True)
class QueryPair:
    """A passage and a query that belongs to it."""

    passage: str
    query: str
    source: str = ""


@dataclass(frozen=True, slots=True)
class HeldOutLoss:
    """Nats per token on held-out pairs, with their own passages and with others'."""

    own: float
    shuffled: float
    num_pairs: int


@dataclass(frozen=True, slots=True)
class QueryGeneratorReport:
    """What a run did."""

    training: TrainingReport
    best_step: int
    pairs_by_source: Mapping[str, int]
    held_out: HeldOutLoss | None


class QueryGeneratorPairs(nn.Module):
    """What is trained: a network whose output is the mean loss per token of a batch."""

    def __init__(self, network: Network, recipe: QueryGeneratorRecipe) -> None:
        super().__init__()
        self.network = network
        self._label_smoothing = recipe.label_smoothing
        set_dropout(network, recipe.dropout)

    def forward(self, passages: TextBatch, queries: TextBatch) -> Tensor:
        """Return the loss of a batch."""
        states = self.network.encode(passages)
        losses = self.network.target_losses(
            queries, states, passages.mask, label_smoothing=self._label_smoothing
        )
        return losses.sum() / queries.mask.sum()


def train_query_generator(
    network: Network,
    pairs: TrainingSet,
    recipe: QueryGeneratorRecipe,
    *,
    device: torch.device,
    held_out: NDArray[np.bool_] | None = None,  # (pairs,)
    loop: LoopConfig | None = None,
    progress: Callable[[Progress], None] | None = None,
    checkpoint: Path | None = None,
    until: int | None = None,
) -> tuple[Network, QueryGeneratorReport]:
    """Train a copy of a network, and give it in its best state on the held-out pairs.

    Without `held_out`, documents are split by the recipe. The pairs move to the device whole.
    """
    if held_out is None:
        held_out = split_documents(pairs.document_rows, share=recipe.holdout, seed=recipe.seed)
    rows = capped_rows(pairs, np.flatnonzero(~held_out), recipe)
    unseen = held_out_rows(held_out, recipe)
    with seeded(recipe.seed, device) as generator:
        model = QueryGeneratorPairs(copy.deepcopy(network), recipe).to(device)
        on_device = pairs.to(device)
        best = BestState(None if checkpoint is None else checkpoint / "best")
        report = train(
            model,
            _batches(pairs, rows, recipe),
            lambda own, at, _strength: own(*text_batches(on_device, rows[at])),
            loop or recipe.loop(),
            generator=generator,
            progress=progress,
            checkpoint=checkpoint,
            validate=_validation(on_device, unseen, best) if len(unseen) else None,
            until=until,
        )
    best.restore(model)
    loss = measure_held_out(model.network, on_device, unseen) if len(unseen) else None
    scores = dict((score, step) for step, score in reversed(report.validations))
    step = scores[max(scores)] if scores else report.steps
    return model.network, QueryGeneratorReport(report, step, count_sources(pairs, rows), loss)


def fine_tune(
    generator: QueryGenerator,
    pairs: Sequence[QueryPair],
    recipe: QueryGeneratorRecipe = FINE_TUNING,
    *,
    progress: Callable[[Progress], None] | None = None,
    checkpoint: Path | None = None,
) -> tuple[QueryGenerator, QueryGeneratorReport]:
    """Train a generator further on the pairs of a collection; the one given stays as it is."""
    if not generator.is_exact:
        raise ConfigError("a generator in bf16 cannot be trained; load it with fast=False")
    network, report = train_query_generator(
        generator.network,
        tokenise_pairs(pairs, generator.inputs),
        recipe,
        device=generator.device,
        progress=progress,
        checkpoint=checkpoint,
    )
    name = f"{generator.name}-tuned"
    identity = {"name": name, "digest": _digest(network), "config": asdict(generator.config)}
    tuned = QueryGenerator(
        name,
        network,
        generator.inputs,
        generator.config,
        encoder=generator.encoder,
        identity=identity,
    )
    return tuned, report


def tokenise_pairs(pairs: Sequence[QueryPair], inputs: QueryGeneratorInputs) -> TrainingSet:
    """Turn pairs into a training set in memory; each passage is kept once."""
    if not pairs:
        raise ConfigError("there are no pairs to learn from; give passages with their queries")
    row_by_passage: dict[str, int] = {}
    rows = [row_by_passage.setdefault(pair.passage, len(row_by_passage)) for pair in pairs]
    id_by_source: dict[str, int] = {}
    sources = [id_by_source.setdefault(pair.source, len(id_by_source)) for pair in pairs]
    pad = inputs.symbols.pad
    return TrainingSet(
        queries=SequenceTable.join(inputs.queries([pair.query for pair in pairs]), pad=pad),
        documents=SequenceTable.join(inputs.passages(list(row_by_passage)), pad=pad),
        query_rows=np.arange(len(pairs)),
        document_rows=np.array(rows, dtype=np.int64),
        source_ids=np.array(sources, dtype=np.uint8),
        sources=tuple(id_by_source),
    )


def text_batches(pairs: TrainingSet, rows: Rows) -> tuple[TextBatch, TextBatch]:
    """Return the passages and the queries of some pairs as padded batches."""
    batch = pairs.batch(rows)
    return (
        TextBatch(batch.documents.subword_ids, batch.documents.mask),
        TextBatch(batch.queries.subword_ids, batch.queries.mask),
    )


def split_documents(
    document_rows: NDArray[Any], *, share: float, seed: int
) -> NDArray[np.bool_]:  # (pairs,)
    """Choose documents by seed, and mark their pairs as held out.

    >>> held_out = split_documents(np.array([0, 1, 1, 2]), share=0.4, seed=0)
    >>> int(held_out.sum()) in (1, 2), bool(held_out[1] == held_out[2])
    (True, True)
    """
    documents = np.unique(document_rows)
    count = round(share * len(documents))
    chosen = np.random.default_rng([seed, 1]).permutation(documents)[:count]
    return np.isin(document_rows, chosen)


def held_out_rows(held_out: NDArray[np.bool_], recipe: QueryGeneratorRecipe) -> Rows:
    """Draw the held-out pairs that are looked at."""
    chance = np.random.default_rng([recipe.seed, 3])
    return np.sort(chance.permutation(np.flatnonzero(held_out))[: recipe.max_held_out])


def capped_rows(pairs: TrainingSet, rows: Rows, recipe: QueryGeneratorRecipe) -> Rows:
    """Draw the allowed number of pairs of each source that has a cap; keep the others."""
    chance = np.random.default_rng([recipe.seed, 2])
    kept = np.ones(len(rows), dtype=bool)
    for source_id, source in enumerate(pairs.sources):
        own = np.flatnonzero(pairs.source_ids[rows] == source_id)
        cap = recipe.source_caps.get(source, len(own))
        kept[chance.permutation(own)[cap:]] = False
    return rows[kept]


def count_sources(pairs: TrainingSet, rows: Rows) -> dict[str, int]:
    """Count the pairs of each source among some rows."""
    counts = np.bincount(pairs.source_ids[rows], minlength=len(pairs.sources))
    return {source: int(count) for source, count in zip(pairs.sources, counts, strict=False)}


def measure_held_out(network: Network, pairs: TrainingSet, rows: Rows) -> HeldOutLoss:
    """Measure the loss on pairs under their own passages, and under those of other pairs."""
    order = np.random.default_rng(0).permutation(rows)
    own = loss_per_token(network, pairs, order, passages_of=order)
    shuffled = loss_per_token(network, pairs, order, passages_of=np.roll(order, 1))
    return HeldOutLoss(own, shuffled, len(rows))


@torch.inference_mode()
def loss_per_token(
    network: Network, pairs: TrainingSet, rows: Rows, *, passages_of: Rows, size: int = 128
) -> float:
    """Return the mean of −log p over all tokens of some pairs' queries, in nats."""
    total, tokens = 0.0, 0
    for start in range(0, len(rows), size):
        passages, _ = text_batches(pairs, passages_of[start : start + size])
        _, queries = text_batches(pairs, rows[start : start + size])
        is_cuda = queries.mask.device.type == "cuda"
        with torch.autocast(queries.mask.device.type, dtype=torch.bfloat16, enabled=is_cuda):
            found = network.log_probs(queries, network.encode(passages), passages.mask)
        total -= float(found.double().sum())
        tokens += int(queries.mask.sum())
    return total / max(tokens, 1)


def _validation(pairs: TrainingSet, rows: Rows, best: BestState) -> Callable[[nn.Module], float]:
    """Score a state by its held-out loss, and keep it where it is the best so far."""

    def validate(model: nn.Module) -> float:
        score = -loss_per_token(model.network, pairs, rows, passages_of=rows)  # type: ignore[arg-type]
        best.offer(model, score)
        return score

    return validate


def _batches(pairs: TrainingSet, rows: Rows, recipe: QueryGeneratorRecipe) -> Batches:
    """Batch pairs of like length; unlike in contrastive training, nothing clashes in a batch."""
    each = np.arange(len(rows))
    size = min(recipe.batch_size, len(rows))
    lengths = pairs.documents.lengths[pairs.document_rows[rows]]
    return Batches(each, each, batch_size=size, seed=recipe.seed, lengths=lengths)


def _digest(network: nn.Module) -> str:
    digest = hashlib.sha256()
    for _name, parameter in sorted(network.named_parameters()):
        digest.update(parameter.detach().float().cpu().numpy().tobytes())
    return digest.hexdigest()
