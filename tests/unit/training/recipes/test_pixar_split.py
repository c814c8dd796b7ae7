"""PIXAR trained by several processes, each with a stretch of the head, is PIXAR trained by one."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import asdict, replace
from pathlib import Path

import numpy as np
import pytest
from safetensors import safe_open
from tests.unit.training.recipes import pixar_worker as worker
from tests.unit.training.recipes.test_pixar import ANSWERS, RECIPE, make_pairs, make_start
from tests.unit.training.test_identifier_pairs import WORDS
from tiny_encoder import save_tiny_encoder

from quoth.models.pixar.head import NUM_SYMBOLS
from quoth.models.pixar.pixar import Pixar
from quoth.training.identifiers.pairs import save_identifier_pairs

pytestmark = pytest.mark.slow  # every process loads torch and transformers
PROCESSES = 3
SHARED = replace(RECIPE, steps=12, batch_size=4, bag_weight=1.0, validate_every=2, report_every=1)
"""Neither the four queries nor the ten rows of the head can be shared evenly among three."""


@pytest.fixture
def folders(tmp_path: Path) -> tuple[Path, Path]:
    """Make the same start twice."""
    pairs = make_pairs(held_out_share=0.3)
    start = make_start(save_tiny_encoder(tmp_path / "base"), pairs)
    for name in ("alone", "together"):
        (tmp_path / name).mkdir()
        start.save(tmp_path / name / "start", dtype="fp32", mapped="none")
        save_identifier_pairs(tmp_path / name / "pairs.bin", pairs)
        (tmp_path / name / "recipe.json").write_text(json.dumps(asdict(SHARED)))
    return tmp_path / "alone", tmp_path / "together"


def train_together(folder: Path, *, last: int) -> None:
    command = [sys.executable, worker.__file__, str(folder)]
    ends = [str(PROCESSES), str(last)]
    running = [subprocess.Popen([*command, str(rank), *ends]) for rank in range(PROCESSES)]
    assert [each.wait(timeout=300) for each in running] == [0] * PROCESSES


def test_processes_come_and_go_and_the_model_is_that_of_one(folders: tuple[Path, Path]) -> None:
    alone, together = folders
    expected = worker.train_folder(alone)
    worker.train_folder(together, until=4)
    train_together(together, last=8)
    held = together / "checkpoints" / "step-000000008" / "tensors.safetensors"
    with safe_open(held, framework="pt") as tensors:  # type: ignore[no-untyped-call]
        for name in ("model/head.rows", "optimiser/exp_avg/head.rows", "model/head.bias"):
            assert len(tensors.get_tensor(name)) == len(WORDS) + NUM_SYMBOLS
    found = worker.train_folder(together)
    for name in ("losses", "validations"):
        np.testing.assert_allclose(getattr(found, name), getattr(expected, name), rtol=1e-4)
    one, many = (Pixar.load(folder / "trained", fast=False) for folder in (alone, together))
    np.testing.assert_allclose(many.head.rows, one.head.rows, atol=1e-4)
    np.testing.assert_allclose(many.head.bias, one.head.bias, atol=1e-4)
    # By vectors: parameters that nothing depends on, as biases of keys, follow rounding alone.
    queries = list(ANSWERS)
    for kind in ("pooled", "slots"):
        vectors = [getattr(each.encode_queries(queries), kind) for each in (one, many)]
        np.testing.assert_allclose(vectors[1], vectors[0], atol=1e-3)
