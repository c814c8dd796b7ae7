"""What was found out about fusing and reranking, on disk; it holds for one encoder."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from quoth.artifact import Artifact, open_artifact, save_artifact
from quoth.errors import Damaged
from quoth.search.hybrid.calibration import Calibration

HYBRID = "hybrid"
_KIND, _VERSION = "fusion calibration", 1


def read_calibration(folder: Path, *, encoder: Mapping[str, Any] | None) -> Calibration | None:
    """Read what was found out, None where there is nothing or for another encoder."""
    try:
        found = open_artifact(folder, kind=_KIND, version=_VERSION)
    except Damaged as error:
        raise Damaged(f'{error}; run "quoth verify {folder.parent} --repair"') from error
    if found is None or found.config["encoder"] != encoder:
        return None
    return Calibration.from_record(found.config["calibration"])


def save_calibration(
    folder: Path, calibration: Calibration, *, encoder: Mapping[str, Any] | None, change: int
) -> None:
    """Save what was found out."""
    folder.mkdir(exist_ok=True)
    content = {"encoder": encoder, "calibration": calibration.to_record()}
    save_artifact(folder, Artifact(_KIND, _VERSION, change, content))
