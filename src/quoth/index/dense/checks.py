"""What a dense index refuses: vectors of another kind than it holds, and batches with mistakes."""

from __future__ import annotations

import json
import math
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from quoth.errors import IndexMismatch
from quoth.index.dense.scan import block_size
from quoth.index.dense.state import DenseState
from quoth.index.dense.storage import Codes, Quantised

Rows = NDArray[np.int64]
Units = NDArray[np.int32]


def require_same(folder: Path, found: DenseState, wanted: DenseState) -> None:
    """Refuse an index that was built for other vectors than those that will come."""
    if found.model != wanted.model:
        raise IndexMismatch(
            f"{folder} holds vectors of the model {json.dumps(found.model)}, but"
            f" {json.dumps(wanted.model)} is configured; encode again, or configure that model"
        )
    if found.storage != wanted.storage:
        raise IndexMismatch(
            f"{folder} holds vectors as {found.storage}, but dense.storage is {wanted.storage};"
            f' encode again, or set dense.storage = "{found.storage}"'
        )


def check_batch(rows: Rows, units: Units, vectors: Codes) -> None:
    """Refuse vectors without a place of their own, or that are no numbers."""
    if vectors.ndim != 2 or rows.shape != units.shape or rows.shape != vectors.shape[:1]:
        raise ValueError(
            f"rows {rows.shape}, units {units.shape} and vectors {vectors.shape},"
            " expected (N,), (N,) and (N, D)"
        )
    if len(rows) and (vectors.shape[1] == 0 or min(rows.min(), units.min()) < 0):
        raise ValueError("vectors need a width, rows and units must not be negative")
    if not np.isfinite(vectors).all():
        raise ValueError("vectors hold numbers that are not finite")
    order = np.lexsort((units, rows))
    if ((np.diff(rows[order]) == 0) & (np.diff(units[order]) == 0)).any():
        raise ValueError("a row has two vectors of the same unit")


def measure_longest(stored: Quantised) -> float:
    """Length of the longest vector as stored; an error where one cannot be stored."""
    longest, size = 0.0, block_size(2 * stored.codes.shape[1])
    for at in range(0, len(stored.codes), size):
        squares = np.square(stored.codes[at : at + size].astype(np.float64)).sum(axis=1)
        longest = max(longest, float((np.sqrt(squares) * stored.scales[at : at + size]).max()))
    if not math.isfinite(longest):
        raise ValueError("vectors hold numbers that are too large to be stored")
    return longest
