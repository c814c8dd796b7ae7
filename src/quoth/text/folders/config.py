"""Which files of a folder that is kept in step are read, and how careful removing is."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Annotated

from quoth.constraints import FREE, AtLeastOne, AtLeastZero, CheckedConfig, Names, Positive, Share

_Flag = Annotated[bool, FREE]


@dataclass(frozen=True, slots=True)
class FolderConfig(CheckedConfig, title="sync"):
    """How quoth sync and quoth watch keep a collection in step with folders."""

    gitignore: _Flag = True
    """Skip files that .gitignore lists; .quothignore always applies."""

    ignore: Names = ()
    """Extra patterns to skip, in .gitignore syntax; they override the ignore files."""

    hidden: _Flag = False
    """Read files and folders whose names start with a dot, except .git."""

    follow_links: _Flag = True
    """Follow symbolic links; each file and folder is still read only once."""

    max_file_bytes: AtLeastOne = 200_000_000
    """Largest file to read, in bytes; larger ones are skipped and reported."""

    ask_share: Share = 0.2
    """Ask before removing more than this share of a folder's documents."""

    ask_documents: AtLeastZero = 10
    """Remove up to this many documents without asking, whatever their share."""

    settle_seconds: Positive = 1.0
    """How long quoth watch waits for further changes before it reads them, in seconds."""

    rescan_seconds: Positive = 300.0
    """Interval, in seconds, at which quoth watch rescans all files for changes the system did not
    report."""

    def conflicts(self) -> Iterator[str]:
        """Say which patterns cannot be read."""
        if self.ignore:
            from pathspec import GitIgnoreSpec

            try:
                GitIgnoreSpec.from_lines(self.ignore)
            except ValueError as error:
                yield f"ignore has an invalid pattern ({error})"
