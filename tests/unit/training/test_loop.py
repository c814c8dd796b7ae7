"""The loop: learning rates, decay, accumulation, ramp, validation, several processes."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from forking import run_together
from safetensors.torch import load_file
from tests.unit.training import training_worker as worker
from torch import nn
from torch.optim.optimizer import register_optimizer_step_pre_hook

from quoth.errors import ConfigError
from quoth.training.batching import Batches
from quoth.training.distribution import gather_rows
from quoth.training.loop import Progress, parameter_groups, train
from quoth.training.loop_config import LoopConfig
from quoth.training.recipes.glow import soften


class Line(nn.Module):
    """One number times the mean of the rows."""

    def __init__(self) -> None:
        super().__init__()
        self.factor = nn.Parameter(torch.ones(1))


def slope(model: nn.Module, rows: np.ndarray, _strength: float) -> torch.Tensor:
    return (model.factor * float(rows.mean() + 1)).sum()  # type: ignore[operator]


def batches(count: int = 8, size: int = 2) -> Batches:
    return Batches(np.arange(count), np.arange(count), batch_size=size, seed=0)


def run(config: LoopConfig, **others: object) -> tuple[Line, object]:
    line = Line()
    report = train(line, batches(), slope, config, generator=torch.Generator(), **others)  # type: ignore[arg-type]
    return line, report


def test_the_learning_rate_rises_and_falls() -> None:
    seen: list[Progress] = []
    config = LoopConfig(steps=10, learning_rate=1.0, warm_up=0.2, report_every=1)
    run(config, progress=seen.append)
    expected = [0.5, 1.0, *((10 - step + 1) / 9 for step in range(3, 11))]
    assert [each.learning_rate for each in seen] == pytest.approx(expected)


def test_biases_and_normalisations_do_not_decay() -> None:
    network = nn.ModuleDict(
        {"linear": nn.Linear(2, 2), "LayerNorm": nn.LayerNorm(2), "scorer": nn.Linear(2, 2)}
    )
    config = LoopConfig(learning_rate=1.0, weight_decay=0.1, learning_rates={"scorer.": 9.0})
    groups = {
        (g["lr"], g["weight_decay"]): len(g["params"]) for g in parameter_groups(network, config)
    }  # type: ignore[arg-type]
    assert groups == {(1.0, 0.1): 1, (1.0, 0.0): 3, (9.0, 0.1): 1, (9.0, 0.0): 1}


def test_gradients_are_clipped() -> None:
    line = Line()
    seen: list[float] = []

    def watch(*_arguments: object) -> None:
        assert line.factor.grad is not None
        seen.append(float(line.factor.grad))

    handle = register_optimizer_step_pre_hook(watch)
    train(line, batches(), slope, LoopConfig(steps=2, clip=0.5), generator=torch.Generator())
    handle.remove()
    assert seen == pytest.approx([0.5, 0.5], rel=1e-4)  # the slopes themselves are above 1


def test_training_stops_when_validation_stays_the_same() -> None:
    scores = iter([0.1, 0.3, 0.2, 0.3, 0.9])
    config = LoopConfig(steps=50, validate_every=2, patience=2)
    _, report = run(config, validate=lambda _network: next(scores))
    assert report.steps == 8  # type: ignore[attr-defined]
    assert report.validations == ((2, 0.1), (4, 0.3), (6, 0.2), (8, 0.3))  # type: ignore[attr-defined]


def test_a_reason_to_stop_is_reported_before_the_step_is_taken() -> None:
    seen: list[int] = []

    def look(step: int) -> str:
        seen.append(step)
        return "enough" if step == 4 else ""

    line, report = run(LoopConfig(steps=9, learning_rate=1e-2), before_step=look)
    assert seen == [1, 2, 3, 4]
    assert (report.steps, report.stopped_because) == (3, "enough")  # type: ignore[attr-defined]
    assert line.factor.item() < 1.0  # what was learned stays


def test_the_last_steps_are_looked_at_too() -> None:
    seen: list[int] = []
    _, report = run(LoopConfig(steps=2), before_step=lambda step: seen.append(step) or "")  # type: ignore[func-returns-value]
    assert seen == [1, 2, 3]
    assert (report.steps, report.stopped_because) == (2, "")  # type: ignore[attr-defined]


def test_weights_are_ramped_in() -> None:
    seen: list[float] = []

    def note(model: nn.Module, rows: np.ndarray, strength: float) -> torch.Tensor:
        seen.append(strength)
        return slope(model, rows, strength)

    config = LoopConfig(steps=6, ramp_steps=4)
    train(Line(), batches(), note, config, generator=torch.Generator())
    assert seen == [0.0, 0.25, 0.5, 0.75, 1.0, 1.0]


def test_softened_weights_move_from_one_to_themselves() -> None:
    batch = worker.make_pairs(4).batch(np.arange(4)).documents
    assert torch.equal(soften(batch, strength=0.0).weights, torch.ones_like(batch.weights))
    torch.testing.assert_close(soften(batch, strength=0.25).weights, 0.75 + 0.25 * batch.weights)
    assert soften(batch, strength=1.0) is batch


def test_impossible_settings_are_all_reported() -> None:
    with pytest.raises(ConfigError, match=r"steps.*warm_up is 1\.0"):
        LoopConfig(steps=0, warm_up=1.0)


def test_alone_gathering_changes_nothing() -> None:
    rows = torch.ones(2, 3)
    assert gather_rows(rows) is rows


def test_two_processes_learn_together(tmp_path: Path) -> None:
    """Apart, they are one process that adds up two batches; gathering, they see more negatives."""
    assert run_together(worker.run_pair, [(tmp_path, rank) for rank in range(2)]) == [0, 0]
    alone = worker.run(*worker.pair_settings(gather=False, accumulate=2))
    for gather in (False, True):
        first, second = (load_file(tmp_path / f"{rank}-{gather}.safetensors") for rank in range(2))
        assert all(torch.equal(first[name], second[name]) for name in first)
        furthest = max(
            float((first[name] - parameter.detach()).abs().max())
            for name, parameter in alone.named_parameters()
        )
        assert (furthest < 1e-4) is not gather
