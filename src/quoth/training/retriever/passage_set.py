"""What a retriever learns from without labels: passages, pseudo-queries, and BM25's best passages.

One compact, compressed, checksummed file of plain arrays, so that a machine that only trains needs
no collection, no index and no text. Sequences hold subwords as the encoder reads them: [CLS], text,
[SEP]. A query as the *target* of a query generator is the same sequence without its first symbol.

The first `num_passages` sequences can be found; further ones are copies of a passage with a query's
stretch held out, which serve that query as its positive alone.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from quoth.errors import ConfigError
from quoth.models.glow.inputs import Fields, GlowInputs, SubwordSequence
from quoth.models.glow.network import TokenBatch
from quoth.models.glow.weights import WordCounts
from quoth.models.query_generator.network import TextBatch
from quoth.selfsupervision.pseudo_pairs import KINDS, PseudoQuery
from quoth.training.packed_file import read_packed, write_packed
from quoth.training.sequences import SequenceTable, find_offsets, narrow_ids

NONE = -1
"""Stands for no row."""

_KIND, _VERSION = "passage-set", 1
_BODY = "text"

Rows = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class PassageSet:
    """Tokenised passages and queries, and which passages belong to which query."""

    passages: SequenceTable
    num_passages: int
    document_rows: Rows  # (num_passages,)
    queries: SequenceTable
    kinds: NDArray[np.uint8]  # (Q,) positions in KINDS
    source_rows: Rows  # (Q,) the passage a query was taken from, or NONE
    positive_rows: Rows  # (Q,) what the contrastive loss pulls near: BM25's best, as a rule
    lexical_rows: Rows  # (Q, depth) BM25's best passages without the excluded ones; NONE at the end
    excluded_rows: Rows  # (Q, most) passages a query must not find; NONE at the end
    negative_rows: Rows  # (Q, most) passages judged not relevant; NONE at the end
    is_held_out: NDArray[np.bool_]  # (Q,) kept for validation, never trained on
    about: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        counts = {len(getattr(self, name)) for name in _PER_QUERY} | {len(self.queries)}
        if len(counts) > 1 or len(self.document_rows) != self.num_passages:
            raise ConfigError("the arrays of a passage set do not have one entry per query")

    @property
    def training_rows(self) -> Rows:
        """The queries that are trained on."""
        return np.flatnonzero(~self.is_held_out)

    @property
    def held_out_rows(self) -> Rows:
        """The queries that are validated with."""
        return np.flatnonzero(self.is_held_out)

    def to(self, device: torch.device) -> PassageSet:
        """Move both tables to a device, whole."""
        return replace(self, passages=self.passages.to(device), queries=self.queries.to(device))

    def passage_batch(self, rows: Rows) -> TokenBatch:
        """Pad the passages of some rows."""
        return self.passages.batch(rows)

    def query_batch(self, rows: Rows) -> TokenBatch:
        """Pad the queries of some rows."""
        return self.queries.batch(rows)

    def query_targets(self, rows: Rows) -> TextBatch:
        """Pad the queries of some rows as a generator should write them: to the end symbol."""
        batch = self.queries.batch(rows)
        return TextBatch(batch.subword_ids[:, 1:], batch.mask[:, 1:])

    def only(self, *, kinds: Sequence[str]) -> PassageSet:
        """Keep the queries of some kinds; passages stay."""
        wanted = [KINDS.index(kind) for kind in kinds]
        rows = np.flatnonzero(np.isin(self.kinds, wanted))
        chosen = {name: getattr(self, name)[rows] for name in _PER_QUERY}
        return replace(self, queries=_take(self.queries, rows), **chosen)


_PER_QUERY = (
    "kinds",
    "source_rows",
    "positive_rows",
    "lexical_rows",
    "excluded_rows",
    "negative_rows",
    "is_held_out",
)


def as_text(batch: TokenBatch) -> TextBatch:
    """Return what a query generator reads of a batch."""
    return TextBatch(batch.subword_ids, batch.mask)


def make_passage_set(
    passages: Sequence[Fields],
    queries: Sequence[PseudoQuery],
    *,
    inputs: GlowInputs,
    counts: WordCounts | None = None,
    document_rows: Sequence[int] | None = None,
    about: Mapping[str, Any] | None = None,
) -> PassageSet:
    """Tokenise passages and queries; queries without a positive are left out.

    The settings of `inputs` say how much of a passage and a query is read; `counts` are needed
    where they weigh words.
    """
    kept = [query for query in queries if query.positive_text or query.lexical_rows]
    if not kept:
        raise ConfigError("no query has a passage to learn from; give more queries or passages")
    copies = [query.positive_text for query in kept if query.positive_text]
    texts = [*passages, *({_BODY: (text,)} for text in copies)]
    next_copy = iter(range(len(passages), len(texts)))
    positives = [
        next(next_copy) if query.positive_text else query.lexical_rows[0] for query in kept
    ]
    owners = range(len(passages)) if document_rows is None else document_rows
    return PassageSet(
        passages=_join(inputs.documents(texts, counts)),
        num_passages=len(passages),
        document_rows=np.asarray(owners, dtype=np.int64),
        queries=_join(inputs.queries([query.text for query in kept], counts)),
        kinds=np.array([KINDS.index(query.kind) for query in kept], dtype=np.uint8),
        source_rows=np.array([query.source_row for query in kept], dtype=np.int64),
        positive_rows=np.array(positives, dtype=np.int64),
        lexical_rows=pad_rows([query.lexical_rows for query in kept]),
        excluded_rows=pad_rows([query.excluded_rows for query in kept]),
        negative_rows=pad_rows([query.negative_rows for query in kept]),
        is_held_out=np.array([query.is_held_out for query in kept], dtype=bool),
        about=dict(about or {}),
    )


def pad_rows(lists: Iterable[Sequence[int]]) -> Rows:
    """Make one array of lists of rows, filled up with NONE; at least one column.

    >>> pad_rows([(3, 4), (), (5,)]).tolist()
    [[3, 4], [-1, -1], [5, -1]]
    """
    own = [list(each) for each in lists]
    padded = np.full((len(own), max([1, *map(len, own)])), NONE, dtype=np.int64)
    for at, rows in enumerate(own):
        padded[at, : len(rows)] = rows
    return padded


def save_passage_set(path: Path, passage_set: PassageSet) -> None:
    """Write a passage set as one file, over an older one only when complete."""
    facts = {
        "version": _VERSION,
        "num_passages": passage_set.num_passages,
        "pads": [passage_set.passages.pad, passage_set.queries.pad],
        "kinds": list(KINDS),
        "about": dict(passage_set.about),
    }
    write_packed(path, _arrays(passage_set), kind=_KIND, facts=facts)


def open_passage_set(path: Path) -> PassageSet:
    """Read a passage set, checking every byte of it."""
    expected = {"version": _VERSION, "kinds": list(KINDS)}
    arrays, header = read_packed(path, kind=_KIND, expected=expected)
    passages, queries = (
        _open_table(arrays, side, pad=pad)
        for side, pad in zip(("passages", "queries"), header["pads"], strict=True)
    )
    return PassageSet(
        passages=passages,
        num_passages=header["num_passages"],
        document_rows=_signed(arrays["document_rows"]),
        queries=queries,
        kinds=arrays["kinds"],
        is_held_out=arrays["is_held_out"],
        about=header["about"],
        **{name: _signed(arrays[name]) for name in _PER_QUERY if name.endswith("_rows")},
    )


def _arrays(passage_set: PassageSet) -> dict[str, NDArray[Any]]:
    """List what is written, in the narrowest type that holds it."""
    arrays: dict[str, NDArray[Any]] = {}
    for side in ("passages", "queries"):
        table: SequenceTable = getattr(passage_set, side)
        arrays[f"{side}_ids"] = table.stored_ids
        arrays[f"{side}_lengths"] = table.lengths.astype(np.uint16)
        if bool(table.field_ids.any()):  # what every plain encoder does without is not written
            arrays[f"{side}_fields"] = table.field_ids.cpu().numpy()
        if table.weights is not None:
            arrays[f"{side}_weights"] = table.weights.cpu().numpy()
    for name in ("document_rows", *(each for each in _PER_QUERY if each.endswith("_rows"))):
        arrays[name] = _narrow(getattr(passage_set, name))
    return arrays | {"kinds": passage_set.kinds, "is_held_out": passage_set.is_held_out}


def _narrow(rows: Rows) -> NDArray[Any]:
    """Store rows in 16 bits where they fit; NONE becomes the highest number of the type."""
    highest = int(rows.max(initial=0))
    return rows.astype(np.uint16 if highest < np.iinfo(np.uint16).max else np.uint32)


def _signed(rows: NDArray[Any]) -> Rows:
    """Undo `_narrow`.

    >>> _signed(_narrow(np.array([[5, -1]]))).tolist()
    [[5, -1]]
    """
    return np.where(rows == np.iinfo(rows.dtype).max, NONE, rows.astype(np.int64))


def _join(sequences: Sequence[SubwordSequence]) -> SequenceTable:
    ids, field_ids, weights = (
        np.concatenate([np.array(getattr(own, name), dtype=kind) for own in sequences])
        for name, kind in (("subword_ids", np.int64), ("field_ids", np.uint8), ("weights", "f2"))
    )
    return SequenceTable.from_arrays(
        narrow_ids(ids),
        find_offsets([len(own.subword_ids) for own in sequences]),
        field_ids=field_ids,
        weights=None if (weights == 1).all() else weights,
    )


def _open_table(arrays: Mapping[str, NDArray[Any]], side: str, *, pad: int) -> SequenceTable:
    ids = arrays[f"{side}_ids"]
    return SequenceTable.from_arrays(
        narrow_ids(ids),
        find_offsets(arrays[f"{side}_lengths"]),
        field_ids=arrays.get(f"{side}_fields", np.zeros(len(ids), dtype=np.uint8)),
        weights=arrays.get(f"{side}_weights"),
        pad=pad,
    )


def _take(table: SequenceTable, rows: Rows) -> SequenceTable:
    offsets = table.offsets.cpu().numpy()
    spans = [np.arange(offsets[row], offsets[row + 1]) for row in rows]
    places = np.concatenate([*spans, np.zeros(0, dtype=np.int64)]).astype(np.int64)
    made = SequenceTable.from_arrays(
        table.stored_ids[places],
        find_offsets(table.lengths[rows]),
        field_ids=table.field_ids.cpu().numpy()[places],
        weights=None if table.weights is None else table.weights.cpu().numpy()[places],
        pad=table.pad,
    )
    return made.to(table.offsets.device)
