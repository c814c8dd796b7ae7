"""Keep the best state that a run has passed through, also over an interruption.

A run that goes on from a checkpoint may have seen its best state before: with a folder, that state
and its score stand beside the checkpoints. Only what is trained is kept, and tables that are split
over processes are kept whole.
"""

from __future__ import annotations

import os
from pathlib import Path

import torch
from safetensors import safe_open
from torch import Tensor, nn

from quoth.models.saving import save_tensors
from quoth.training.distribution import process_number
from quoth.training.split_table import Splits, cut, join

_FILE = "best.safetensors"


class BestState:
    """The trained parameters at the highest score so far."""

    def __init__(self, folder: Path | None = None, splits: Splits | None = None) -> None:
        """Keep in memory, and in a folder where one is given; one found there counts."""
        self._folder = folder
        self._splits = splits or {}
        self._tensors: dict[str, Tensor] = {}
        self.best: tuple[int, float] | None = None
        """Step and score of the best state so far."""
        if folder is not None and (folder / _FILE).exists():
            with safe_open(folder / _FILE, framework="pt") as stored:
                self._tensors = {name: stored.get_tensor(name) for name in stored.keys()}  # noqa: SIM118
                facts = stored.metadata()
            self.best = (int(facts["step"]), float(facts["score"]))

    def offer(self, model: nn.Module, score: float, *, step: int = 0) -> None:
        """Keep the state of a model if it is better than all before."""
        if self.best is not None and score <= self.best[1]:
            return
        self.best = (step, score)
        self._tensors = {
            name: join(name, parameter.detach(), self._splits).cpu().clone()
            for name, parameter in model.named_parameters()
            if parameter.requires_grad
        }
        if self._folder is not None and process_number() == 0:
            self._folder.mkdir(parents=True, exist_ok=True)
            temporary = self._folder / f"{_FILE}.tmp"
            facts = {"step": str(step), "score": repr(score)}
            save_tensors(self._tensors, temporary, metadata=facts)
            os.replace(temporary, self._folder / _FILE)

    @torch.no_grad()
    def restore(self, model: nn.Module) -> None:
        """Put the best state into a model; where none was offered it stays as it is."""
        parameters = dict(model.named_parameters())
        for name, tensor in self._tensors.items():
            parameters[name].copy_(cut(name, tensor, self._splits))
