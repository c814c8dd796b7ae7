"""How a retriever learns without labels, whatever the loss: index, monitors, best state.

A recipe gives a `LearningModule`, whose output for some rows of queries is the loss; everything
around it is here. The best state by validation is kept beside the last one, on disk too where there
are checkpoints, so that neither an interruption nor a collapse loses it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from quoth.errors import ConfigError
from quoth.models.glow.network import GlowNetwork
from quoth.models.query_generator.network import QueryGeneratorNetwork
from quoth.training.batching import Batches
from quoth.training.best_state import BestState
from quoth.training.loop import Progress, TrainingReport, train
from quoth.training.loop_config import LoopConfig
from quoth.training.retriever.monitors import Bounds, Health, Monitor
from quoth.training.retriever.passage_set import PassageSet
from quoth.training.retriever.refresh import PassageIndex, Refresher
from quoth.training.retriever.retriever import LayerRetriever, Retriever, VectorMaker

Validate = Callable[[VectorMaker], float]
"""A score of a retriever, higher is better; `validation.held_out_mrr` makes one."""

Rows = NDArray[np.int64]


class LearningModule(nn.Module):
    """What is trained: a retriever and what its loss needs. Recipes define `forward`.

    `forward(rows, generator=…)` gives the loss of the queries of some rows.
    """

    def __init__(
        self, retriever: Retriever | LayerRetriever, *, index: PassageIndex | None
    ) -> None:
        super().__init__()
        self.retriever = retriever
        self.index = index
        self.monitor: Monitor | None = None


@dataclass(frozen=True, slots=True)
class RetrieverReport:
    """What a run did, step by step."""

    training: TrainingReport
    best: tuple[int, float] | None
    """Step and score of the best validation; step 0 is the start."""
    health: tuple[Health, ...]
    """What the monitors saw, window by window."""
    refreshes: tuple[tuple[int, float], ...]
    """Steps at which the index was made anew, with the overlap of old and new."""

    @property
    def last(self) -> tuple[int, float] | None:
        """Step and score of the last validation."""
        return self.training.validations[-1] if self.training.validations else None

    @property
    def stopped_because(self) -> str:
        """Why the monitors stopped the run; empty where they did not."""
        return self.training.stopped_because


@dataclass(frozen=True, slots=True)
class Learned:
    """A trained retriever in its best state (its last, without validation), and the last one."""

    retriever: Retriever | LayerRetriever
    query_generator: QueryGeneratorNetwork | None
    last_state: dict[str, Tensor]
    """Parameters of the whole module after the last step, by name, on the CPU."""
    report: RetrieverReport

    @property
    def network(self) -> GlowNetwork:
        """The dual encoder."""
        if isinstance(self.retriever, LayerRetriever):
            raise ConfigError("a single model has no dual encoder; its retriever is the generator")
        return self.retriever.network


@dataclass(frozen=True, slots=True)
class LearningRun:
    """How a run is carried out, apart from what is learned."""

    device: torch.device
    loop: LoopConfig | None = None
    """Settings of the loop, instead of those the recipe gives."""
    progress: Callable[[Progress], None] | None = None
    checkpoint: Path | None = None
    """Folder of checkpoints; a run goes on from the latest one."""
    validate: Validate | None = None
    bounds: Bounds = field(default_factory=Bounds)
    """When the monitors stop a run that retrieves; `NO_BOUNDS` only watches."""


def learn(
    module: LearningModule,
    passage_set: PassageSet,
    loop: LoopConfig,
    run: LearningRun,
    *,
    batch_size: int,
    seed: int,
    refresher: Refresher | None = None,
    query_generator: QueryGeneratorNetwork | None = None,
) -> Learned:
    """Train a module in place and leave it in its best state.

    The module, which holds the query generator if there is one, and the passage set are on the
    run's device already.
    """
    best, validate = BestState(run.checkpoint), run.validate
    hooks = _Hooks(module, refresher, best, validate, steps=loop.steps)
    generator = torch.Generator(device=run.device).manual_seed(seed)
    rows = passage_set.training_rows
    keys = query_keys(passage_set)[rows]
    report = train(
        module,
        Batches(passage_set.positive_rows[rows], keys, batch_size=batch_size, seed=seed),
        lambda model, places, _strength: model(rows[places], generator=generator),
        loop,
        generator=generator,
        progress=run.progress,
        checkpoint=run.checkpoint,
        validate=None if validate is None else lambda _network: validate(module.retriever),
        best=best,
        before_step=hooks.before_step,
    )
    health = tuple(module.monitor.history) if module.monitor is not None else ()
    told = RetrieverReport(report, best.best, health, tuple(hooks.refreshes))
    last_state = state_of(module)
    best.restore(module)
    module.eval()
    return Learned(module.retriever, query_generator, last_state, told)


def state_of(module: nn.Module) -> dict[str, Tensor]:
    """Copy the parameters of a module to the CPU."""
    return {name: each.detach().cpu().clone() for name, each in module.named_parameters()}


def query_keys(passage_set: PassageSet) -> Rows:
    """Number the queries so that equal ones have equal numbers."""
    ids = passage_set.queries.subword_ids.cpu().numpy()
    offsets = passage_set.queries.offsets.cpu().numpy()
    number: dict[bytes, int] = {}
    pieces = (ids[a:b].tobytes() for a, b in pairwise(offsets.tolist()))
    return np.array([number.setdefault(each, len(number)) for each in pieces], dtype=np.int64)


class _Hooks:
    """What happens between steps: the index is kept up, and the monitors judge."""

    def __init__(
        self,
        module: LearningModule,
        refresher: Refresher | None,
        best: BestState,
        validate: Validate | None,
        *,
        steps: int,
    ) -> None:
        self._module = module
        self._refresher = refresher
        self._best = best
        self._validate = validate
        self._steps = steps
        self.refreshes: list[tuple[int, float]] = []

    def before_step(self, step: int) -> str:
        """Refresh if due, then give the monitors' verdict on the steps before this one.

        The start is validated too, so a run that helps nothing gives back what it was given.
        """
        monitor = self._module.monitor
        self._module.eval()
        if step == 1 and self._validate is not None and self._best.best is None:
            self._best.offer(self._module, self._validate(self._module.retriever))
        share = None
        if self._refresher is not None and step <= self._steps:
            share = self._refresher.before_step(step)
        self._module.train()
        if share is not None:
            self.refreshes.append((step, share))
            if monitor is not None and step > 1:
                monitor.note_overlap(share)
        return "" if monitor is None else monitor.judge(step - 1)
