"""The terms of passages that were kept with a collection, opened for searching."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

from quoth.collection.store import Store
from quoth.errors import Damaged
from quoth.index.lexical.passage_terms import FILE_NAME, PassageTermsFile
from quoth.text.words import Analyser

_logger = logging.getLogger(__name__)


def open_records(folder: Path, store: Store, analyser: Analyser) -> PassageTermsFile:
    """Open the terms of passages; an empty file of them where there are none of these settings."""
    path = folder / FILE_NAME
    try:
        if path.exists():
            opened = PassageTermsFile.open(path)
            if opened.basis == record_basis(store, analyser):
                return opened
            opened.close()
    except Damaged as error:  # passages are analysed instead
        _logger.warning("%s", error)
    return PassageTermsFile.none()


def record_basis(store: Store, analyser: Analyser) -> dict[str, Any]:
    """Describe all that decides which passages there are, and which terms in them."""
    settings = store.setting("config") or {}
    return {"analyser": analyser.identity(), "passages": settings.get("passages")}
