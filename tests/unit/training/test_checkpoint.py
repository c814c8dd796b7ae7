"""Going on from a checkpoint is the same, to the last bit, as never having stopped."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from forking import run_together
from safetensors.torch import load_file
from tests.unit.training import training_worker as worker

from quoth.errors import Damaged
from quoth.training.checkpoint import TrainingState, load_latest, save_checkpoint


def state(step: int) -> TrainingState:
    return TrainingState(step, {"model/a": torch.full((2,), float(step))}, {"seen": [1, 2]})


def test_training_resumes_exactly_in_another_process(tmp_path: Path) -> None:
    recipe, loop = worker.resume_settings()
    whole = worker.run(recipe, loop)
    worker.run(recipe, loop, folder=tmp_path / "checkpoints", until=3)
    assert run_together(worker.resume, [(tmp_path,)]) == [0]
    resumed = load_file(tmp_path / "resumed.safetensors")
    for name, parameter in whole.named_parameters():
        assert torch.equal(parameter, resumed[name]), name


def test_the_latest_few_are_kept(tmp_path: Path) -> None:
    for step in (3, 6, 9):
        save_checkpoint(tmp_path, state(step), keep=2)
    assert sorted(each.name for each in tmp_path.iterdir()) == ["step-000000006", "step-000000009"]
    found = load_latest(tmp_path)
    assert found is not None
    assert (found.step, found.facts) == (9, {"seen": [1, 2]})
    assert found.tensors["model/a"].tolist() == [9.0, 9.0]


def test_an_unfinished_checkpoint_is_not_seen(tmp_path: Path) -> None:
    (tmp_path / "step-000000005.tmp").mkdir()
    assert load_latest(tmp_path) is None
    assert load_latest(tmp_path / "missing") is None


def test_a_damaged_checkpoint_says_so(tmp_path: Path) -> None:
    (save_checkpoint(tmp_path, state(1)) / "facts.json").write_text("{")
    with pytest.raises(Damaged, match="cannot be read as a checkpoint"):
        load_latest(tmp_path)


def test_another_network_is_refused(tmp_path: Path) -> None:
    network = torch.nn.Linear(2, 2)
    optimiser = torch.optim.AdamW(network.parameters())
    with pytest.raises(Damaged, match="another network"):
        state(1).restore(network, optimiser, torch.Generator())
