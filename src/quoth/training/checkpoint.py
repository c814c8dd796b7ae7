"""Save and load everything that decides how training goes on, to the last bit.

A checkpoint is a folder `step-<n>`: tensors in safetensors, the rest in JSON, no pickle. It is
written under a temporary name and renamed, so that one that can be seen is complete. The order of
batches needs no state: it follows from the seed and the step. Tables that are split over processes
are saved whole, so that any number of processes may go on.
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

import torch
from safetensors.torch import load_file
from torch import Tensor, nn

from quoth.errors import Damaged
from quoth.models.saving import save_tensors
from quoth.training.split_table import Splits, cut, join

_TENSORS, _FACTS = "tensors.safetensors", "facts.json"
_MODEL, _OPTIMISER, _CHANCE = "model/", "optimiser/", "chance/"


@dataclass(frozen=True, slots=True)
class TrainingState:
    """A moment of training: tensors by name, and plain facts."""

    step: int
    tensors: Mapping[str, Tensor]
    facts: Mapping[str, Any]

    @classmethod
    def capture(
        cls,
        network: nn.Module,
        optimiser: torch.optim.Optimizer,
        generator: torch.Generator,
        *,
        step: int,
        facts: Mapping[str, Any],
        splits: Splits | None = None,
    ) -> Self:
        """Note the state after a step; all processes that share tables must."""
        split = splits or {}
        tensors = {
            _MODEL + name: join(name, tensor, split)
            for name, tensor in _own_tensors(network).items()
        }
        for name, own in _optimiser_state(network, optimiser).items():
            tensors |= {
                f"{_OPTIMISER}{key}/{name}": join(name, value, split) for key, value in own.items()
            }
        tensors[_CHANCE + "torch"] = torch.get_rng_state()
        tensors[_CHANCE + "generator"] = generator.get_state()
        if torch.cuda.is_available():
            tensors[_CHANCE + "cuda"] = torch.cuda.get_rng_state()
        kept = {name: tensor.detach().cpu().contiguous() for name, tensor in tensors.items()}
        return cls(step, kept, facts)

    def restore(
        self,
        network: nn.Module,
        optimiser: torch.optim.Optimizer,
        generator: torch.Generator,
        *,
        splits: Splits | None = None,
    ) -> int:
        """Put the state back into a network, its optimiser and the sources of chance."""
        split = splits or {}
        own = _own_tensors(network)
        saved = self._under(_MODEL)
        if own.keys() != saved.keys():
            differing = sorted(own.keys() ^ saved.keys())[:3]
            raise Damaged(f"the checkpoint is of another network: {', '.join(differing)} differ")
        with torch.no_grad():
            for name, tensor in own.items():
                tensor.copy_(cut(name, saved[name], split))
        self._restore_optimiser(network, optimiser, split)
        torch.set_rng_state(self.tensors[_CHANCE + "torch"])
        generator.set_state(self.tensors[_CHANCE + "generator"])
        if torch.cuda.is_available() and _CHANCE + "cuda" in self.tensors:
            torch.cuda.set_rng_state(self.tensors[_CHANCE + "cuda"])
        return self.step

    def _restore_optimiser(
        self, network: nn.Module, optimiser: torch.optim.Optimizer, splits: Splits
    ) -> None:
        parameter_by_name = dict(network.named_parameters())
        for key, value in self._under(_OPTIMISER).items():
            slot, name = key.split("/", 1)
            parameter = parameter_by_name[name]
            stays = slot == "step" and not _is_fused(optimiser)  # AdamW counts steps on the CPU
            own = cut(name, value, splits)
            optimiser.state[parameter][slot] = own if stays else own.to(parameter.device)

    def _under(self, prefix: str) -> dict[str, Tensor]:
        return {
            name.removeprefix(prefix): tensor
            for name, tensor in self.tensors.items()
            if name.startswith(prefix)
        }


def save_checkpoint(folder: Path, state: TrainingState, *, keep: int = 2) -> Path:
    """Write a checkpoint in one step, and drop all but the latest few."""
    folder.mkdir(parents=True, exist_ok=True)
    target = folder / f"step-{state.step:09d}"
    temporary = target.with_suffix(".tmp")
    shutil.rmtree(temporary, ignore_errors=True)
    temporary.mkdir()
    save_tensors(state.tensors, temporary / _TENSORS)
    facts = {"step": state.step, "facts": dict(state.facts)}
    (temporary / _FACTS).write_text(json.dumps(facts))
    shutil.rmtree(target, ignore_errors=True)
    os.replace(temporary, target)
    for old in _checkpoints(folder)[:-keep]:
        shutil.rmtree(old)
    return target


def load_latest(folder: Path) -> TrainingState | None:
    """Load the checkpoint of the highest step; None where there is none."""
    found = _checkpoints(folder)
    return load_checkpoint(found[-1]) if found else None


def load_checkpoint(folder: Path) -> TrainingState:
    """Load one checkpoint."""
    try:
        content = json.loads((folder / _FACTS).read_text())
        return TrainingState(content["step"], load_file(folder / _TENSORS), content["facts"])
    except (OSError, ValueError, KeyError) as error:
        raise Damaged(f"{folder} cannot be read as a checkpoint ({error}); delete it") from error


def _checkpoints(folder: Path) -> list[Path]:
    return sorted(each for each in folder.glob("step-*") if each.suffix != ".tmp")


def _own_tensors(network: nn.Module) -> dict[str, Tensor]:
    """List parameters and buffers, those that several modules share once."""
    return dict(network.named_parameters()) | dict(network.named_buffers())


def _optimiser_state(
    network: nn.Module, optimiser: torch.optim.Optimizer
) -> dict[str, dict[str, Tensor]]:
    return {
        name: dict(optimiser.state[parameter])
        for name, parameter in network.named_parameters()
        if parameter in optimiser.state
    }


def _is_fused(optimiser: torch.optim.Optimizer) -> bool:
    return bool(optimiser.defaults.get("fused"))
