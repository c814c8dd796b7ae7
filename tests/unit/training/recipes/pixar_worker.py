"""One of several processes that train PIXAR together; the test compares them with one alone.

python pixar_worker.py <folder> <rank> <processes> <last step>
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import torch

from quoth.training.identifiers.run_pixar import PixarFiles, train_pixar_files
from quoth.training.loop import TrainingReport
from quoth.training.recipes.pixar_config import PixarRecipe


def train_folder(folder: Path, *, until: int | None = None) -> TrainingReport:
    """Train what lies in a folder, by the recipe that lies there."""
    names = ("start", "pairs.bin", "checkpoints", "trained")
    return train_pixar_files(
        PixarFiles(*(folder / name for name in names)),
        PixarRecipe(**json.loads((folder / "recipe.json").read_text())),
        device="cpu",
        progress=lambda _report: None,
        until=until,
    )


def main() -> None:
    """Do the part of one process."""
    folder, rank, processes, last = Path(sys.argv[1]), *map(int, sys.argv[2:])
    torch.set_num_threads(1)
    torch.distributed.init_process_group(
        "gloo", init_method=f"file://{folder / 'meeting'}", rank=rank, world_size=processes
    )
    train_folder(folder, until=last)
    torch.distributed.destroy_process_group()


if __name__ == "__main__":
    main()
