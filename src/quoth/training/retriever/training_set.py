"""Training sets: tokenised pairs with their weights, as plain arrays that a loop can read.

A training set is an artifact: flat `.npy` files, one number per subword, with the offsets of the
sequences. Word weights are stored per named variant (`weights-<variant>`), so that weighting modes
and ablations share one set of subwords. Queries and documents that occur in several pairs are
stored once; a pair is two rows.
"""

from __future__ import annotations

import hashlib
import json
import shutil
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field, replace
from itertools import islice
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from quoth.artifact import Artifact, find_damage, open_artifact, save_artifact, seal_file
from quoth.errors import ConfigError, Damaged
from quoth.models.glow.inputs import Fields, GlowInputs, SubwordSequence
from quoth.models.glow.network import TokenBatch
from quoth.models.glow.weights import WordCounts
from quoth.training.sequences import SequenceTable, find_offsets

KIND, VERSION = "training-set", 1
PLAIN = "none"
"""The variant whose weights are all one; it needs no table."""

_BLOCK = 1_000
_SIDES = ("queries", "documents")


@dataclass(frozen=True, slots=True)
class Pair:
    """A query and a document that answers it."""

    query: str
    fields: Fields
    source: str = ""


class PairBatch(NamedTuple):
    """Queries and their documents, row by row, and the rows that tell equal documents."""

    queries: TokenBatch
    documents: TokenBatch
    document_rows: Tensor  # (B,)


@dataclass(frozen=True, slots=True)
class TrainingSet:
    """Pairs of rows in two tables, under one variant of the weights."""

    queries: SequenceTable
    documents: SequenceTable
    query_rows: NDArray[np.int64]  # (pairs,)
    document_rows: NDArray[np.int64]  # (pairs,)
    source_ids: NDArray[np.uint8]  # (pairs,)
    sources: tuple[str, ...] = ()
    about: Mapping[str, Any] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.query_rows)

    def to(self, device: torch.device) -> TrainingSet:
        """Move both tables to a device, whole."""
        return replace(self, queries=self.queries.to(device), documents=self.documents.to(device))

    def batch(self, rows: NDArray[np.int64]) -> PairBatch:
        """Return the pairs of some rows as padded batches."""
        document_rows = self.document_rows[rows]
        device = self.documents.offsets.device
        return PairBatch(
            self.queries.batch(self.query_rows[rows]),
            self.documents.batch(document_rows),
            torch.from_numpy(document_rows).to(device, non_blocking=True),
        )


def write_training_set(
    folder: Path,
    pairs: Iterable[Pair],
    *,
    variants: Mapping[str, GlowInputs],
    counts: WordCounts | None,
    about: Mapping[str, Any] | None = None,
    progress: Callable[[int], None] | None = None,
) -> None:
    """Tokenise pairs and write them, block by block; `progress` is told the pairs done.

    Every variant must cut texts alike (same tokenizer, layout and lengths): only weights differ.
    A folder without `artifact.json` was never finished.
    """
    if not variants:
        raise ConfigError("a training set needs at least one variant of inputs")
    folder.mkdir(parents=True, exist_ok=True)
    done, stream = 0, iter(pairs)
    with closing(_Writer(folder, variants, counts)) as writer:
        while block := list(islice(stream, _BLOCK)):
            writer.add(block)
            done += len(block)
            if progress is not None:
                progress(done)
        writer.finish(dict(about or {}))


def open_training_set(folder: Path, *, variant: str = PLAIN) -> TrainingSet:
    """Open a training set under one variant of its weights; the arrays stay on disk until read."""
    artifact = open_artifact(folder, kind=KIND, version=VERSION)
    if artifact is None:
        raise Damaged(f"{folder} holds no finished training set; write it again")
    if damage := find_damage(folder, artifact, deep=False):
        raise Damaged("; ".join(damage))
    known = (*artifact.config["variants"], PLAIN)
    if variant not in known:
        raise ConfigError(f"{folder} has no weights {variant!r}, only {', '.join(known)}")
    stored = artifact.config["variants"]
    return TrainingSet(
        queries=_open_table(folder, "queries", variant, stored),
        documents=_open_table(folder, "documents", variant, stored),
        query_rows=_open_array(folder, "pair-queries").astype(np.int64),
        document_rows=_open_array(folder, "pair-documents").astype(np.int64),
        source_ids=_open_array(folder, "pair-sources"),
        sources=tuple(artifact.config["sources"]),
        about=artifact.config["about"],
    )


class _Writer:
    """Writes one training set; each array grows in a raw file that gets its header at the end."""

    def __init__(
        self, folder: Path, variants: Mapping[str, GlowInputs], counts: WordCounts | None
    ) -> None:
        self._folder = folder
        self._variants = variants
        self._counts = counts
        self._arrays: dict[str, _GrowingArray] = {}
        self._row_by_key: dict[str, dict[bytes, int]] = {side: {} for side in _SIDES}
        self._source_ids: dict[str, int] = {}

    def add(self, pairs: Sequence[Pair]) -> None:
        """Append pairs, and those of their texts that are new."""
        queries = [pair.query for pair in pairs]
        documents = [pair.fields for pair in pairs]
        self._add_texts(
            "queries",
            queries,
            list(map(_query_key, queries)),
            lambda i, t: i.queries(t, self._counts),
        )
        self._add_texts(
            "documents",
            documents,
            list(map(_fields_key, documents)),
            lambda i, t: i.documents(t, self._counts),
        )
        ids = self._source_ids
        sources = [ids.setdefault(pair.source, len(ids)) for pair in pairs]
        self._append("pair-sources", sources, np.uint8)

    def finish(self, about: dict[str, Any]) -> None:
        """Give each array its header, and seal the folder."""
        for array in self._arrays.values():
            array.finish()
        names = [f"{name}.npy" for name in self._arrays]
        config = {
            "variants": list(self._variants),
            "sources": list(self._source_ids),
            "about": about,
        }
        seals = {name: seal_file(self._folder / name) for name in names}
        save_artifact(self._folder, Artifact(KIND, VERSION, 0, config, seals))

    def close(self) -> None:
        """Let go of all files, finished or not."""
        for array in self._arrays.values():
            array.close()

    def _add_texts(
        self,
        side: str,
        texts: Sequence[Any],
        keys: Sequence[bytes],
        tokenise: Callable[[GlowInputs, Sequence[Any]], list[SubwordSequence]],
    ) -> None:
        row_by_key = self._row_by_key[side]
        new: list[Any] = []
        for key, text in zip(keys, texts, strict=True):
            if key not in row_by_key:
                row_by_key[key] = len(row_by_key)
                new.append(text)
        self._append(f"pair-{side}", [row_by_key[key] for key in keys], np.uint32)
        if new:
            self._append_sequences(side, new, tokenise)

    def _append_sequences(
        self,
        side: str,
        texts: Sequence[Any],
        tokenise: Callable[[GlowInputs, Sequence[Any]], list[SubwordSequence]],
    ) -> None:
        first: list[SubwordSequence] | None = None
        for name, inputs in self._variants.items():
            sequences = tokenise(inputs, texts)
            if first is None:
                first = sequences
                self._append(f"{side}-ids", _flat(s.subword_ids for s in first), np.int32)
                self._append(f"{side}-fields", _flat(s.field_ids for s in first), np.uint8)
                self._append(f"{side}-lengths", [len(s.subword_ids) for s in first], np.uint32)
            elif [s.subword_ids for s in sequences] != [s.subword_ids for s in first]:
                raise ConfigError(f"variant {name!r} cuts texts differently from the first one")
            weights = _flat(s.weights for s in sequences)
            self._append(f"{side}-weights-{name}", weights, np.float16)

    def _append(self, name: str, values: Sequence[Any], dtype: type) -> None:
        if name not in self._arrays:
            self._arrays[name] = _GrowingArray(self._folder / f"{name}.npy", np.dtype(dtype))
        self._arrays[name].append(np.asarray(values, dtype=dtype))


class _GrowingArray:
    """A `.npy` file of unknown length: numbers first, header when the length is known."""

    def __init__(self, path: Path, dtype: np.dtype[Any]) -> None:
        self._path = path
        self._raw = path.with_suffix(".raw")
        self._stream: BinaryIO = self._raw.open("wb")
        self._dtype = dtype
        self._count = 0

    def append(self, values: NDArray[Any]) -> None:
        self._stream.write(values.tobytes())
        self._count += len(values)

    def close(self) -> None:
        self._stream.close()
        self._raw.unlink(missing_ok=True)

    def finish(self) -> None:
        self._stream.close()
        header = {
            "descr": np.lib.format.dtype_to_descr(self._dtype),
            "fortran_order": False,
            "shape": (self._count,),
        }
        with self._path.open("wb") as target, self._raw.open("rb") as source:
            np.lib.format.write_array_header_1_0(target, header)
            shutil.copyfileobj(source, target)


def _open_table(folder: Path, side: str, variant: str, stored: Sequence[str]) -> SequenceTable:
    lengths = _open_array(folder, f"{side}-lengths").astype(np.int64)
    weights = _open_array(folder, f"{side}-weights-{variant}") if variant in stored else None
    return SequenceTable.from_arrays(
        _open_array(folder, f"{side}-ids"),
        find_offsets(lengths),
        field_ids=_open_array(folder, f"{side}-fields"),
        weights=weights,
    )


def _open_array(folder: Path, name: str) -> NDArray[Any]:
    """Map a file; copy-on-write, since torch takes no read-only arrays."""
    array: NDArray[Any] = np.load(folder / f"{name}.npy", mmap_mode="c")
    return array


def _flat(lists: Iterable[Sequence[Any]]) -> list[Any]:
    return [each for own in lists for each in own]


def _query_key(text: str) -> bytes:
    return hashlib.blake2b(text.strip().encode(), digest_size=16).digest()


def _fields_key(fields: Fields) -> bytes:
    plain = json.dumps({name: list(texts) for name, texts in fields.items()}, sort_keys=True)
    return hashlib.blake2b(plain.encode(), digest_size=16).digest()
