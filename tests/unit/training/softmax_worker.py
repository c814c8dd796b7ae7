"""One of two processes that share a vocabulary; the test compares them with one that has it all."""

from __future__ import annotations

from pathlib import Path

import torch
from safetensors.torch import save_file
from torch import Tensor

from quoth.training.identifiers.large_softmax import VocabularySplit, large_softmax

CUT = 9
"""The first phrase of the second process."""


def make_problem() -> dict[str, Tensor]:
    """Rows, a head and targets on both sides of the cut, several for some rows and none for one."""
    chance = torch.Generator().manual_seed(0)
    return {
        "rows": torch.randn(5, 6, generator=chance, dtype=torch.float64),
        "head": torch.randn(23, 6, generator=chance, dtype=torch.float64),
        "bias": torch.randn(23, generator=chance, dtype=torch.float64),
        "targets": torch.tensor([22, 3, 8, 9, 3, 0]),
        "target_rows": torch.tensor([0, 0, 1, 2, 4, 4]),
    }


def solve(problem: dict[str, Tensor], split: VocabularySplit | None = None) -> dict[str, Tensor]:
    """Return the terms and the gradients of a loss that uses all of them."""
    leaves = {name: problem[name].clone().requires_grad_() for name in ("rows", "head", "bias")}
    terms = large_softmax(
        leaves["rows"],
        leaves["head"],
        bias=leaves["bias"],
        targets=problem["targets"],
        target_rows=problem["target_rows"],
        unit=True,
        chunk=4,
        split=split,
    )
    (terms.log_normalisers.square().sum() - (terms.logits * 0.3).sum()).backward()
    found = {name: leaf.grad for name, leaf in leaves.items() if leaf.grad is not None}
    return {
        "logits": terms.logits.detach(),
        "log_normalisers": terms.log_normalisers.detach(),
        **found,
    }


def run_part(folder: Path, rank: int) -> None:
    """Do the part of one process."""
    torch.set_num_threads(1)
    torch.distributed.init_process_group(
        "gloo", init_method=f"file://{folder / 'meeting'}", rank=rank, world_size=2
    )
    own, problem = slice(CUT * rank, CUT if rank == 0 else None), make_problem()
    problem |= {name: problem[name][own] for name in ("head", "bias")}
    save_file(solve(problem, VocabularySplit(CUT * rank)), folder / f"{rank}.safetensors")
    torch.distributed.destroy_process_group()
