"""`quoth learn --ray`: queries are written and models trained on a cluster.

All other stages stay here, so what is learned is judged and installed as without a cluster. Queries
are the same; so is the model, to the last bit, where one process trains (with as many threads).
PIXAR is judged there by its loss on held-out queries, not by searching for them, as the collection
is here.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from quoth.cluster.mapping import map_in_order
from quoth.cluster.training import Tell, train_on_cluster
from quoth.errors import ConfigError
from quoth.training.recipes.pixar_config import PixarRecipe

if TYPE_CHECKING:
    from quoth.training.identifiers.run_pixar import PixarFiles
    from quoth.training.loop import TrainingReport


@dataclass(frozen=True, slots=True)
class ClusterHelp:
    """The cluster that is joined, which does what takes long of a job."""

    workers: int = 1
    """Processes that train together."""

    def __post_init__(self) -> None:
        if self.workers < 1:
            raise ConfigError(f"--workers is {self.workers}, expected at least 1")

    def write(
        self, chunks: Sequence[Sequence[str]], *, generator: str, settings: Mapping[str, Any]
    ) -> Iterator[list[list[str]]]:
        """Write queries for chunks of passages with a query generator, in their order."""
        return map_in_order(functools.partial(_load_writer, generator, dict(settings)), chunks)

    def train(self, packed: Path, out: Path, *, encoder: str, device: str, tell: Tell) -> None:
        """Train what is packed, starting from an encoder, as `run_packed` does.

        Each step reads so many times as many queries as there are processes.
        """
        train_on_cluster(
            functools.partial(_train, packed.resolve(), out.resolve(), encoder, device),
            folder=out / "ray",
            tell=tell,
            workers=self.workers,
            use_gpu=device == "cuda",
        )

    def train_pixar(
        self, files: PixarFiles, recipe: PixarRecipe, *, device: str, tell: Tell
    ) -> TrainingReport:
        """Train PIXAR, as `run_pixar` does; its processes share each batch and split its head."""
        report: TrainingReport = train_on_cluster(
            functools.partial(_train_pixar, files, recipe, device),
            folder=files.checkpoint / "ray",
            tell=tell,
            workers=self.workers,
            use_gpu=device == "cuda",
        )
        return report


def _load_writer(
    generator: str, settings: Mapping[str, Any]
) -> Callable[[Sequence[str]], list[list[str]]]:
    from quoth.models.query_generator.generator import QueryGenerator

    return functools.partial(QueryGenerator.load(generator).generate, **settings)


def _train(packed: Path, out: Path, encoder: str, device: str, tell: Tell) -> None:
    from quoth.training.retriever.run_packed import train_packed

    train_packed(packed, out, tell=tell, encoder=encoder, device=device)


def _train_pixar(files: PixarFiles, recipe: PixarRecipe, device: str, tell: Tell) -> TrainingReport:
    from quoth.training.identifiers.run_pixar import train_pixar_files

    return train_pixar_files(
        files,
        recipe,
        device=device,
        progress=lambda report: tell("training", report.step, recipe.steps),
    )
