"""A log of queries to learn from: the words alone, one JSON object per line.

Kept only where a file is named. A query is noted once per search, not for each page of its hits,
and nothing is noted of who asked or when. The file is for its owner alone to read.
"""

from __future__ import annotations

import json
import logging
import os
import threading
from pathlib import Path

_logger = logging.getLogger(__name__)


class QueryLog:
    """Adds queries to a file; without one, does nothing."""

    def __init__(self, path: str) -> None:
        self._path = Path(path) if path else None
        self._lock = threading.Lock()

    def note(self, text: str) -> None:
        """Add a query; where the file cannot be written, say so and go on."""
        if self._path is None or not text.strip():
            return
        line = json.dumps({"query": text}, ensure_ascii=False) + "\n"
        try:
            with self._lock:
                _append(self._path, line.encode("utf-8", "backslashreplace"))
        except OSError as error:
            _logger.warning("a query was not added to %s: %s", self._path, error)


def _append(path: Path, line: bytes) -> None:
    file = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    try:
        os.write(file, line)
    finally:
        os.close(file)
