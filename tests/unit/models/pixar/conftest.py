"""A tiny encoder and models made from it, for all tests of this folder."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from tiny_encoder import save_tiny_encoder
from transformers.utils import logging

from quoth.models.pixar.config import PixarConfig
from quoth.models.pixar.pixar import Pixar

logging.disable_progress_bar()  # type: ignore[no-untyped-call]
PHRASES = ("barn owl", "night", "raven", "two birds", "on the wing", "mouse")


@pytest.fixture(autouse=True)
def _on_one_thread(one_thread: None) -> None:
    """Tiny products gain nothing from threads, and the order of sums stays the same."""


@pytest.fixture(scope="session")
def base(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save_tiny_encoder(tmp_path_factory.mktemp("pixar") / "base", positions=32)


@pytest.fixture(scope="session")
def start(base: Path):  # type: ignore[no-untyped-def]
    """Make models whose slots differ, as if they had been trained."""

    def make(config: PixarConfig, *, seed: int = 0) -> Pixar:
        made = Pixar.start(
            str(base),
            num_phrases=len(PHRASES),
            config=config,
            phrase_texts=PHRASES,
            counts=np.arange(len(PHRASES) + 2),
            seed=seed,
        )
        chance = torch.Generator().manual_seed(seed)
        with torch.no_grad():
            weight = made.network.output.weight
            weight += 0.3 * torch.randn(weight.shape, generator=chance)
        return made

    return make
