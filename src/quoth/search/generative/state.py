"""What is on disk of generative search, told without numba or torch: models, and their indexes.

    generative/<name>/            one model, put into place in one step and never changed
        artifact.json             its settings; seals of the descriptions below, and so of all
        model/ phrases/ shortlist/
        trie/                     the index of the collection's documents under this model
            artifact.json         which change it holds, which state is the newest
            000001/               one state: trie, norms of identifiers, rows of documents

A state is complete before `trie/artifact.json` names it; a crash leaves the old or the new one.
"""

from __future__ import annotations

import contextlib
import os
import shutil
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from quoth.artifact import (
    FILE_NAME,
    Artifact,
    FileSeal,
    find_damage,
    open_artifact,
    save_artifact,
    seal_file,
    sync_folder,
)
from quoth.errors import CollectionError, Damaged
from quoth.search.generative.config import GenerativeConfig

FOLDER, TRIE = "generative", "trie"
KIND, VERSION = "generative model", 1
OLD, UNFINISHED = ".old", ".tmp"
_INDEX_KIND, _INDEX_VERSION = "generative index", 1
_TRIE_VERSION = 2  # as in `index/trie/files.py`, which needs numba; another one: built anew


# --- models --------------------------------------------------------------------------------------


def find_model(collection: Path, name: str) -> Path | None:
    """Find a model of a collection by name, or, without one, that which was saved last."""
    root = collection / FOLDER
    if name:
        folder = settle(root / name)
        return folder if (folder / FILE_NAME).exists() else None
    folders = {each.with_name(each.name.removesuffix(OLD)) for each in _subfolders(root)}
    found = [(_read_number(settle(each)), each.name, settle(each)) for each in folders]
    return max((each for each in found if each[0] > 0), default=(0, "", None))[2]


def next_number(root: Path) -> int:
    """Return the number of the next model that is saved beside others."""
    return 1 + max((_read_number(each) for each in _subfolders(root)), default=0)


def settle(folder: Path) -> Path:
    """Say where a model stands: a kill between two renames leaves the old one beside its place."""
    old = folder.with_name(folder.name + OLD)
    return old if not folder.exists() and old.exists() else folder


def put_in_place(unfinished: Path, folder: Path) -> None:
    """Rename a complete folder to its name; `settle` finds the old one between the two renames."""
    old = folder.with_name(folder.name + OLD)
    if folder.exists():
        shutil.rmtree(old, ignore_errors=True)
        os.replace(folder, old)
    os.replace(unfinished, folder)
    sync_folder(folder.parent)
    shutil.rmtree(old, ignore_errors=True)


def read_model(folder: Path) -> Artifact | None:
    """Read the description of a model, None where there is none."""
    return open_artifact(folder, kind=KIND, version=VERSION)


def identify_model(folder: Path) -> str:
    """Name all that a model consists of; empty where there is none."""
    path = folder / FILE_NAME
    return seal_file(path).sha256 if path.exists() else ""


def _subfolders(root: Path) -> list[Path]:
    if not root.is_dir():
        return []
    return [each for each in root.iterdir() if each.is_dir() and each.suffix != UNFINISHED]


def _read_number(folder: Path) -> int:
    """Read when a model was saved, counted over all; a damaged one counts, so that it is told."""
    with contextlib.suppress(CollectionError):
        found = read_model(folder)
        return int(found.config["number"]) if found else 0
    return 1


# --- indexes -------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class IndexState:
    """One state of an index, complete."""

    change: int
    log: str
    number: int
    model: str
    """What `identify_model` said of the model it was made with."""

    settings: Mapping[str, Any]
    num_documents: int
    num_identifiers: int
    num_added: int = 0
    """Words that the model's vocabulary lacks and that are phrases here."""

    files: Mapping[str, FileSeal] = field(default_factory=dict)

    @property
    def subfolder(self) -> str:
        """Where the state's files are."""
        return name_state(self.number)


def name_state(number: int) -> str:
    """Name the folder of a state."""
    return f"{number:06d}"


def index_settings(config: GenerativeConfig) -> dict[str, Any]:
    """Return the settings that shape an index, as they are kept with it."""
    sentences = {
        "sentences": config.sentences,
        "clause_words": config.clause_words,
        "titled": config.titled,
    }
    return {
        **(sentences if config.sentences else {}),  # an index from before they were is still good
        **({} if config.new_words else {"new_words": False}),  # likewise
        "sources": list(config.sources),
        "per_document": config.per_document,
        "max_phrases": config.max_phrases,
        "weighting": config.weighting,
        "sorted": config.order == "sorted_trie",
        "trie": _TRIE_VERSION,
    }


def read_index(folder: Path) -> IndexState | None:
    """Read the recorded state of an index, None where none was finished."""
    artifact = open_artifact(folder, kind=_INDEX_KIND, version=_INDEX_VERSION)
    if artifact is None:
        return None
    try:
        return IndexState(**artifact.config, change=artifact.change, files=artifact.files)
    except TypeError as error:
        path = folder / FILE_NAME
        raise Damaged(f"{path} does not describe a generative index ({error})") from error


def save_index_state(folder: Path, state: IndexState) -> None:
    """Let a state whose files are complete be the newest."""
    save_artifact(folder, _describe(state))


def find_index_damage(folder: Path, state: IndexState, *, deep: bool) -> tuple[str, ...]:
    """Say what is wrong with the files of a state."""
    return find_damage(folder, _describe(state), deep=deep)


def is_index_current(folder: Path, config: GenerativeConfig, *, change: int, log: str) -> bool:
    """Whether an index holds everything up to a change, named as configured by its model."""
    state = read_index(folder)
    return (
        state is not None
        and (state.change, state.log) == (change, log)
        and state.settings == index_settings(config)
        and state.model == identify_model(folder.parent)
    )


def _describe(state: IndexState) -> Artifact:
    config = asdict(state)
    del config["files"], config["change"]
    return Artifact(_INDEX_KIND, _INDEX_VERSION, state.change, config, state.files)
