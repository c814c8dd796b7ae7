"""What gets a vector, and which vectors are the newest on disk."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

from quoth.artifact import FILE_NAME

Stamp = tuple[int, int]
"""What tells one state of an index on disk from another."""


def count_units(
    counts: Iterable[tuple[int, str, int]], num_documents: int, fields: Sequence[str]
) -> int:
    """Count what gets a vector, from the passages of each field of each document.

    As in `units.py`: the passages of the last of the encoder's fields, or of the longest field that
    is not the encoder's where a document lacks it; without either, the document as a whole.

    >>> counts = [(1, "title", 1), (1, "text", 3), (2, "title", 1), (2, "abstract", 2)]
    >>> count_units(counts, 3, ["title", "text"])  # the third has no passages
    6
    """
    body: dict[int, int] = {}
    others: dict[int, int] = {}
    for row, field, count in counts:
        if field == fields[-1]:
            body[row] = count
        elif field not in fields:
            others[row] = max(count, others.get(row, 0))
    whole = num_documents - len(body.keys() | others.keys())
    return sum((others | body).values()) + whole


def stamp(folder: Path) -> Stamp | None:
    """Tell which state of an index is the newest on disk; None where there is none."""
    try:
        found = (folder / FILE_NAME).stat()
    except FileNotFoundError:
        return None
    return found.st_ino, found.st_mtime_ns
