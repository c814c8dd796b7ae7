"""Files that several shards share: linked where the disk allows it, copied where it does not."""

from __future__ import annotations

import os
import shutil
from pathlib import Path


def link_folder(source: Path, target: Path, *, without: str = "") -> None:
    """Give a folder the files of another, which are never changed in place.

    `without` names a folder directly in the source that is left out.
    """
    for path in sorted(source.rglob("*")):
        inner = path.relative_to(source)
        if inner.parts[0] == without:
            continue
        place = target / inner
        if path.is_dir():
            place.mkdir(parents=True, exist_ok=True)
        elif not (place.exists() and place.samefile(path)):
            place.parent.mkdir(parents=True, exist_ok=True)
            place.unlink(missing_ok=True)
            link_or_copy(path, place)


def link_or_copy(source: str | Path, target: str | Path) -> None:
    """Share a file that is never changed in place, or copy it."""
    try:
        os.link(source, target)
    except OSError:
        shutil.copy2(source, target)
