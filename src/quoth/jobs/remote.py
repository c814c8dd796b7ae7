"""Who writes queries and trains where this process does not."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from quoth.search.searcher import Progress

if TYPE_CHECKING:
    from quoth.training.identifiers.run_pixar import PixarFiles
    from quoth.training.loop import TrainingReport
    from quoth.training.recipes.pixar_config import PixarRecipe


class RemoteRunner(Protocol):
    """Other machines, which do what takes long of a learning."""

    def write(
        self, chunks: Sequence[Sequence[str]], *, generator: str, settings: Mapping[str, Any]
    ) -> Iterator[list[list[str]]]:
        """Write queries for chunks of passages with a query generator, in their order."""
        ...

    def train(self, packed: Path, out: Path, *, encoder: str, device: str, tell: Progress) -> None:
        """Train what is packed, starting from an encoder, as `run_packed` does."""
        ...

    def train_pixar(
        self, files: PixarFiles, recipe: PixarRecipe, *, device: str, tell: Progress
    ) -> TrainingReport:
        """Train generative search from files, as `run_pixar` does."""
        ...
