"""How files become documents: the settings of the readers."""

from __future__ import annotations

import codecs
from collections.abc import Iterator
from dataclasses import dataclass

from quoth.errors import ConfigError

LINE_ID = "#line"
"""The id key that stands for path:line."""


@dataclass(frozen=True)
class ReaderConfig:
    """How files become documents."""

    id_key: str = ""
    """Key or column that holds the docid; empty: the first of _id, id, docid; #line: path:line."""

    metadata_keys: tuple[str, ...] = ()
    """Keys whose strings are kept for filtering only and are not searched."""

    max_line_bytes: int = 32_000_000
    """Longest line of a JSONL file and longest row of a table, in bytes; longer are skipped."""

    max_file_bytes: int = 200_000_000
    """Largest file of a format that is read whole (txt md rst html pdf docx json), in bytes."""

    encoding: str = "utf-8"
    """Encoding of text files that have no byte order mark and no claim of their own."""

    def __post_init__(self) -> None:
        """Refuse settings that cannot work, all at once."""
        problems = [*_key_problems(self), *_limit_problems(self), *_encoding_problems(self)]
        if problems:
            raise ConfigError("; ".join(problems))


def _key_problems(config: ReaderConfig) -> Iterator[str]:
    keys = config.metadata_keys
    if not all(keys):
        yield "metadata_keys: holds an empty key"
    if len(set(keys)) < len(keys):
        yield f"metadata_keys: a key stands twice in {', '.join(keys)}"
    if LINE_ID in keys or (config.id_key and config.id_key in keys):
        yield "metadata_keys: the docid cannot also be metadata"


def _limit_problems(config: ReaderConfig) -> Iterator[str]:
    for name in ("max_line_bytes", "max_file_bytes"):
        value = getattr(config, name)
        if value < 1:
            yield f"{name}: expected at least 1, found {value}"


def _encoding_problems(config: ReaderConfig) -> Iterator[str]:
    try:
        "\n".encode(config.encoding)
        codecs.getincrementaldecoder(config.encoding)
    except (LookupError, UnicodeError):
        yield f'encoding: Python knows no text encoding "{config.encoding}"'
