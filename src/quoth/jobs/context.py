"""What a job on a collection works with."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from quoth.collection.schema import require_collection
from quoth.collection.store import FILE_NAME, Store
from quoth.engine.engine import Engine
from quoth.engine.searchers import Searchers
from quoth.search.searcher import Progress
from quoth.settings.config import Config


@dataclass(frozen=True, slots=True)
class JobContext:
    """What a job works with: one collection, opened for writing."""

    folder: Path
    store: Store
    config: Config
    make_searchers: Callable[[Store, Config], Searchers]
    progress: Progress
    note: Callable[[str], None]
    """Told what a user should know, in plain words."""


@contextmanager
def open_context(engine: Engine, note: Callable[[str], None]) -> Iterator[JobContext]:
    """Be the one writer of a collection, for a job on it."""
    require_collection(engine.folder, FILE_NAME)
    with engine.writing() as (store, config):
        yield JobContext(engine.folder, store, config, engine.make_searchers, engine.progress, note)
