"""How near-identical documents are shown."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from quoth.constraints import FREE, CheckedConfig, PositiveShare


@dataclass(frozen=True, slots=True)
class DuplicatesConfig(CheckedConfig, title="duplicates"):
    """How near-identical documents, such as the same page in two places, are shown."""

    together: Annotated[bool, FREE] = True
    """Whether they are shown once, with their other places; quoth run always lists all."""

    similarity: PositiveShare = 0.9
    """From which share of common runs of four words on two documents count as the same."""
