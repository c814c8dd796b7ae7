"""Train PIXAR from files alone: what each of several processes runs, on whichever machine.

The first process writes for all. An interrupted run goes on from its last checkpoint, with as many
processes as there are then, and ends with the same model up to rounding.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import torch

from quoth.models.pixar.pixar import Pixar
from quoth.training.distribution import process_number
from quoth.training.identifiers.pairs import open_identifier_pairs
from quoth.training.loop import Progress, TrainingReport
from quoth.training.recipes.pixar import train_pixar
from quoth.training.recipes.pixar_config import PixarRecipe


@dataclass(frozen=True, slots=True)
class PixarFiles:
    """Where everything lies."""

    start: Path
    """The model to start from, saved in full precision."""

    pairs: Path
    """Queries and the identifiers of their passages."""

    checkpoint: Path
    """Folder of checkpoints, empty at first."""

    trained: Path
    """Folder for what is trained."""


def train_pixar_files(
    files: PixarFiles,
    recipe: PixarRecipe,
    *,
    device: str,
    progress: Callable[[Progress], None],
    until: int | None = None,
) -> TrainingReport:
    """Train, judged by the loss on held-out queries, and save; `until` stops after that step."""
    trained, report = train_pixar(
        Pixar.load(files.start, fast=False),
        open_identifier_pairs(files.pairs),
        recipe=recipe,
        device=torch.device(device),
        progress=progress,
        checkpoint=files.checkpoint,
        until=until,
    )
    if process_number() == 0:
        trained.save(files.trained, dtype="fp32", mapped="none")
    return report
