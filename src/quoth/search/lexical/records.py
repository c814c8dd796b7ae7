"""The terms of passages that were kept with a collection, opened for searching."""

from __future__ import annotations

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
