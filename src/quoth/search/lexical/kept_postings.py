"""Postings of an index that exists: written where they are missing, compared with the documents."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from quoth.compiled import is_compiled
from quoth.index.lexical.index import LexicalIndex
from quoth.index.lexical.postings import FOLDER, PostingsEntry, open_segments
from quoth.index.lexical.postings_writer import PostingsWriter
from quoth.index.lexical.writer import record_postings


def complete_postings(folder: Path, fill: Callable[[PostingsWriter], None]) -> None:
    """Write all postings where an index of an earlier version, or made without compiled code, has
    none; `fill` puts every document in."""
    index = LexicalIndex.open(folder)
    if index is None or not is_compiled() or PostingsEntry.of(index.artifact) is not None:
        return
    postings = PostingsWriter(folder, index.fields)
    fill(postings)
    record_postings(folder, index.artifact, postings)


class ComparedPostings:
    """Postings written anew in a folder of their own, to be compared with those of an index."""

    def __init__(self, index: LexicalIndex, scratch: Path) -> None:
        self._index = index
        self._scratch = scratch
        can_compare = index.postings is not None
        self.fresh = PostingsWriter(scratch, index.fields) if can_compare else None
        """What documents are put into; None where there is nothing to compare with."""

    def differ(self) -> bool:
        """Whether the index has others."""
        entry = PostingsEntry.of(self._index.artifact)
        if self.fresh is None or entry is None:
            return False
        right = open_segments(self._scratch, self.fresh.finish()[0])
        return open_segments(self._index.folder, entry).digest() != right.digest()

    @property
    def place(self) -> Path:
        """Where those of the index lie."""
        return self._index.folder / FOLDER
