"""What `quoth status` says of a collection."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from quoth.collection.sources import read_sources
from quoth.collection.store import FILE_NAME, Store
from quoth.engine.searchers import Searchers
from quoth.errors import MissingExtra
from quoth.search.searcher import IndexedSearcher
from quoth.settings.config import STORED_SECTIONS, Config, as_values

_PARTS = (FILE_NAME, "lexical", "dense", "generative")
MAX_FILTERS = 4
"""So many keys of the metadata are named, with an example each."""


def describe(folder: Path, store: Store, searchers: Searchers, *, config: Config) -> dict[str, Any]:
    """Describe a collection: sizes, fields, filters, settings, and how current each index is."""
    return {
        "collection": str(folder),
        "documents": store.num_documents,
        "passages": store.num_passages,
        "fields": list(store.fields()),
        "filters": _filters(store),
        "sources": [each.name for each in read_sources(store).folders],
        "change": store.change,
        "bytes": {name: _size(folder / name) for name in _PARTS},
        "indexes": _describe_indexes(searchers),
        "settings": as_values(config, STORED_SECTIONS),
    }


def _filters(store: Store) -> dict[str, dict[str, Any]]:
    """Name some keys of the metadata: the kind of their values, one value, a condition on it."""
    return {
        each.key: {"kind": each.kind, "value": each.value, "condition": each.condition}
        for each in store.filter_examples(most=MAX_FILTERS)
    }


def _size(path: Path) -> int:
    if path.is_dir():
        return sum(each.stat().st_size for each in path.rglob("*") if each.is_file())
    return path.stat().st_size if path.exists() else 0


def _describe_indexes(searchers: Searchers) -> dict[str, dict[str, Any]]:
    """Describe every index that is kept."""
    described = {"lexical": searchers.lexical(syntax=True).describe()}
    if searchers.has_vectors:
        unfinished = {} if searchers.is_encoded else {"unfinished": True}
        described["dense"] = _describe_index(searchers.dense_side) | unfinished
    if searchers.has_generative:
        described["generative"] = _describe_index(searchers.generative)
    return described


def _describe_index(give: Callable[[], IndexedSearcher]) -> dict[str, Any]:
    try:
        return give().describe()
    except MissingExtra as error:
        return {"unavailable": str(error)}
