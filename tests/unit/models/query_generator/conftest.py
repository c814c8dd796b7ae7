"""A tiny generator, for all tests of this folder."""

from __future__ import annotations

from pathlib import Path

import pytest
from tiny_generator import make_generator
from transformers.utils import logging

from quoth.models.query_generator.generator import QueryGenerator

logging.disable_progress_bar()  # type: ignore[no-untyped-call]


@pytest.fixture(autouse=True)
def _on_one_thread(one_thread: None) -> None:
    """Tiny products gain nothing from threads, and the order of sums stays the same."""


@pytest.fixture(scope="session")
def generator(tmp_path_factory: pytest.TempPathFactory) -> QueryGenerator:
    return make_generator(Path(tmp_path_factory.mktemp("generator")) / "base")
