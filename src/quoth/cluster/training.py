"""Train in several processes of a cluster, by Ray Train; a lost one is made up for.

Each process runs the same function with `torch.distributed` initialised (gloo on CPUs, NCCL on
GPUs), and the loop of `quoth.training` does the rest: each takes its own share of the batches,
gradients are averaged, and the first process writes checkpoints to storage that all see. When a
machine is lost, all begin again from the last checkpoint, with fewer processes if there is no room
for all; one process alone then goes on to the last bit as if nothing had happened.

What differs with several: where each process has batches of its own, a step reads as many as there
are processes, so it is another run than one process makes (PIXAR's processes share each batch and
split its head, so there it is the same up to rounding); and after a loss, all draw dropout as the
first one did.

How far training is, the first process writes to a file from time to time, where it is read here.
"""

from __future__ import annotations

import contextlib
import json
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from quoth.artifact import write_text_atomically
from quoth.cluster.connecting import hush, load_ray
from quoth.cluster.failing import root_line
from quoth.cluster.mapping import unwrap, wrap
from quoth.errors import ClusterError

MAX_LOSSES = 5
"""Machines that may be lost before training gives up."""

Tell = Callable[[str, int, int], None]
"""Told what is trained, at which step of how many."""

_SAID, _TOLD = "said", "progress.json"
_TELLING_SECONDS = 0.5


def train_on_cluster(
    work: Callable[[Tell], Any],
    *,
    folder: Path,
    tell: Tell,
    workers: int = 1,
    use_gpu: bool = False,
) -> Any:
    """Run training work in several processes until it is done; gives what the first one returned.

    `folder` is for Ray's own records, on storage that all machines see. `tell` is called here with
    what the work tells there, from another thread and not of every step.
    """
    ray = load_ray()
    from ray.train import FailureConfig, RunConfig, ScalingConfig
    from ray.train.torch import TorchTrainer

    hush("ray.train")
    folder.mkdir(parents=True, exist_ok=True)
    trainer = TorchTrainer(
        _run,
        train_loop_config={"work": work, "folder": str(folder.resolve())},
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
    for name in (_SAID, _TOLD):
        (folder / name).unlink(missing_ok=True)
    try:
        with _following(folder / _TOLD, tell):
            trainer.fit()
    except (ray.exceptions.RayError, RuntimeError) as error:  # the latter wraps what workers raise
        raise _lost(error) from error
    return unwrap((folder / _SAID).read_bytes())


def _run(config: dict[str, Any]) -> None:
    """Do the work in one process; an error of ours is no loss, so it is not tried again."""
    from ray.train import get_context

    folder, is_first = Path(config["folder"]), get_context().get_world_rank() == 0
    tell = _Telling(folder / _TOLD) if is_first else _tell_nobody
    said = wrap(lambda: config["work"](tell))
    if is_first:
        (folder / _SAID).write_bytes(said)


class _Telling:
    """Writes how far training is to a file; not every step, which may take milliseconds."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._next = 0.0

    def __call__(self, stage: str, step: int, steps: int) -> None:
        now = time.monotonic()
        if now >= self._next or step == steps:
            self._next = now + _TELLING_SECONDS
            write_text_atomically(self._path, json.dumps([stage, step, steps]))


def _tell_nobody(_stage: str, _step: int, _steps: int) -> None:
    """Leave telling to the first process."""


@contextlib.contextmanager
def _following(path: Path, tell: Tell) -> Iterator[None]:
    """Tell what is written to a file as long as the block lasts."""
    is_over = threading.Event()

    def follow() -> None:
        last: list[Any] = []
        while True:
            is_last = is_over.wait(_TELLING_SECONDS)
            found = json.loads(path.read_text()) if path.exists() else last
            if found != last:
                tell(*found)
            last = found
            if is_last:
                return

    follower = threading.Thread(target=follow, name="quoth-training", daemon=True)
    follower.start()
    try:
        yield
    finally:
        is_over.set()
        follower.join()


def _lost(error: BaseException) -> ClusterError:
    return ClusterError(
        f"training on the cluster failed more than {MAX_LOSSES} times, the last time by"
        f" {root_line(error)}; the same command goes on from the last checkpoint"
    )
