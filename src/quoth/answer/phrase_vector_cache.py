"""Vectors of phrases on disk: one file per passage and model, within a budget, safe to delete.

A file is named by the digest of the model and of the passage's text, so what belongs to another
model or to an older text is never read; it only waits to be given up. Vectors are kept in half
precision. A file that cannot be read is no file: its phrases are encoded again.
"""

from __future__ import annotations

import contextlib
import hashlib
import io
import os
import threading
import zipfile
from collections.abc import Mapping
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

Vectors = dict[tuple[int, ...], NDArray[np.float32]]
"""Subwords of a phrase → its vector (D,)."""


class PhraseVectorCache:
    """A folder of vectors; the files longest unused are given up when it is full."""

    def __init__(self, folder: Path, *, model: str, max_bytes: int) -> None:
        """`model` identifies the weights that made the vectors."""
        self._folder = folder
        self._model = model
        self._max_bytes = max_bytes

    def read(self, passage: str) -> Vectors:
        """Return the vectors kept for a passage's text; none where there are none."""
        path = self._path(passage)
        try:
            with np.load(io.BytesIO(path.read_bytes()), allow_pickle=False) as held:
                ids, ends, vectors = held["subword_ids"], held["ends"], held["vectors"]
            os.utime(path)  # used now
        except (OSError, ValueError, KeyError, EOFError, zipfile.BadZipFile):
            return {}
        if len(ends) != len(vectors) or vectors.ndim != 2 or (len(ends) and ends[-1] != len(ids)):
            return {}
        phrases = [tuple(each.tolist()) for each in np.split(ids, ends)[: len(ends)]]
        return dict(zip(phrases, vectors.astype(np.float32), strict=True))

    def write(self, passage: str, vectors: Mapping[tuple[int, ...], NDArray[np.float32]]) -> None:
        """Add vectors to those of a passage; a disk that takes none is no error."""
        joined = {**self.read(passage), **vectors}
        if not joined or not self._max_bytes:
            return
        path = self._path(passage)
        temporary = path.with_suffix(f".{os.getpid()}-{threading.get_ident()}.tmp")
        try:
            self._folder.mkdir(parents=True, exist_ok=True)
            with temporary.open("wb") as stream:
                np.savez(
                    stream,
                    subword_ids=np.array([each for ids in joined for each in ids], dtype=np.int64),
                    ends=np.cumsum([len(ids) for ids in joined]),
                    vectors=np.stack(list(joined.values())).astype(np.float16),
                )
            os.replace(temporary, path)
            self._make_room()
        except OSError:
            with contextlib.suppress(OSError):
                temporary.unlink(missing_ok=True)

    def _path(self, passage: str) -> Path:
        digest = hashlib.sha256(f"{self._model}\0{passage}".encode("utf-8", "surrogatepass"))
        return self._folder / f"{digest.hexdigest()[:40]}.npz"

    def _make_room(self) -> None:
        found = [(each.stat(), each) for each in self._folder.glob("*.npz")]
        size = sum(stat.st_size for stat, _path in found)
        for stat, path in sorted(found, key=lambda each: (each[0].st_mtime_ns, each[1].name)):
            if size <= self._max_bytes:
                return
            path.unlink(missing_ok=True)
            size -= stat.st_size
