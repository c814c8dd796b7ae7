"""Open a collection, in one piece or in shards."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from quoth.collection.shards import is_sharded
from quoth.engine.engine import Engine
from quoth.errors import CollectionError
from quoth.search.searcher import Progress, ignore_progress
from quoth.settings.config import Values
from quoth.shards.engine import ShardedEngine

OpenedEngine = Engine | ShardedEngine
"""What a collection is used through, however it lies on disk."""


def open_engine(
    folder: str | Path, *, settings: Sequence[Values] = (), progress: Progress = ignore_progress
) -> OpenedEngine:
    """Open what lies in a folder; the first `add` makes a collection in one piece."""
    if is_sharded(Path(folder)):
        return ShardedEngine.open(folder, settings=settings, progress=progress)
    return Engine.open(folder, settings=settings, progress=progress)


def require_whole(engine: OpenedEngine, *, what: str) -> Engine:
    """Refuse a collection in shards for what needs it in one piece."""
    if isinstance(engine, ShardedEngine):
        raise CollectionError(
            f"{engine.folder} is in shards, and {what} needs a collection in one piece; join them"
            f' first with "quoth merge {engine.folder} --out COLLECTION"'
        )
    return engine
