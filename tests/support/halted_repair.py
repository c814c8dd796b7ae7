"""Begin to repair a collection, say so, and stand still with the index taken away."""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import Any

from quoth.engine.engine import Engine
from quoth.search.lexical.upkeep import LexicalUpkeep


def _halt(*_arguments: Any) -> None:
    sys.stdout.write("halted\n")
    sys.stdout.flush()
    time.sleep(600)


def main(folder: str) -> None:
    LexicalUpkeep.rebuild = _halt  # type: ignore[method-assign]
    Engine.open(Path(folder)).verify(repair=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
