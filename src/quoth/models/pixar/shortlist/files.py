"""Save a shortlist and open it again, its arrays mapped into memory rather than read."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from quoth.artifact import (
    Artifact,
    find_damage,
    open_artifact,
    save_artifact,
    seal_file,
    write_folder,
)
from quoth.errors import ConfigError, Damaged
from quoth.models.pixar.shortlist.centroids import CentroidShortlist
from quoth.models.pixar.shortlist.config import ShortlistConfig
from quoth.models.pixar.shortlist.full import FullShortlist
from quoth.models.pixar.shortlist.interface import Shortlist
from quoth.models.pixar.shortlist.lists import Lists
from quoth.models.pixar.shortlist.rows import Rows

KIND = "phrase-shortlist"
VERSION = 1
_RETIRED = ("window", "copy")  # saved by earlier versions, for methods that are gone


def save_shortlist(shortlist: Shortlist, folder: Path) -> None:
    """Write a shortlist into a folder of its own, which takes the place of an older one."""
    with write_folder(folder) as temporary:
        for name, array in shortlist.arrays().items():
            np.save(temporary / f"{name}.npy", array, allow_pickle=False)
        files = {path.name: seal_file(path) for path in temporary.iterdir()}
        config = {"shortlist": asdict(shortlist.config), "width": shortlist.rows.width}
        save_artifact(temporary, Artifact(KIND, VERSION, 0, config, files))


def open_shortlist(folder: Path, *, threads: int = 1, deep: bool = False) -> Shortlist:
    """Open a saved shortlist; `deep` compares checksums, which reads all of it."""
    artifact = open_artifact(folder, kind=KIND, version=VERSION)
    if artifact is None:
        raise Damaged(f"{folder} holds no shortlist; build one, or give the folder of another")
    damage = find_damage(folder, artifact, deep=deep)
    if damage:
        raise Damaged("; ".join(damage) + "; build the shortlist anew")
    try:
        kept = artifact.config["shortlist"].items()
        config = ShortlistConfig(**{name: each for name, each in kept if name not in _RETIRED})
    except (TypeError, KeyError) as error:
        raise ConfigError(f"{folder} has settings that cannot be read ({error})") from error
    # copies on write, so that arrays have the type of those in memory: one compilation serves both
    arrays = {
        path.removesuffix(".npy"): np.asarray(
            np.load(folder / path, mmap_mode="c", allow_pickle=False)
        )
        for path in artifact.files
    }
    return _assemble(arrays, config, width=artifact.config["width"], threads=threads)


def _assemble(
    arrays: Mapping[str, NDArray[Any]], config: ShortlistConfig, *, width: int, threads: int
) -> Shortlist:
    rows = Rows(
        arrays["rows"],
        arrays["labels"],
        storage=config.storage,
        width=width,
        order=arrays.get("order"),
        threads=threads,
    )
    if config.method == "full":
        return FullShortlist(rows, config)
    lists = Lists(arrays["members"], arrays["bounds"])
    centroids = arrays["centroids"]
    return CentroidShortlist(rows, config, centroids=centroids, lists=lists, threads=threads)
