"""Keep the arrays of a finished stage of training in a folder, and find them again.

Files carry the number of the save, and `artifact.json` names the ones that belong together, so a
crash while saving leaves the arrays of the save before.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from quoth.artifact import Artifact, find_damage, open_artifact, save_artifact, seal_file
from quoth.errors import CollectionError

_LOG = logging.getLogger(__name__)
_KIND = "phrase-training-stage"
_VERSION = 1


class Stage:
    """One stage's place under a folder; without a folder nothing is kept."""

    def __init__(self, folder: Path | None, name: str, settings: Mapping[str, Any]) -> None:
        self._folder = folder / name if folder else None
        self._settings = dict(settings)
        self._number = 0

    def load(self) -> dict[str, NDArray[Any]] | None:
        """Read the arrays, if the stage was finished with the same settings and is whole."""
        if self._folder is None:
            return None
        try:
            artifact = open_artifact(self._folder, kind=_KIND, version=_VERSION)
        except CollectionError as error:
            _LOG.warning("%s; the stage is done again", error)
            return None
        if artifact is None:
            return None
        self._number = artifact.change
        if artifact.config != self._settings:
            return None
        if damage := find_damage(self._folder, artifact, deep=True):
            _LOG.warning("%s; the stage is done again", "; ".join(damage))
            return None
        return {
            name.rsplit("-", 1)[0]: np.load(self._folder / name, allow_pickle=False)
            for name in artifact.files
        }

    def save(self, arrays: Mapping[str, NDArray[Any]]) -> None:
        """Replace what was kept."""
        if self._folder is None:
            return
        self._folder.mkdir(parents=True, exist_ok=True)
        before = set(self._folder.glob("*.npy"))
        self._number += 1
        seals = {}
        for name, array in arrays.items():
            path = self._folder / f"{name}-{self._number}.npy"
            np.save(path, array, allow_pickle=False)
            seals[path.name] = seal_file(path)
        save_artifact(self._folder, Artifact(_KIND, _VERSION, self._number, self._settings, seals))
        for path in before - {self._folder / name for name in seals}:
            path.unlink()
