"""Open a packed set with the PIXAR that starts on it, or one that was trained on it."""

from __future__ import annotations

import gzip
import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors.torch import load_file

from quoth.models.pixar.config import PixarConfig
from quoth.models.pixar.network import PhraseHead
from quoth.models.pixar.pixar import Pixar
from quoth.training.identifiers.pairs import (
    IdentifierPairs,
    open_identifier_pairs,
    phrase_counts,
    suggest_num_slots,
)
from quoth.training.recipes.pixar import PixarPairs, as_pixar
from quoth.training.recipes.pixar_config import PixarRecipe

MOST_SLOTS = 16


def start_model(
    folder: Path,
    vocabulary: str,
    *,
    encoder: Path,
    device: torch.device,
    rows: str = "encoder",
    seed: int = 0,
    most_slots: int = MOST_SLOTS,
    network: Mapping[str, Any] | None = None,
) -> tuple[Pixar, IdentifierPairs]:
    """Read the pairs of a vocabulary, and start an untrained model on them.

    `network` holds other settings of the model than these.
    """
    pairs = open_identifier_pairs(folder / f"{vocabulary}.bin")
    with gzip.open(folder / f"{vocabulary}.texts.gz", "rt") as stream:
        texts = json.load(stream)
    slots = min(most_slots, suggest_num_slots(pairs.identifier_lengths))
    config = replace(PixarConfig(num_slots=slots, rows=rows), **(network or {}))
    model = Pixar.start(
        str(encoder),
        num_phrases=pairs.num_phrases,
        config=config,
        phrase_texts=[text.strip() or text for text in texts],
        counts=phrase_counts(pairs),
        device=device,
        seed=seed,
    )
    return model, pairs


def restore(start: Pixar, path: Path, recipe: PixarRecipe) -> Pixar:
    """Put the tensors of a checkpoint into a model."""
    rows, bias = (torch.from_numpy(np.array(each)) for each in (start.head.rows, start.head.bias))
    head = PhraseHead(rows, bias, unit=start.config.unit_rows)
    model = PixarPairs(start.network, head, recipe)
    stored = load_file(path)  # may hold buffers that this release of transformers does not keep
    model.load_state_dict({name: stored[f"model/{name}"].float() for name in model.state_dict()})
    restored = as_pixar(model, start, name=path.name)
    restored.network.to(start.device)
    return restored


def latest_checkpoint(place: Path) -> Path:
    """Find the tensors of the last checkpoint that a training wrote.

    Raises:
        FileNotFoundError: There is none.
    """
    found = sorted(place.glob("step-*/tensors.safetensors"), key=lambda path: _step(path.parent))
    if not found:
        raise FileNotFoundError(f"{place} holds no checkpoint; train with run_gpu first")
    return found[-1]


def _step(folder: Path) -> int:
    return int(folder.name.removeprefix("step-"))
