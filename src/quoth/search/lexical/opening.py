"""Open a lexical index for those who search with a given analyser."""

from __future__ import annotations

from pathlib import Path

from quoth.errors import CollectionError, IndexMismatch
from quoth.index.lexical.index import LexicalIndex
from quoth.text.words import Analyser


def open_index(folder: Path, analyser: Analyser) -> LexicalIndex:
    """Open an index that was built with this very analyser, or say how to get one."""
    index = LexicalIndex.open(folder)
    collection = folder.parent
    if index is None:
        raise CollectionError(
            f'{collection} has no lexical index yet; run "quoth verify {collection} --repair"'
        )
    require_analyser(index, analyser, collection)
    return index


def require_analyser(index: LexicalIndex, analyser: Analyser, collection: Path) -> None:
    """Refuse an index that was built with another analyser."""
    built, wanted = index.artifact.config["analyser"], analyser.identity()
    if built != wanted:
        differing = ", ".join(
            f"{key} = {built.get(key)!r} (now {wanted.get(key)!r})"
            for key in wanted
            if built.get(key) != wanted.get(key)
        )
        raise IndexMismatch(
            f"the lexical index of {collection} was built with {differing}; keep those settings, or"
            f' rebuild {index.num_documents:,} documents with "quoth verify {collection} --repair"'
        )
