"""The recipe of the reader: MiniLM's layers learn to find answers and to tell passages apart.

One set of layers for both: questions are put to a passage that answers and to retrieved ones that
do not, natural pairs to passages like the right one (`training/reading`). The table of words stays
as it is. Held-out questions, of passages that nothing is trained on, measure what was learnt.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from quoth.constraints import (
    AtLeastOne,
    AtLeastZero,
    CheckedConfig,
    NonNegative,
    Positive,
    Seed,
    ShareBelowOne,
)
from quoth.models.reader.inputs import ReaderInputs
from quoth.models.reader.network import ReaderNetwork, ReaderScores
from quoth.models.reader.spans import MAX_SUBWORDS
from quoth.training.loop import Progress, TrainingReport, train
from quoth.training.loop_config import LoopConfig
from quoth.training.reading.ahead import MadeBatches
from quoth.training.reading.groups import GroupBatch, GroupConfig, GroupMaker, RowBatch
from quoth.training.reading.losses import reading_losses, sentence_means, sum_rows
from quoth.training.reading.set import ANSWERED, PAIR, UNANSWERED, ReadingSet

Watch = Callable[[int, ReaderNetwork], str]
"""Called before each step with its number and the network; what it returns is a reason to stop."""

Rows = NDArray[np.int64]
Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class ReaderRecipe(CheckedConfig, title="reader recipe"):
    """Settings that train a reader."""

    steps: AtLeastOne = 4_000
    """Steps of the optimiser."""

    batch_size: AtLeastOne = 96
    """Questions and pairs per batch, each with all its passages."""

    learning_rate: Positive = 2e-4
    """Highest learning rate of the layers."""

    head_learning_rate: Positive = 1e-3
    """Highest learning rate of the heads."""

    weight_decay: NonNegative = 0.01
    """Decay of weight matrices."""

    dropout: ShareBelowOne = 0.1
    """Share of states dropped while training."""

    evidence_weight: NonNegative = 0.5
    """Weight of the loss over sentences; those over spans have 1."""

    relevance_weight: NonNegative = 1.0
    """Weight of the loss over passages."""

    average_decay: ShareBelowOne = 0.0
    """Share of a running average of the weights that a step keeps; 0 keeps the last weights."""

    groups: GroupConfig = field(default_factory=GroupConfig)
    """How questions are put to passages."""

    checkpoint_every: AtLeastZero = 0
    """Steps between two checkpoints, where a folder for them is given; 0 writes none."""

    seed: Seed = 0
    """Decides the order of questions, what is drawn for them, and the dropout."""

    def loop(self) -> LoopConfig:
        """Return the loop's part of the settings."""
        heads = dict.fromkeys(("network.places.", "network.relevance."), self.head_learning_rate)
        return LoopConfig(
            steps=self.steps,
            learning_rate=self.learning_rate,
            learning_rates=heads,
            warm_up=0.06,
            weight_decay=self.weight_decay,
            checkpoint_every=self.checkpoint_every,
        )


@dataclass(frozen=True, slots=True)
class ReaderQuality:
    """How well held-out questions are read, each put to its passage and four neighbours."""

    num_questions: int
    exact: float
    """Share whose best span, over all passages, is an answer."""
    sentence: float
    """Share where it begins in a sentence that answers."""
    evidence: float
    """Share where the sentence with the most evidence answers."""
    passage: float
    """Share where the most relevant passage is the right one."""
    silence_area: float
    """How well answered questions are told from those put to neighbours alone, by the spans."""
    swapped_area: float
    """How well they are told from questions in which a word was replaced."""


class ReaderGroups(nn.Module):
    """What is trained: a network whose output is the loss of a batch of groups."""

    def __init__(self, network: ReaderNetwork, recipe: ReaderRecipe) -> None:
        super().__init__()
        self.network = network
        self._recipe = recipe
        network.encoder.embeddings.word_embeddings.requires_grad_(False)  # type: ignore[union-attr]
        for module in network.modules():
            if isinstance(module, nn.Dropout):
                module.p = recipe.dropout

    def forward(self, batch: GroupBatch) -> Tensor:
        """Return the loss of a batch."""
        sums = [sum_rows(self.network(part.sequences), part) for part in batch.parts]
        losses = reading_losses(sums, batch)
        return (
            losses.own
            + losses.shared
            + self._recipe.evidence_weight * losses.evidence
            + self._recipe.relevance_weight * losses.relevance
        )


def train_reader(
    network: ReaderNetwork,
    reading: ReadingSet,
    inputs: ReaderInputs,
    recipe: ReaderRecipe,
    *,
    device: torch.device,
    mark_id: int,
    rows: Rows | None = None,
    progress: Callable[[Progress], None] | None = None,
    checkpoint: Path | None = None,
    watch: Watch | None = None,
    workers: int = 0,
) -> tuple[ReaderNetwork, TrainingReport]:
    """Train a copy of a network on what is not held out, or on some rows.

    `workers` is how many processes put batches together; the run is the same with any number.
    `watch` may stop it early; what was learnt until then is returned.
    """
    if rows is None:
        rows = np.flatnonzero(~reading.held_out)
    maker = GroupMaker(reading, inputs, recipe.groups, mark_id=mark_id)
    chosen = rows

    def make(places: Rows) -> GroupBatch:
        own = chosen[places]
        return maker.make(own, np.random.default_rng([recipe.seed, *own[:8].tolist()]))

    size = min(recipe.batch_size, len(rows))
    batches = MadeBatches(len(rows), make, size=size, seed=recipe.seed, workers=workers)

    def loss_step(model: nn.Module, _places: Rows, _strength: float) -> Tensor:
        assert batches.made is not None
        loss: Tensor = model(batches.made.to(device))
        return loss

    with torch.random.fork_rng(devices=[device] if device.type == "cuda" else []):
        torch.manual_seed(recipe.seed)  # dropout takes no generator
        model = ReaderGroups(copy.deepcopy(network), recipe).to(device)
        average = RunningAverage(model, recipe.average_decay) if recipe.average_decay else None

        def before_step(step: int) -> str:
            if average is not None:
                average(step)
            return watch(step, model.network) if watch is not None else ""

        report = train(
            model,
            batches,
            loss_step,
            recipe.loop(),
            generator=torch.Generator(device=device).manual_seed(recipe.seed),
            progress=progress,
            checkpoint=checkpoint,
            before_step=before_step,
        )
    if average is not None:
        average.put_into(model)
    return model.network, report


class RunningAverage:
    """An average of the weights of a model, the latest counting most."""

    def __init__(self, model: nn.Module, decay: float) -> None:
        self._decay = decay
        self._trained = _trained(model)
        self._average = [each.detach().clone() for each in self._trained]
        self._taken = 0

    @torch.no_grad()
    def __call__(self, _step: int) -> str:
        """Take the weights before a step into the average; the first ones as they are."""
        self._taken += 1
        share = max(1 - self._decay, 1 / self._taken)  # a plain mean at first
        torch._foreach_lerp_(self._average, self._trained, share)
        return ""

    @torch.no_grad()
    def put_into(self, model: nn.Module) -> None:
        """Give a model the average in place of its weights."""
        torch._foreach_copy_(_trained(model), self._average)


def _trained(model: nn.Module) -> list[Tensor]:
    return [each for each in model.parameters() if each.requires_grad]


# --- held-out questions --------------------------------------------------------------------------


@torch.inference_mode()
def measure_reader(
    network: ReaderNetwork,
    reading: ReadingSet,
    inputs: ReaderInputs,
    rows: Rows,
    *,
    device: torch.device,
    mark_id: int,
    seed: int = 0,
) -> ReaderQuality:
    """Measure a network on the examples of some rows."""
    plain = GroupConfig(without_share=0.0, cut_share=0.0, crop_share=0.0, untitled_share=1.0)
    kinds = reading.kinds[rows]
    judge = _Judge(network, reading, inputs, device=device, mark_id=mark_id, seed=seed)
    own = judge.look(rows[kinds == ANSWERED], plain)
    without = judge.look(rows[kinds == ANSWERED], replace(plain, without_share=1.0))
    swapped = judge.look(rows[kinds == UNANSWERED], plain)
    pairs = judge.look(rows[kinds == PAIR], plain)
    return ReaderQuality(
        num_questions=len(own.exact),
        exact=_mean(own.exact),
        sentence=_mean(own.sentence),
        evidence=_mean(own.evidence),
        passage=_mean(np.concatenate([own.passage, pairs.passage])),
        silence_area=_area(own.margins, without.margins),
        swapped_area=_area(own.margins, swapped.margins),
    )


@dataclass(frozen=True, slots=True)
class _Look:
    """What was found for each group."""

    exact: Floats
    sentence: Floats
    evidence: Floats
    passage: Floats
    margins: Floats


class _Judge:
    """Looks at groups and says what of their answers was found."""

    def __init__(
        self,
        network: ReaderNetwork,
        reading: ReadingSet,
        inputs: ReaderInputs,
        *,
        device: torch.device,
        mark_id: int,
        seed: int,
    ) -> None:
        self._network = network.eval().to(device)
        self._reading = reading
        self._inputs = inputs
        self._device = device
        self._mark_id = mark_id
        self._seed = seed

    def look(self, rows: Rows, config: GroupConfig, *, size: int = 64) -> _Look:
        maker = GroupMaker(self._reading, self._inputs, config, mark_id=self._mark_id)
        found = [np.zeros((0, 5))]
        for start in range(0, len(rows), size):
            chance = np.random.default_rng([self._seed, start])
            batch = maker.make(rows[start : start + size], chance).to(self._device)
            found.append(self._judge(batch))
        return _Look(*np.concatenate(found).T)

    def _judge(self, batch: GroupBatch) -> Floats:  # (G, 5)
        with torch.autocast(self._device.type, torch.bfloat16, enabled=_is_cuda(self._device)):
            scores = [self._network(part.sequences) for part in batch.parts]
        columns = [_row_findings(own, part) for own, part in zip(scores, batch.parts, strict=True)]
        rows = torch.cat(columns).double().cpu().numpy()  # (R, 6)
        groups = batch.groups.cpu().numpy()
        positive = batch.is_positive.cpu().numpy()
        found = np.zeros((batch.num_groups, 5))
        for group in np.unique(groups).tolist():  # one without neighbours may be empty
            own = np.flatnonzero(groups == group)
            score, margin, exact, sentence, evidence, holds = rows[own][:, :6].T
            relevance = rows[own][:, 6]
            best = int(score.argmax())
            found[group] = (
                exact[best],
                sentence[best],
                holds[int(evidence.argmax())],
                positive[own][int(relevance.argmax())],
                margin.max(),
            )
        return found


def _row_findings(scores: ReaderScores, rows: RowBatch) -> Tensor:  # (R, 7)
    """Say of each row: best span's score and margin, whether it is right, and its sentence.

    Then the most evidence of a sentence, whether that one answers, and the relevance.
    """
    starts, ends = (
        each.masked_fill(~rows.text_mask, -torch.inf) for each in (scores.starts, scores.ends)
    )
    length = starts.shape[1]
    band = torch.ones(length, length, device=starts.device).triu().tril(MAX_SUBWORDS - 1).bool()
    spans = (starts[:, :, None] + ends[:, None, :]).masked_fill(~band, -torch.inf).flatten(1)
    score, place = spans.max(1)
    first, last = place // length, place % length
    row = torch.arange(len(place), device=place.device)
    exact = rows.starts[row, first] & rows.ends[row, last]
    means, holding = sentence_means(scores.evidence, rows)
    evidence, which = means.max(1)
    return torch.stack(
        [
            score,
            score - scores.starts[:, 0] - scores.ends[:, 0],
            exact,
            holding[row, rows.sentences[row, first]],
            evidence,
            holding[row, which],
            scores.relevance,
        ],
        dim=1,
    )


def _is_cuda(device: torch.device) -> bool:
    return device.type == "cuda"


def _mean(values: Floats) -> float:
    return float(values.mean()) if len(values) else 0.0


def _area(answered: Floats, others: Floats) -> float:
    """Return the chance that an answered question scores above another, ties counted half."""
    if not len(answered) or not len(others):
        return 0.5
    ordered = np.sort(others)
    below = np.searchsorted(ordered, answered, side="left")
    upto = np.searchsorted(ordered, answered, side="right")
    return float((below + upto).mean()) / (2 * len(others))
