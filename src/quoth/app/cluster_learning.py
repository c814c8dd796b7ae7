"""`quoth learn --ray`: queries are written and models trained on a cluster.

All other stages stay here, so what is learned is judged and installed as without a cluster. Queries
are the same; so is the model, to the last bit, where one process trains (with as many threads).
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from quoth.cluster.mapping import map_in_order
from quoth.cluster.training import train_on_cluster
from quoth.errors import ConfigError


@dataclass(frozen=True, slots=True)
class ClusterHelp:
    """The cluster that is joined, for `learning_plan.Elsewhere`."""

    workers: int = 1
    """Processes that train together; each step reads so many times as many queries."""

    def __post_init__(self) -> None:
        if self.workers < 1:
            raise ConfigError(f"--workers is {self.workers}, expected at least 1")

    def write(
        self, chunks: Sequence[Sequence[str]], *, generator: str, settings: Mapping[str, Any]
    ) -> Iterator[list[list[str]]]:
        """Write queries for chunks of passages with a query generator, in their order."""
        return map_in_order(functools.partial(_load_writer, generator, dict(settings)), chunks)

    def train(self, packed: Path, out: Path, *, encoder: str, device: str) -> None:
        """Train what is packed, starting from an encoder, as `run_packed` does."""
        train_on_cluster(
            functools.partial(_train, packed.resolve(), out.resolve(), encoder, device),
            folder=out / "ray",
            workers=self.workers,
            use_gpu=device == "cuda",
        )


def _load_writer(
    generator: str, settings: Mapping[str, Any]
) -> Callable[[Sequence[str]], list[list[str]]]:
    from quoth.models.query_generator.generator import QueryGenerator

    return functools.partial(QueryGenerator.load(generator).generate, **settings)


def _train(packed: Path, out: Path, encoder: str, device: str) -> None:
    from quoth.training.run_packed import train_packed

    train_packed(packed, out, tell=_tell_nobody, encoder=encoder, device=device)


def _tell_nobody(_stage: str, _step: int, _steps: int) -> None:
    """Train without showing progress, which nobody would see."""
