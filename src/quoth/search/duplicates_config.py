"""How near-identical documents are shown."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from quoth.constraints import FREE, CheckedConfig, PositiveShare


@dataclass(frozen=True, slots=True)
class DuplicatesConfig(CheckedConfig, title="duplicates"):
    """How near-identical documents, such as the same page in two places, are shown."""

    together: Annotated[bool, FREE] = True
    """Show near-duplicates once, with their other locations; quoth run always lists all."""

    similarity: PositiveShare = 0.9
    """Share of common four-word shingles from which two documents count as near-duplicates."""
