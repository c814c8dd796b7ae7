"""Open a collection, in one piece or in shards."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

from quoth.collection.shards import is_sharded
from quoth.engine.engine import Engine
from quoth.search.searcher import Progress, ignore_progress
from quoth.settings.config import Values

if TYPE_CHECKING:
    from quoth.shards.engine import ShardedEngine

OpenedEngine: TypeAlias = "Engine | ShardedEngine"
"""What a collection is used through, however it lies on disk."""


def open_engine(
    folder: str | Path, *, settings: Sequence[Values] = (), progress: Progress = ignore_progress
) -> OpenedEngine:
    """Open what lies in a folder; the first `add` makes a collection in one piece."""
    if is_sharded(Path(folder)):
        from quoth.shards.engine import ShardedEngine

        return ShardedEngine.open(folder, settings=settings, progress=progress)
    return Engine.open(folder, settings=settings, progress=progress)
