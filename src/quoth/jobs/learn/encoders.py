"""The encoder of a learning: which one search goes by, and where one is kept that is not used."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path

from quoth.artifact import seal_folder
from quoth.settings.config import Config
from quoth.settings.stored import ASIDE, MODELS


def with_encoder(config: Config, encoder: str) -> Config:
    """Search by another encoder."""
    return replace(config, dense=replace(config.dense, encoder=encoder))


def set_aside(folder: Path, name: str) -> None:
    """Keep a model where search does not look, and drop its vectors."""
    shutil.rmtree(folder / "dense" / name, ignore_errors=True)
    model, aside = folder / MODELS / name, folder / MODELS / (name + ASIDE)
    if model.exists():
        shutil.rmtree(aside, ignore_errors=True)
        seal_folder(model)
        model.rename(aside)
