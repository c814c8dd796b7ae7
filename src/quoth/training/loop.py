"""The training loop, written out: one for every model.

It knows steps, gradients and learning rates; what a batch is and what is lowered is told by
`batches` and `loss_step`. Everything is counted in steps, so that a run on a slower machine is the
same run. Where `torch.distributed` is initialised, each process takes its own share of the batches
and gradients are averaged by DistributedDataParallel. Where tables are split over the processes
(`split_table.py`), all take the same batches, and their parts of the tables are left alone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel

from quoth.training.batching import Batches
from quoth.training.best_state import BestState
from quoth.training.checkpoint import TrainingState, load_latest, save_checkpoint
from quoth.training.distribution import agree, count_processes, is_distributed, process_number
from quoth.training.loop_config import LoopConfig
from quoth.training.split_table import Splits, clip_gradients

LossStep = Callable[[nn.Module, NDArray[np.int64], float], Tensor]
"""The loss of a batch of rows, given the network and the strength of the weights (0 to 1)."""

Validate = Callable[[nn.Module], float]
"""Scores a network that is trained; higher is better."""

BeforeStep = Callable[[int], str]
"""Called before each step with its number, to keep up what steps rest on (an index); anything but
an empty string is the reason to stop before that step. Called with the number after the last step
as well, so that the last steps are judged too."""


class Progress(NamedTuple):
    """What a run reports while it goes on."""

    step: int
    loss: float
    learning_rate: float
    validation: float | None = None


@dataclass(frozen=True, slots=True)
class TrainingReport:
    """What a run did."""

    steps: int
    losses: tuple[tuple[int, float], ...]
    validations: tuple[tuple[int, float], ...]
    stopped_because: str = ""
    """Why a run ended before its time; empty where it did not, or ran out of patience."""


def train(
    network: nn.Module,
    batches: Batches,
    loss_step: LossStep,
    config: LoopConfig,
    *,
    generator: torch.Generator,
    progress: Callable[[Progress], None] | None = None,
    checkpoint: Path | None = None,
    validate: Validate | None = None,
    best: BestState | None = None,
    before_step: BeforeStep | None = None,
    until: int | None = None,
    splits: Splits | None = None,
) -> TrainingReport:
    """Train a network in place, going on from the latest checkpoint where there is one.

    `best` keeps the state that validates best, for the caller to restore; the last step is then
    validated whatever the interval. `until` stops after that step, as an interruption would, and
    writes a checkpoint. `splits` names the parameters of which this process holds a part only;
    `loss_step` then gives the loss of the whole batch.
    """
    split = splits or {}
    device = next(network.parameters()).device
    optimiser = _make_optimiser(network, config, device)
    first, memory = 0, _Memory()
    if checkpoint is not None and (state := load_latest(checkpoint)) is not None:
        first = state.restore(network, optimiser, generator, splits=split)
        memory = _Memory(**state.facts)
    model = _wrap(network, device, split)
    network.train()
    last = min(config.steps, until or config.steps)
    done, reason = first, ""
    for step in range(first + 1, last + 1):
        if config.patience and memory.stale >= config.patience:
            break
        if before_step is not None and (reason := agree(before_step(step))):
            break
        loss = _one_step(model, batches, loss_step, optimiser, config, step=step, splits=split)
        reports = _is_due(step, config.report_every) or step == config.steps
        score = None
        if validate is not None and _is_due(step, config.validate_every):
            score = memory.judge(network, validate, best, step=step)
        if reports or score is not None:
            memory.losses.append((step, float(loss)))
            if progress is not None:
                progress(Progress(step, float(loss), optimiser.param_groups[0]["lr"], score))
        done, interrupted = step, until is not None and step == last
        if checkpoint is not None and (_is_due(step, config.checkpoint_every) or interrupted):
            state = TrainingState.capture(
                network, optimiser, generator, step=step, facts=memory.facts(), splits=split
            )
            if process_number() == 0:
                save_checkpoint(checkpoint, state)
    if before_step is not None and done == config.steps:
        reason = agree(before_step(done + 1))
    is_ended = until is None or done == config.steps
    if validate is not None and best is not None and is_ended and memory.last_validated != done:
        memory.judge(network, validate, best, step=done)
    network.eval()
    return TrainingReport(done, tuple(memory.losses), tuple(memory.validations), reason)


@contextmanager
def seeded(seed: int, device: torch.device) -> Iterator[torch.Generator]:
    """Seed what takes no generator, fresh layers and dropout, and yield one for the rest."""
    with torch.random.fork_rng(devices=[device] if device.type == "cuda" else []):
        torch.manual_seed(seed)
        yield torch.Generator(device=device).manual_seed(seed)


def set_dropout(network: nn.Module, share: float) -> None:
    """Drop a share of the states of a network while it trains."""
    for module in network.modules():
        if isinstance(module, nn.Dropout):
            module.p = share


def precision(device: torch.device, *, bf16: bool) -> AbstractContextManager[object]:
    """Compute in bf16 on a GPU, where that is asked for."""
    if device.type == "cuda" and bf16:
        return torch.autocast("cuda", dtype=torch.bfloat16)
    return nullcontext()


def learning_rate_share(step: int, config: LoopConfig) -> float:
    """Return the share of the highest learning rate at a step counted from 1.

    >>> config = LoopConfig(steps=5, warm_up=0.4)
    >>> [learning_rate_share(step, config) for step in (1, 2, 3, 4, 5)]
    [0.5, 1.0, 0.75, 0.5, 0.25]
    """
    rising = round(config.warm_up * config.steps)
    if step <= rising:
        return step / rising
    return (config.steps - step + 1) / (config.steps - rising + 1)


def weight_strength(step: int, config: LoopConfig) -> float:
    """Return the share γ of the word weights that is in force at a step counted from 1.

    >>> [weight_strength(step, LoopConfig(ramp_steps=4)) for step in (1, 3, 9)]
    [0.0, 0.5, 1.0]
    """
    return 1.0 if not config.ramp_steps else min(1.0, (step - 1) / config.ramp_steps)


def parameter_groups(network: nn.Module, config: LoopConfig) -> list[dict[str, object]]:
    """Sort parameters by learning rate, and by whether they decay: matrices and tables do."""
    groups: dict[tuple[float, float], list[nn.Parameter]] = {}
    for name, parameter in network.named_parameters():
        if not parameter.requires_grad:
            continue
        decays = parameter.ndim >= 2 and "LayerNorm" not in name
        rate = next(
            (rate for prefix, rate in config.learning_rates.items() if name.startswith(prefix)),
            config.learning_rate,
        )
        groups.setdefault((rate, config.weight_decay if decays else 0.0), []).append(parameter)
    return [
        {"params": parameters, "lr": rate, "highest_lr": rate, "weight_decay": decay}
        for (rate, decay), parameters in groups.items()
    ]


def _make_optimiser(
    network: nn.Module, config: LoopConfig, device: torch.device
) -> torch.optim.Optimizer:
    groups = parameter_groups(network, config)
    return torch.optim.AdamW(groups, betas=(0.9, 0.999), fused=device.type == "cuda")


def _one_step(
    model: nn.Module,
    batches: Batches,
    loss_step: LossStep,
    optimiser: torch.optim.Optimizer,
    config: LoopConfig,
    *,
    step: int,
    splits: Splits,
) -> Tensor:
    """Add up the gradients of the step's batches, clip them, and move the parameters."""
    share, strength = learning_rate_share(step, config), weight_strength(step, config)
    for group in optimiser.param_groups:
        group["lr"] = share * group["highest_lr"]
    total = torch.zeros((), device=next(model.parameters()).device)
    for number in _numbers(step, config, is_shared=bool(splits)):
        with precision(total.device, bf16=config.bf16):
            loss = loss_step(model, batches[number], strength) / config.accumulate
        loss.backward()  # type: ignore[no-untyped-call]
        total += loss.detach()
    clip_gradients(model, config.clip, splits)
    optimiser.step()
    optimiser.zero_grad(set_to_none=True)
    return total


class _Memory:
    """What a run remembers besides its tensors; it travels in the checkpoint."""

    def __init__(
        self,
        losses: list[tuple[int, float]] | None = None,
        validations: list[tuple[int, float]] | None = None,
        stale: int = 0,
    ) -> None:
        self.losses = [(step, loss) for step, loss in losses or []]
        self.validations = [(step, score) for step, score in validations or []]
        self.stale = stale

    @property
    def last_validated(self) -> int:
        """The step that was validated last; 0 before the first."""
        return self.validations[-1][0] if self.validations else 0

    def judge(
        self, network: nn.Module, validate: Validate, best: BestState | None, *, step: int
    ) -> float:
        """Validate, and note whether that is the best so far."""
        network.eval()
        score = validate(network)
        network.train()
        highest = max((score for _step, score in self.validations), default=float("-inf"))
        self.stale = 0 if score > highest else self.stale + 1
        self.validations.append((step, score))
        if best is not None:
            best.offer(network, score, step=step)
        return score

    def facts(self) -> dict[str, object]:
        return {"losses": self.losses, "validations": self.validations, "stale": self.stale}


def _numbers(step: int, config: LoopConfig, *, is_shared: bool) -> Iterator[int]:
    """Number the batches of a step; each process takes every n-th, unless they share them."""
    for at in range(config.accumulate):
        number = (step - 1) * config.accumulate + at
        yield number if is_shared else number * count_processes() + process_number()


def _wrap(network: nn.Module, device: torch.device, splits: Splits) -> nn.Module:
    if not is_distributed():
        return network
    ids = [device] if device.type == "cuda" else None
    leave_alone = DistributedDataParallel._set_params_and_buffers_to_ignore_for_model
    leave_alone(network, list(splits))  # type: ignore[no-untyped-call]
    return DistributedDataParallel(network, device_ids=ids, find_unused_parameters=True)


def _is_due(step: int, every: int) -> bool:
    return bool(every) and step % every == 0
