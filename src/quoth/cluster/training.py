"""Train in several processes of a cluster, by Ray Train; a lost one is made up for.

Each process runs the same function with `torch.distributed` initialised (gloo on CPUs, NCCL on
GPUs), and the loop of `quoth.training` does the rest: each takes its own share of the batches,
gradients are averaged, and the first process writes checkpoints to storage that all see. When a
machine is lost, all begin again from the last checkpoint, with fewer processes if there is no room
for all; one process alone then goes on to the last bit as if nothing had happened.

What differs with several: a step reads as many batches as there are processes, so it is another
run than one process makes; and after a loss, all draw dropout as the first one did.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from quoth.cluster.connecting import hush, load_ray
from quoth.cluster.failing import root_line
from quoth.cluster.mapping import unwrap, wrap
from quoth.errors import ClusterError

MAX_LOSSES = 5
"""Machines that may be lost before training gives up."""

_SAID = "said"


def train_on_cluster(
    work: Callable[[], Any], *, folder: Path, workers: int = 1, use_gpu: bool = False
) -> None:
    """Run training work in several processes until it is done.

    `folder` is for Ray's own records, on storage that all machines see.
    """
    ray = load_ray()
    from ray.train import FailureConfig, RunConfig, ScalingConfig
    from ray.train.torch import TorchTrainer

    hush("ray.train")
    folder.mkdir(parents=True, exist_ok=True)
    trainer = TorchTrainer(
        _run,
        train_loop_config={"work": work, "said": str(folder / _SAID)},
        scaling_config=ScalingConfig(
            num_workers=workers if workers == 1 else (1, workers),  # type: ignore[arg-type]
            use_gpu=use_gpu,
        ),
        run_config=RunConfig(
            name="training",
            storage_path=str(folder.resolve()),
            failure_config=FailureConfig(max_failures=MAX_LOSSES),
        ),
    )
    (folder / _SAID).unlink(missing_ok=True)
    try:
        trainer.fit()
    except (ray.exceptions.RayError, RuntimeError) as error:  # the latter wraps what workers raise
        raise _lost(error) from error
    unwrap((folder / _SAID).read_bytes())


def _run(config: dict[str, Any]) -> None:
    """Do the work in one process; an error of ours is no loss, so it is not tried again."""
    from ray.train import get_context

    said = wrap(config["work"])
    if get_context().get_world_rank() == 0:
        Path(config["said"]).write_bytes(said)


def _lost(error: BaseException) -> ClusterError:
    return ClusterError(
        f"training on the cluster failed more than {MAX_LOSSES} times, the last time by"
        f" {root_line(error)}; the same command goes on from the last checkpoint"
    )
