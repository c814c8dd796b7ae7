"""What `quoth status` says of a collection."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from quoth.app.config import KEPT_SECTIONS, Config, as_values
from quoth.app.searchers import Searchers
from quoth.collection.store import FILE_NAME, Store

_PARTS = (FILE_NAME, "lexical", "dense", "generative")


def describe(folder: Path, store: Store, ways: Searchers, *, config: Config) -> dict[str, Any]:
    """Describe a collection: sizes, fields, settings, and how current each index is."""
    return {
        "collection": str(folder),
        "documents": store.num_documents,
        "passages": store.num_passages,
        "fields": list(store.fields()),
        "change": store.change,
        "bytes": {name: _size(folder / name) for name in _PARTS},
        "indexes": ways.describe(),
        "settings": as_values(config, KEPT_SECTIONS),
    }


def _size(path: Path) -> int:
    if path.is_dir():
        return sum(each.stat().st_size for each in path.rglob("*") if each.is_file())
    return path.stat().st_size if path.exists() else 0
