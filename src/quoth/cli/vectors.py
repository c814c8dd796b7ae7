"""The first vectors of a collection: made without being asked where that is quick."""

from __future__ import annotations

from typing import TYPE_CHECKING

from quoth.cli import show
from quoth.text import display

if TYPE_CHECKING:
    from quoth.shards.opening import OpenedEngine


def encode_if_quick(engine: OpenedEngine) -> None:
    """Make the first vectors, or say which command does and how long it takes."""
    from quoth.engine import quick_encoding

    seconds = quick_encoding.encode_if_quick(engine)
    if seconds is not None:
        show.note(
            f'run "quoth encode {engine.folder}" to compute vectors, for search by meaning'
            f" as well (about {display.duration(seconds)})"
        )
