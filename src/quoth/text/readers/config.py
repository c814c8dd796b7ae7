"""How files become documents: the settings of the readers."""

from __future__ import annotations

import codecs
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Annotated

from quoth.constraints import Accepts, AtLeastOne, CheckedConfig, Range, Text, not_empty

LINE_ID = "#line"
"""The id key that stands for path:line."""


def _is_encoding(name: str) -> bool:
    try:
        "\n".encode(name)
        codecs.getincrementaldecoder(name)
    except (LookupError, UnicodeError, ValueError):
        return False
    return True


@dataclass(frozen=True)
class ReaderConfig(CheckedConfig, title="readers"):
    """How files become documents."""

    id_key: Text = ""
    """Key or column that holds the docid; empty: the first of _id, id, docid; #line: path:line."""

    metadata_keys: tuple[Annotated[str, not_empty("names of keys")], ...] = ()
    """Keys whose strings are kept for filtering only and are not searched."""

    max_line_bytes: AtLeastOne = 32_000_000
    """Longest line of a JSONL file and longest row of a table, in bytes; longer are skipped."""

    max_file_bytes: AtLeastOne = 200_000_000
    """Largest file of a format that is read whole (all but csv, tsv, jsonl), in bytes."""

    max_seconds: Annotated[float, Range(0, 86_400)] = 60.0
    """Longest time that a file of another's format (html pdf docx) may take; 0 sets no limits."""

    max_memory_bytes: AtLeastOne = 2_000_000_000
    """Most memory that reading such a file may take, in bytes, where the system can limit it."""

    encoding: Annotated[
        str, Accepts(_is_encoding, "a text encoding that Python knows, such as utf-8")
    ] = "utf-8"
    """Encoding of text files that have no byte order mark and no claim of their own."""

    def conflicts(self) -> Iterator[str]:
        """Say where metadata keys are named twice, or the docid is one of them."""
        keys = self.metadata_keys
        if len(set(keys)) < len(keys):
            yield f"metadata_keys names a key twice in {', '.join(keys)}"
        if LINE_ID in keys or (self.id_key and self.id_key in keys):
            yield "metadata_keys names the docid, which cannot also be metadata"
