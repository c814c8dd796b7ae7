"""A tiny random BERT and eight pairs, for all tests of training."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from tests.unit.training.training_worker import make_base, make_pairs

from quoth.training.retriever.training_set import TrainingSet


@pytest.fixture(autouse=True)
def _on_one_thread(one_thread: None) -> None:
    """Tiny products gain nothing from threads, and the order of sums stays the same."""


@pytest.fixture(scope="session")
def base() -> torch.nn.Module:
    return make_base()


@pytest.fixture(scope="session")
def pairs() -> TrainingSet:
    return make_pairs(8)


@pytest.fixture
def chance() -> np.random.Generator:
    return np.random.default_rng(0)
