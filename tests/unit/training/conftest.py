"""A tiny random BERT and eight pairs, for all tests of training."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest
import torch
from tests.unit.training.training_worker import make_base, make_pairs

from quoth.training.retriever.training_set import TrainingSet


@pytest.fixture(autouse=True)
def one_thread() -> Iterator[None]:
    """Tiny products gain nothing from threads, and lose much where cores are shared."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture(scope="session")
def base() -> torch.nn.Module:
    return make_base()


@pytest.fixture(scope="session")
def pairs() -> TrainingSet:
    return make_pairs(8)


@pytest.fixture
def chance() -> np.random.Generator:
    return np.random.default_rng(0)
