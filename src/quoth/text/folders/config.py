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
    """Whether files that .gitignore names are passed over; .quothignore always counts."""

    ignore: Names = ()
    """Further patterns to pass over, written as in .gitignore; they come last and so win."""

    hidden: _Flag = False
    """Whether files and folders whose names begin with a dot are read; .git never is."""

    follow_links: _Flag = True
    """Whether symbolic links are followed; every real folder and file is read once."""

    max_file_bytes: AtLeastOne = 200_000_000
    """Largest file that is read, in bytes; larger ones are reported and left alone."""

    ask_share: Share = 0.2
    """Ask before removing more than this share of a folder's documents."""

    ask_documents: AtLeastZero = 10
    """Remove up to this many documents without asking, whatever their share."""

    settle_seconds: Positive = 1.0
    """How long quoth watch waits after a change for more of them, in seconds."""

    rescan_seconds: Positive = 300.0
    """How often quoth watch looks at all files, for changes the system did not announce."""

    def conflicts(self) -> Iterator[str]:
        """Say which patterns cannot be read."""
        if self.ignore:
            from pathspec import GitIgnoreSpec

            try:
                GitIgnoreSpec.from_lines(self.ignore)
            except ValueError as error:
                yield f"ignore has a pattern that cannot be read ({error})"
