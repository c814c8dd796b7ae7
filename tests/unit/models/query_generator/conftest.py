"""A tiny generator, for all tests of this folder."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from tiny_generator import make_generator
from transformers.utils import logging

from quoth.models.query_generator.generator import QueryGenerator

logging.disable_progress_bar()  # type: ignore[no-untyped-call]


@pytest.fixture(autouse=True)
def one_thread() -> Iterator[None]:
    """Tiny products gain nothing from threads, and lose much where cores are shared."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture(scope="session")
def generator(tmp_path_factory: pytest.TempPathFactory) -> QueryGenerator:
    return make_generator(Path(tmp_path_factory.mktemp("generator")) / "base")
