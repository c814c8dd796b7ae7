"""A model for generative search on disk: network and head, phrases and shortlist, saved as one."""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from quoth.artifact import (
    Artifact,
    find_damage,
    require_sealed,
    save_artifact,
    seal_file,
    seal_folder,
)
from quoth.errors import ConfigError, IndexMismatch, NoCollection
from quoth.models.pixar.head import NUM_SYMBOLS
from quoth.models.pixar.pixar import Pixar
from quoth.models.pixar.shortlist.files import open_shortlist, save_shortlist
from quoth.models.pixar.shortlist.interface import Shortlist
from quoth.search.generative.state import (
    KIND,
    UNFINISHED,
    VERSION,
    next_number,
    put_in_place,
    read_model,
    settle,
)
from quoth.vocabulary.phrases.vocabulary import PhraseVocabulary, open_phrases

MODEL, PHRASES, SHORTLIST = "model", "phrases", "shortlist"
_DESCRIPTIONS = (f"{MODEL}/config.json", f"{PHRASES}/artifact.json", f"{SHORTLIST}/artifact.json")


@dataclass(frozen=True, slots=True, eq=False)
class GenerativeModel:
    """What turns a query into scores of phrases."""

    pixar: Pixar
    vocabulary: PhraseVocabulary
    shortlist: Shortlist

    def __post_init__(self) -> None:
        size, head = len(self.vocabulary), self.pixar.head
        rows = self.shortlist.rows
        problems = []
        if head.num_phrases != size:
            problems.append(f"the head has {head.num_phrases:,} phrases, the vocabulary {size:,}")
        if len(rows) not in (size, size + NUM_SYMBOLS):
            problems.append(f"the shortlist has {len(rows):,} rows, expected {size:,}")
        if rows.width != head.rows.shape[1]:
            width = head.rows.shape[1]
            problems.append(f"the shortlist is {rows.width} wide, the head {width}")
        if problems:
            raise ConfigError(f"generative model: {'; '.join(problems)}")


def save_generative_model(
    folder: Path, model: GenerativeModel, *, about: Mapping[str, Any]
) -> None:
    """Put a model into place in one step; one of the same name goes, and its index with it.

    `about` is kept with it: what it was trained on, and how.
    """
    unfinished = folder.with_name(folder.name + UNFINISHED)
    shutil.rmtree(unfinished, ignore_errors=True)
    unfinished.mkdir(parents=True)
    model.pixar.save(unfinished / MODEL)
    model.vocabulary.save(unfinished / PHRASES)
    save_shortlist(model.shortlist, unfinished / SHORTLIST)
    config = {
        "about": dict(about),
        "number": next_number(folder.parent),
        "phrases": len(model.vocabulary),
        "vocabulary": model.vocabulary.fingerprint,
    }
    seals = {name: seal_file(unfinished / name) for name in _DESCRIPTIONS}
    save_artifact(unfinished, Artifact(KIND, VERSION, 0, config, seals))
    seal_folder(unfinished)
    put_in_place(unfinished, folder)


def open_generative_model(folder: Path, *, threads: int = 1, fast: bool = True) -> GenerativeModel:
    """Open a saved model, after comparing the seals of its parts.

    `fast` is for searching; without it, the model can be trained on and saved.
    """
    folder = settle(folder)
    advice = f'run "quoth train pixar {folder.parent.parent}"'
    artifact = read_model(folder)
    if artifact is None:
        raise NoCollection(f"{folder} holds no model for generative search; {advice}")
    if damage := find_damage(folder, artifact, deep=True):
        raise IndexMismatch(
            f"{'; '.join(damage)}: the parts of {folder} do not belong together; {advice}"
        )
    require_sealed(folder)
    vocabulary = open_phrases(folder / PHRASES)
    if vocabulary.fingerprint != artifact.config.get("vocabulary"):
        raise IndexMismatch(f"{folder} was trained with another phrase vocabulary; {advice}")
    return GenerativeModel(
        Pixar.load(folder / MODEL, fast=fast),
        vocabulary,
        open_shortlist(folder / SHORTLIST, threads=threads),
    )
