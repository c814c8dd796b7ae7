"""The terms of passages that were kept with a collection, opened for searching, and compared."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

from quoth.collection.store import Store
from quoth.index.lexical.passage_terms import FILE_NAME, PassageTermsFile
from quoth.text.words import Analyser


def open_records(folder: Path, store: Store, analyser: Analyser) -> PassageTermsFile:
    """Open the terms of passages; an empty file of them where there are none of these settings."""
    path = folder / FILE_NAME
    if path.exists():
        opened = PassageTermsFile.open(path)
        change, log = opened.reached
        is_of_this_history = change >= 0 and log == store.log_digest(change)
        if is_of_this_history and opened.basis == record_basis(store, analyser):
            return opened
        opened.close()
    return PassageTermsFile.none()


def record_basis(store: Store, analyser: Analyser) -> dict[str, Any]:
    """Describe all that decides which passages there are, and which terms in them."""
    settings = store.setting("config") or {}
    return {"analyser": analyser.identity(), "passages": settings.get("passages")}


class ComparedRecords:
    """Records in a file, compared with the right ones as these are found out, in order of rows."""

    def __init__(self, stored: PassageTermsFile) -> None:
        self._stored = stored.all_records()
        self._differs = False
        self.is_begun = False

    def put(self, records: Iterable[tuple[int, bytes]]) -> None:
        """Compare the next records with what is stored of them."""
        self.is_begun = True
        if not self._differs:
            self._differs = any(next(self._stored, None) != each for each in records)

    def drop(self, rows: Iterable[int]) -> None:
        """Take note that documents are gone; none of them is ever compared."""

    def differs(self) -> bool:
        """Whether anything differed, or more is stored than was compared."""
        return self._differs or next(self._stored, None) is not None
