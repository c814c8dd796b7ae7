"""What was found out about fusing and reranking, on disk; it holds for one encoder."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from quoth.artifact import Artifact, open_artifact, save_artifact
from quoth.errors import Damaged
from quoth.search.hybrid.calibration import Calibration
from quoth.search.hybrid.fusion_config import FusionConfig

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


def fusion_weights(
    config: FusionConfig, found: Calibration | None, *, has_all: bool, generative: bool
) -> dict[str, float]:
    """Weigh the searchers as configured, or as was found out for the collection.

    While vectors lack documents they are not used alone, whatever was found out: nobody would find
    those documents.
    """
    weights = config.weights("lexical", ["dense"])
    if found and config.method == "calibrated" and (has_all or found.weights.get("lexical")):
        weights = dict(found.weights)
    return config.with_generative(weights) if generative else weights


def save_calibration(
    folder: Path, calibration: Calibration, *, encoder: Mapping[str, Any] | None, change: int
) -> None:
    """Save what was found out."""
    folder.mkdir(exist_ok=True)
    content = {"encoder": encoder, "calibration": calibration.to_record()}
    save_artifact(folder, Artifact(_KIND, _VERSION, change, content))
