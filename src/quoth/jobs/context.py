"""What a job works with."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from quoth.collection.store import Store
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
