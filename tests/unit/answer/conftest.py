"""A tiny model, made once for all tests of this folder."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import torch
from tiny_language_model import make_dynamic_lm
from transformers.utils import logging

from quoth.models.dynamic_lm.dynamic_lm import DynamicLM

logging.disable_progress_bar()  # type: ignore[no-untyped-call]


@pytest.fixture(autouse=True, scope="module")
def one_thread() -> Iterator[None]:
    """Tiny products gain nothing from threads."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture(scope="session")
def model(tmp_path_factory: pytest.TempPathFactory) -> DynamicLM:
    return make_dynamic_lm(tmp_path_factory.mktemp("tiny") / "llama")


@pytest.fixture(scope="session")
def eager(tmp_path_factory: pytest.TempPathFactory) -> DynamicLM:
    """A model that likes phrases: their vectors are longer."""
    made = make_dynamic_lm(tmp_path_factory.mktemp("eager") / "llama")
    with torch.no_grad():
        made.network.encoder.scale *= 2.0
    return made
