"""A phrase vocabulary: numbered phrases, and how a text is cut into them and put together again.

The first 256 ids are the single bytes, so no text is out of vocabulary; the others are sequences
of words, words and parts of words, the more frequent ones first. A phrase keeps its leading space:
" new york" and "york" are different phrases. Joining what a text was cut into gives the normalised
text (`phrases.text.normalise`) exactly. Ids that a network adds (end, padding) are not part of it.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from quoth.artifact import (
    FILE_NAME,
    Artifact,
    find_damage,
    open_artifact,
    save_artifact,
    seal_file,
)
from quoth.errors import Damaged
from quoth.vocabulary.phrases.added import AddedWords
from quoth.vocabulary.phrases.config import NUM_BYTES, PhraseConfig
from quoth.vocabulary.phrases.segment import SegmentTables, build_tables, segment_texts
from quoth.vocabulary.phrases.text import Ids, Longs, Strings

KIND = "phrase-vocabulary"
VERSION = 1

Arrays = dict[str, NDArray[Any]]


@dataclass(frozen=True, slots=True)
class PhraseSequences:
    """What texts were cut into: those of text i are `ids[offsets[i] : offsets[i + 1]]`."""

    ids: Ids
    offsets: Longs

    def __len__(self) -> int:
        return len(self.offsets) - 1


class PhraseVocabulary:
    """Phrases by id, with the cutter they were chosen for."""

    def __init__(
        self, phrases: Strings, *, config: PhraseConfig, uses: Longs, tables: SegmentTables
    ) -> None:
        self._phrases = phrases
        self._tables = tables
        self.config = config
        self.uses = uses
        """How often each phrase was used when the training texts were cut."""

    def __len__(self) -> int:
        return len(self._phrases)

    @property
    def cutter(self) -> str:
        """The way in which texts are cut."""
        return self.config.cutter

    def text_of(self, phrase_id: int) -> str:
        """Return a phrase's text, its leading space included; <0xE2> for part of a character."""
        content = self.bytes_of(phrase_id)
        if phrase_id < NUM_BYTES and content[0] >= 0x80:
            return f"<0x{content[0]:02X}>"
        return content.decode()

    def segment(self, texts: Sequence[str], added: AddedWords | None = None) -> PhraseSequences:
        """Normalise texts and cut them into phrases; words that it lacks join `added`, if given."""
        ids, offsets = segment_texts(
            texts, self._tables, cutter=self.cutter, lowercase=self.config.lowercase, added=added
        )
        return PhraseSequences(ids, offsets)

    def join(self, ids: Iterable[int]) -> str:
        """Put phrases together to a text, without the space in front of it."""
        content = b"".join(self.bytes_of(int(each)) for each in ids)
        return content.decode("utf-8", "replace").removeprefix(" ")

    @property
    def phrases(self) -> Strings:
        """The bytes of every phrase."""
        return self._phrases

    @cached_property
    def fingerprint(self) -> str:
        """A checksum of all that decides how a text is cut."""
        digest = hashlib.sha256(f"{VERSION} {self.cutter} {self.config.lowercase}".encode())
        digest.update(self._phrases.offsets.data)
        digest.update(self._phrases.content.data)
        return digest.hexdigest()

    def save(self, folder: Path) -> None:
        """Write the vocabulary into a folder; `artifact.json` comes last."""
        folder.mkdir(parents=True, exist_ok=True)
        (folder / FILE_NAME).unlink(missing_ok=True)
        arrays: Arrays = {
            "phrase_content": self._phrases.content,
            "phrase_offsets": self._phrases.offsets,
            "uses": self.uses,
            **self._tables._asdict(),
        }
        seals = {}
        for name, array in arrays.items():
            path = folder / f"{name}.npy"
            temporary = folder / f"{name}.tmp.npy"
            np.save(temporary, array, allow_pickle=False)
            temporary.replace(path)
            seals[path.name] = seal_file(path)
        save_artifact(folder, Artifact(KIND, VERSION, 0, asdict(self.config), seals))

    def bytes_of(self, phrase_id: int) -> bytes:
        """Return the bytes of a phrase; one of the first is a single byte."""
        if not 0 <= phrase_id < len(self):
            raise IndexError(f"phrase {phrase_id} of {len(self)}")
        start, end = self._phrases.offsets[phrase_id : phrase_id + 2]
        return self._phrases.content[start:end].tobytes()


def build_vocabulary(phrases: Strings, *, config: PhraseConfig, uses: Longs) -> PhraseVocabulary:
    """Number phrases as they come, after the single bytes; `uses` counts both."""
    content = np.concatenate([np.arange(NUM_BYTES, dtype=np.uint8), phrases.content])
    offsets = np.concatenate([np.arange(NUM_BYTES), phrases.offsets + NUM_BYTES])
    every = Strings(content, offsets)
    tables = build_tables(every, cutter=config.cutter)
    for array in (content, offsets, uses, *tables):
        array.flags.writeable = False  # as when opened, so that one compiled version serves both
    return PhraseVocabulary(every, config=config, uses=uses, tables=tables)


def open_phrases(folder: Path) -> PhraseVocabulary:
    """Open a saved vocabulary, mapped from disk, after comparing its checksums."""
    artifact = open_artifact(folder, kind=KIND, version=VERSION)
    if artifact is None:
        raise Damaged(f"{folder} holds no finished phrase vocabulary: train and save it again")
    if damage := find_damage(folder, artifact, deep=True):
        raise Damaged("; ".join(damage))
    arrays: Arrays = {
        Path(name).stem: np.asarray(np.load(folder / name, mmap_mode="r", allow_pickle=False))
        for name in artifact.files
    }
    return PhraseVocabulary(
        Strings(arrays.pop("phrase_content"), arrays.pop("phrase_offsets")),
        config=PhraseConfig(**artifact.config),
        uses=arrays.pop("uses"),
        tables=SegmentTables(**arrays),
    )
