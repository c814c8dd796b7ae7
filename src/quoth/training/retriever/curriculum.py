"""Train a retriever from a passage set in stages: the warm-up, then RUMBArt or one like it.

Each stage leaves its network and what it did in a folder of its own, so that an interrupted
curriculum goes on inside the stage it was in. What comes out at the end may be the mean of the
network before and after (Wortsman et al. 2022): it forgets less of what the encoder could do
before, and fused with BM25 it was better than what was learned alone on most collections.

The same call trains beside a collection and on a machine that has nothing but the passage set
(`run_packed`).
"""

from __future__ import annotations

import copy
import json
import math
import os
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import torch
from safetensors.torch import load_file
from torch import nn

from quoth.artifact import write_text_atomically
from quoth.constraints import (
    AtLeastOne,
    AtLeastZero,
    CheckedConfig,
    OneOf,
    Positive,
    PositiveShare,
    Seed,
)
from quoth.errors import ConfigError, Damaged
from quoth.models.glow.network import GlowNetwork
from quoth.models.query_generator.network import QueryGeneratorNetwork
from quoth.models.saving import save_tensors
from quoth.training.distribution import process_number
from quoth.training.loop import Progress
from quoth.training.recipes.acrobart import AcrobartRecipe, train_acrobart
from quoth.training.recipes.rumbart import RumbartRecipe, train_rumbart
from quoth.training.recipes.warm_up import WarmUpRecipe, train_warm_up
from quoth.training.retriever.learning import Learned, LearningRun
from quoth.training.retriever.passage_set import PassageSet
from quoth.training.retriever.similarity import SIMILARITIES
from quoth.training.retriever.validation import held_out_mrr

WARM_UP = "warm-up"
METHODS = ("rumbart", "distil", "acrobart", "none")
_FACTS = "trained.json"
_RETRIEVER, _WRITER = "trained", "query-generator"

Tell = Callable[[str, int, int], None]
"""Told which stage is at which step of how many."""


@dataclass(frozen=True, slots=True)
class Curriculum(CheckedConfig, title="curriculum"):
    """What is trained, how long, and how it is validated meanwhile."""

    method: Annotated[str, OneOf(*METHODS)] = "none"
    """What follows the warm-up: rumbart, distil (from a frozen query generator), acrobart, none."""

    warm_up_steps: AtLeastZero = 100
    """Steps of the warm-up."""

    warm_up_batch: AtLeastOne = 128
    """Queries per step of the warm-up."""

    steps: AtLeastZero = 300
    """Steps of what follows the warm-up."""

    batch_size: AtLeastOne = 32
    """Queries per step of it."""

    k: AtLeastOne = 8
    """Passages found per query in it."""

    learning_rate: Positive = 2e-5
    """Highest learning rate of the encoder."""

    share: PositiveShare = 1.0
    """Share of what was learned in the parameters that come out; the rest is as it was before."""

    validations: AtLeastZero = 5
    """Looks at held-out queries while a stage trains, beside the one before it."""

    validation_queries: AtLeastOne = 2000
    """Most held-out queries that are looked at."""

    validation_passages: AtLeastOne = 1_000_000
    """Most passages that these are searched among."""

    checkpoint_every: AtLeastZero = 20
    """Steps between two checkpoints."""

    seed: Seed = 0
    """Decides the order of queries and what is drawn."""

    similarity: Annotated[str, OneOf(*SIMILARITIES)] = "cosine"
    """How vectors are compared in all stages; other than cosines, scores are left unscaled."""

    marginal: Annotated[str, OneOf("sequence", "token")] = "sequence"
    """What rumbart sums over passages: the probability of the query, or of each token."""

    @classmethod
    def from_record(cls, record: Mapping[str, Any]) -> Curriculum:
        """Read what `asdict` gave."""
        try:
            return cls(**record)
        except TypeError as error:
            raise Damaged(f"a curriculum is not as expected ({error}); pack it again") from error

    def fitted(self, passage_set: PassageSet) -> Curriculum:
        """Lower what a small passage set cannot fill: batches without repeats, and neighbours."""
        positives = passage_set.positive_rows[passage_set.training_rows]
        most = max(2, len(np.unique(positives)) // 2)
        return replace(
            self,
            warm_up_batch=min(self.warm_up_batch, most),
            batch_size=min(self.batch_size, most),
            k=max(2, min(self.k, passage_set.num_passages // 2)),
        )

    def warm_up(self) -> WarmUpRecipe:
        """Return the recipe of the first stage."""
        return WarmUpRecipe(
            steps=self.warm_up_steps,
            batch_size=self.warm_up_batch,
            learning_rate=self.learning_rate,
            validate_every=max(1, math.ceil(self.warm_up_steps / self.validations)),
            checkpoint_every=self.checkpoint_every,
            seed=self.seed,
            similarity=self.similarity,
            scale=WarmUpRecipe().scale if self.similarity == "cosine" else 1.0,
        )

    def joint(self) -> RumbartRecipe | AcrobartRecipe:
        """Return the recipe of the second stage."""
        common: dict[str, Any] = {
            "steps": self.steps,
            "batch_size": self.batch_size,
            "k": self.k,
            "learning_rate": self.learning_rate,
            "validate_every": max(1, math.ceil(self.steps / self.validations)),
            "checkpoint_every": self.checkpoint_every,
            "seed": self.seed,
            "similarity": self.similarity,
        }
        if self.similarity != "cosine":
            common |= {"score_scale": 1.0, "contrastive_scale": 1.0}
        if self.method == "acrobart":
            return AcrobartRecipe(**common)
        if self.method == "distil":
            return RumbartRecipe(
                objective="distil_likelihood",
                train_query_generator=False,
                **common,
            )
        return RumbartRecipe(marginal=self.marginal, **common)


@dataclass(frozen=True, slots=True)
class StageTrained:
    """What one stage did."""

    name: str
    steps: int
    best_step: int
    curve: tuple[tuple[int, float], ...]
    stopped_because: str
    seconds: float
    peak_megabytes: float

    @classmethod
    def from_record(cls, record: Mapping[str, Any]) -> StageTrained:
        """Read what `asdict` and JSON made of one."""
        try:
            curve = tuple((int(step), float(score)) for step, score in record["curve"])
            return cls(**{**record, "curve": curve})
        except (KeyError, TypeError, ValueError) as error:
            raise Damaged(f"what a stage did cannot be read ({error}); train again") from error


@dataclass(frozen=True, slots=True)
class CurriculumRun:
    """Where a curriculum is carried out."""

    device: torch.device
    folder: Path
    """Holds the stages; a run goes on from what it finds there."""

    tell: Tell


@dataclass(frozen=True, slots=True)
class CurriculumTrained:
    """What a curriculum made."""

    retriever: GlowNetwork
    query_generator: QueryGeneratorNetwork | None
    """The one that was trained with the retriever; None where it was frozen, or none was needed."""
    stages: tuple[StageTrained, ...]


def run_curriculum(
    network: GlowNetwork,
    query_generator: QueryGeneratorNetwork | None,
    passage_set: PassageSet,
    curriculum: Curriculum,
    run: CurriculumRun,
) -> CurriculumTrained:
    """Train copies of the networks stage by stage."""
    fitted = curriculum.fitted(passage_set)
    validate = _validation(passage_set, fitted)
    parts, first = _stage(
        WARM_UP,
        {_RETRIEVER: network},
        fitted.warm_up_steps,
        run,
        lambda given: train_warm_up(network, passage_set, fitted.warm_up(), given),
        validate=validate,
    )
    warm = parts[_RETRIEVER]
    assert isinstance(warm, GlowNetwork)
    if fitted.method == "none":
        return CurriculumTrained(blend(network, warm, share=fitted.share), None, (first,))
    if query_generator is None:
        raise ConfigError(f"{fitted.method} needs a query generator; name one with --generator")
    writer, recipe = query_generator, fitted.joint()

    def train_joint(given: LearningRun) -> Learned:
        if isinstance(recipe, AcrobartRecipe):
            return train_acrobart(warm, writer, passage_set, recipe, given)
        return train_rumbart(warm, writer, passage_set, recipe, given)

    start: dict[str, nn.Module] = {_RETRIEVER: warm}
    if recipe.train_query_generator:
        start[_WRITER] = writer
    parts, second = _stage(fitted.method, start, fitted.steps, run, train_joint, validate=validate)
    joint, trained = parts[_RETRIEVER], parts.get(_WRITER)
    assert isinstance(joint, GlowNetwork)
    return CurriculumTrained(
        blend(network, joint, share=fitted.share),
        trained if isinstance(trained, QueryGeneratorNetwork) else None,
        (first, second),
    )


def blend(before: GlowNetwork, after: GlowNetwork, *, share: float) -> GlowNetwork:
    """Return the network whose parameters lie between those of two networks of the same kind."""
    mixed = copy.deepcopy(after)
    pairs = zip(before.parameters(), mixed.parameters(), strict=True)  # shared ones come once
    with torch.no_grad():
        for old, own in pairs:
            own.copy_(torch.lerp(old.to(own), own, share))
    return mixed


def _validation(passage_set: PassageSet, curriculum: Curriculum) -> dict[str, Any]:
    """Say how to validate, if any query is held out."""
    if not len(passage_set.held_out_rows):
        return {}
    chosen = {
        "most": curriculum.validation_queries,
        "most_passages": curriculum.validation_passages,
    }
    return {"passage_set": passage_set, **chosen}


def _stage(
    name: str,
    start: Mapping[str, nn.Module],
    steps: int,
    run: CurriculumRun,
    train: Callable[[LearningRun], Learned],
    *,
    validate: dict[str, Any],
) -> tuple[dict[str, nn.Module], StageTrained]:
    """Train one stage, or open what an earlier run left of it; networks by the name of a part."""
    folder = run.folder / name
    if (folder / _FACTS).exists():
        return _open_stage(folder, start)
    begun = time.perf_counter()
    run.tell(name, 0, steps)
    judge = None
    if validate:
        on_device = {**validate, "passage_set": validate["passage_set"].to(run.device)}
        judge = held_out_mrr(**on_device)

    def tell(progress: Progress) -> None:
        run.tell(name, progress.step, steps)

    learned = train(LearningRun(run.device, progress=tell, checkpoint=folder, validate=judge))
    report = learned.report
    told = StageTrained(
        name,
        report.training.steps,
        0 if report.best is None else report.best[0],
        _curve(learned),
        report.stopped_because,
        time.perf_counter() - begun,
        peak_megabytes(run.device),
    )
    trained: dict[str, nn.Module] = {_RETRIEVER: learned.network.cpu()}
    if _WRITER in start and learned.query_generator is not None:
        trained[_WRITER] = learned.query_generator.cpu()
    if process_number() == 0:
        _save_stage(folder, trained, told)
    return trained, told


def _curve(learned: Learned) -> tuple[tuple[int, float], ...]:
    """Join the validations of the run with that before its first step, where it is the best."""
    report = learned.report
    points = dict((report.best, *report.training.validations) if report.best else ())
    return tuple(sorted((step, round(score, 6)) for step, score in points.items()))


def _save_stage(folder: Path, trained: Mapping[str, nn.Module], told: StageTrained) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for part, network in trained.items():
        path = _tensors(folder, part)
        temporary = path.with_name(path.name + ".tmp")
        tensors = {name: each.contiguous().clone() for name, each in network.state_dict().items()}
        save_tensors(tensors, temporary)
        os.replace(temporary, path)
    facts = json.dumps(asdict(told), indent=1) + "\n"
    write_text_atomically(folder / _FACTS, facts)  # last: a stage with its facts is complete


def _open_stage(
    folder: Path, start: Mapping[str, nn.Module]
) -> tuple[dict[str, nn.Module], StageTrained]:
    """Put what a finished stage made into copies of the networks."""
    try:
        told = json.loads((folder / _FACTS).read_text(encoding="utf-8"))
        found = {part: copy.deepcopy(network) for part, network in start.items()}
        for part, network in found.items():
            network.load_state_dict(load_file(str(_tensors(folder, part))))
    except (OSError, ValueError, RuntimeError) as error:
        raise Damaged(f"{folder} cannot be read ({error}); delete it to train again") from error
    return found, StageTrained.from_record(told)


def _tensors(folder: Path, part: str) -> Path:
    return folder / f"{part}.safetensors"


def peak_megabytes(device: torch.device | None = None) -> float:
    """Return the most memory that this process has used so far; a GPU's own where it is on one."""
    if device is not None and device.type == "cuda":
        return float(torch.cuda.max_memory_allocated(device)) / 2**20
    try:
        import resource
    except ImportError:  # Windows has no such thing
        return 0.0
    used = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return used / (2**20 if sys.platform == "darwin" else 2**10)
