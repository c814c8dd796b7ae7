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
    """Key or column that holds the docid. Empty takes the first of _id, id, docid, or
    path:line for tables (csv, tsv) that have none of them; #line always uses path:line."""

    metadata_keys: tuple[Annotated[str, not_empty("nonempty names")], ...] = ()
    """Keys whose string values are stored for filtering only and not searched."""

    max_line_bytes: AtLeastOne = 32_000_000
    """Longest line of a JSONL file or row of a table, in bytes; longer ones are skipped."""

    max_file_bytes: AtLeastOne = 200_000_000
    """Largest file, in bytes, of any format that is read whole (all but csv, tsv and jsonl)."""

    max_seconds: Annotated[float, Range(0, 86_400)] = 60.0
    """Time limit, in seconds, for parsing one HTML, PDF, office or other foreign file; 0 removes
    this limit and the one on memory."""

    max_memory_bytes: AtLeastOne = 2_000_000_000
    """Memory limit, in bytes, for parsing such a file, where the system can enforce one."""

    encoding: Annotated[
        str, Accepts(_is_encoding, "a text encoding that Python knows, such as utf-8")
    ] = "utf-8"
    """Encoding of text files that have no byte order mark and declare none themselves."""

    def conflicts(self) -> Iterator[str]:
        """Say where metadata keys are named twice, or the docid is one of them."""
        keys = self.metadata_keys
        if len(set(keys)) < len(keys):
            yield f"metadata_keys lists a key twice: {', '.join(keys)}"
        if LINE_ID in keys or (self.id_key and self.id_key in keys):
            yield "metadata_keys lists the docid, which cannot also be metadata"
