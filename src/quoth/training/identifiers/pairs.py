"""What PIXAR learns from: queries, and the identifiers of the passages they belong to.

Without labels the queries are pseudo-queries: each of a passage's identifiers, at most twenty, asks
for the passage's others, never for itself. Labelled queries ask for all identifiers of their
passage. Pairs are not listed: an input names its query, its passage and its own identifier, and
targets are drawn from the passage's list when a batch is made, so that every epoch sees others.

Identifiers are kept once, as phrases; equal phrases are one identifier, however they were written.
All arrays lie flat in one compact, checksummed file, so that a machine that only trains needs no
collection, no vocabulary and no text.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from quoth.constraints import AtLeastOne, CheckedConfig, Seed, ShareBelowOne
from quoth.errors import ConfigError, Damaged
from quoth.selfsupervision.pseudo_pairs import is_held_out
from quoth.training.packed_file import read_packed, write_packed
from quoth.training.sequences import SequenceTable, find_offsets

NONE = -1
"""Stands for no row, and in targets for no phrase."""

_KIND, _VERSION = "identifier-pairs", 1
_NEVER = 2.0  # above every number drawn from 0 to 1

Rows = NDArray[np.int64]
Tokenise = Callable[[Sequence[str]], list[list[int]]]


class PhraseSequences(Protocol):
    """Texts cut into phrases, end to end."""

    @property
    def ids(self) -> NDArray[np.int32]:  # (all,)
        """Phrases, text by text."""
        ...

    @property
    def offsets(self) -> NDArray[np.int64]:  # (texts + 1,)
        """Where each text begins, and the end."""
        ...


Segment = Callable[[Sequence[str]], PhraseSequences]


@dataclass(frozen=True, slots=True)
class LabelledQuery:
    """A query that a passage is known to answer."""

    text: str
    passage_row: int


@dataclass(frozen=True, slots=True)
class IdentifierPairConfig(CheckedConfig, title="identifier pairs"):
    """How inputs are chosen."""

    per_passage: AtLeastOne = 20
    """Most pseudo-queries of a passage that serve as inputs; all its identifiers are targets."""

    held_out_share: ShareBelowOne = 0.02
    """Share of the queries kept for validation; they are never inputs, but may be targets."""

    seed: Seed = 0
    """Decides which pseudo-queries are inputs and which queries are held out."""


class TargetBatch(NamedTuple):
    """Identifiers drawn for a batch of inputs, K each."""

    phrase_ids: Tensor  # (B, K, S) int64, NONE after the last phrase
    lengths: Tensor  # (B, K) int64 phrases of the whole identifier; 0 where there is no target


@dataclass(frozen=True, slots=True)
class IdentifierPairs:
    """Queries as subwords, identifiers as phrases, and which belong together."""

    queries: SequenceTable
    phrase_ids: Tensor  # (all,) int32, identifier by identifier
    identifier_offsets: Tensor  # (identifiers + 1,) int64
    passage_targets: Tensor  # (all,) int64 identifiers, passage by passage
    passage_offsets: Tensor  # (passages + 1,) int64
    query_rows: Rows  # (inputs,)
    passage_rows: Tensor  # (inputs,) int64
    own_rows: Tensor  # (inputs,) int64 the identifier that is the query itself, or NONE
    is_held_out: NDArray[np.bool_]  # (inputs,)
    num_phrases: int
    most_targets: int
    """Identifiers of the passage that has most."""
    about: Mapping[str, Any] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.query_rows)

    @property
    def training_rows(self) -> Rows:
        """The inputs that are trained on."""
        return np.flatnonzero(~self.is_held_out)

    @property
    def held_out_rows(self) -> Rows:
        """The inputs that are validated with."""
        return np.flatnonzero(self.is_held_out)

    @property
    def identifier_lengths(self) -> Rows:
        """Phrases of each identifier."""
        return np.diff(self.identifier_offsets.cpu().numpy())

    def to(self, device: torch.device) -> IdentifierPairs:
        """Move what batches are cut from to a device, whole."""
        moved = {name: getattr(self, name).to(device) for name in _TENSORS}
        return replace(self, queries=self.queries.to(device), **moved)

    def draw_targets(
        self, rows: Rows, *, count: int, num_slots: int, generator: torch.Generator
    ) -> TargetBatch:
        """Draw at most `count` different identifiers for each input, cut to the slots."""
        device = self.phrase_ids.device
        inputs = torch.from_numpy(rows).to(device)
        passages, own = self.passage_rows[inputs], self.own_rows[inputs]
        start, end = self.passage_offsets[passages], self.passage_offsets[passages + 1]
        places = start[:, None] + torch.arange(self.most_targets, device=device)
        targets = self.passage_targets[places.clamp_max(len(self.passage_targets) - 1)]
        is_other = (places < end[:, None]) & (targets != own[:, None])
        luck = torch.rand(places.shape, generator=generator, device=device)
        luck, chosen = luck.masked_fill(~is_other, _NEVER).topk(
            min(count, self.most_targets), largest=False
        )
        targets = targets.gather(1, chosen)  # (B, K)
        first = self.identifier_offsets[targets]
        lengths = (self.identifier_offsets[targets + 1] - first).masked_fill(luck == _NEVER, 0)
        slots = torch.arange(num_slots, device=device)
        found = self.phrase_ids[(first[..., None] + slots).clamp_max(len(self.phrase_ids) - 1)]
        return TargetBatch(
            found.long().masked_fill(slots >= lengths[..., None], NONE),
            lengths,
        )


_TENSORS = (
    "phrase_ids",
    "identifier_offsets",
    "passage_targets",
    "passage_offsets",
    "passage_rows",
    "own_rows",
)


def make_identifier_pairs(
    identifiers: Sequence[Sequence[str]],
    *,
    tokenise: Tokenise,
    segment: Segment,
    num_phrases: int,
    labelled: Sequence[LabelledQuery] = (),
    config: IdentifierPairConfig | None = None,
    about: Mapping[str, Any] | None = None,
) -> IdentifierPairs:
    """Pair the identifiers of each passage with each other, and labelled queries with them.

    `tokenise` cuts queries into subwords as the encoder reads them, `segment` texts into phrases.
    """
    chosen = config or IdentifierPairConfig()
    table = _Identifiers(identifiers, [query.text for query in labelled], segment)
    inputs = _inputs(identifiers, labelled, table, chosen)
    if not inputs:
        raise ConfigError("no passage has two identifiers, and none a query; give more of them")
    highest = max(int(each.max()) for each in table.sequences)
    if highest >= num_phrases:
        raise ConfigError(f"phrase {highest:,} is none of {num_phrases:,}; name the vocabulary's")
    row_by_query: dict[str, int] = {}
    query_rows = [row_by_query.setdefault(each.query, len(row_by_query)) for each in inputs]
    held_out = {
        text: is_held_out(text, share=chosen.held_out_share, seed=chosen.seed)
        for text in row_by_query
    }
    return _assemble(
        {
            "passage_targets": _flat(table.rows_by_passage),
            "passage_lengths": _lengths(table.rows_by_passage),
            "query_ids": _flat(sequences := tokenise(list(row_by_query))),
            "query_lengths": _lengths(sequences),
            "phrase_ids": _flat(table.sequences),
            "identifier_lengths": _lengths(table.sequences),
            "query_rows": np.array(query_rows, dtype=np.int64),
            "passage_rows": np.array([each.passage_row for each in inputs], dtype=np.int64),
            "own_rows": np.array([each.own_row for each in inputs], dtype=np.int64) + 1,
            "is_held_out": np.array([held_out[each.query] for each in inputs], dtype=np.int64),
        },
        num_phrases=num_phrases,
        about=dict(about or {}),
    )


def phrase_counts(pairs: IdentifierPairs) -> Rows:  # (P + 2,)
    """Count phrases, ends and padding (none) over the identifiers of all passages."""
    uses = np.bincount(
        pairs.passage_targets.cpu().numpy(), minlength=len(pairs.identifier_offsets) - 1
    )
    repeated = np.repeat(uses, pairs.identifier_lengths)
    ids = pairs.phrase_ids.cpu().numpy()
    found = np.bincount(ids, weights=repeated, minlength=pairs.num_phrases)
    return np.concatenate((found.astype(np.int64), [uses.sum(), 0]))


def suggest_num_slots(lengths: NDArray[Any], *, percentile: float = 99.0) -> int:
    """Return the slots that nearly all identifiers fit in, with one for the end.

    >>> suggest_num_slots(np.array([2] * 995 + [30] * 5))
    3
    """
    return int(np.percentile(lengths, percentile, method="higher")) + 1


def save_identifier_pairs(path: Path, pairs: IdentifierPairs) -> None:
    """Write pairs as one file, over an older one only when complete."""
    arrays = {
        name: array.astype(np.min_scalar_type(int(array.max(initial=0))))
        for name, array in _arrays(pairs).items()
    }
    facts = {
        "version": _VERSION,
        "num_phrases": pairs.num_phrases,
        "about": dict(pairs.about),
    }
    write_packed(path, arrays, kind=_KIND, facts=facts)


def open_identifier_pairs(path: Path) -> IdentifierPairs:
    """Read pairs, checking every byte of them."""
    narrow, header = read_packed(path, kind=_KIND, expected={"version": _VERSION})
    arrays = {name: array.astype(np.int64) for name, array in narrow.items()}
    try:
        return _assemble(arrays, num_phrases=header["num_phrases"], about=header["about"])
    except (KeyError, TypeError) as error:
        raise Damaged(f"{path} holds no identifier pairs ({error}); make it again") from error


class _Input(NamedTuple):
    query: str
    passage_row: int
    own_row: int


class _Identifiers:
    """Distinct phrase sequences, the row of every text, and the rows of every passage."""

    def __init__(
        self, identifiers: Sequence[Sequence[str]], queries: Sequence[str], segment: Segment
    ) -> None:
        texts = list(dict.fromkeys([*(text for own in identifiers for text in own), *queries]))
        cut = segment(texts)
        keys = [
            cut.ids[cut.offsets[at] : cut.offsets[at + 1]].tobytes() for at in range(len(texts))
        ]
        key_by_text = dict(zip(texts, keys, strict=True))
        row_by_key: dict[bytes, int] = {}
        self.rows_by_passage = [
            list(
                dict.fromkeys(
                    row_by_key.setdefault(key, len(row_by_key))
                    for text in own
                    if (key := key_by_text[text])  # a text without phrases identifies nothing
                )
            )
            for own in identifiers
        ]
        self.sequences = [np.frombuffer(key, dtype=cut.ids.dtype) for key in row_by_key]
        self.row_by_text = {text: row_by_key.get(key, NONE) for text, key in key_by_text.items()}


def _inputs(
    identifiers: Sequence[Sequence[str]],
    labelled: Sequence[LabelledQuery],
    table: _Identifiers,
    config: IdentifierPairConfig,
) -> list[_Input]:
    """List the inputs that have something to learn: an identifier besides themselves."""
    chance = random.Random(config.seed)
    found = []
    for passage_row, texts in enumerate(identifiers):
        text_by_row = {table.row_by_text[text]: text for text in reversed(texts)}
        own = table.rows_by_passage[passage_row]
        if len(own) > config.per_passage:
            own = sorted(chance.sample(own, config.per_passage))
        found += [_Input(text_by_row[row], passage_row, row) for row in own]
    for query in labelled:
        found.append(_Input(query.text, query.passage_row, table.row_by_text[query.text]))
    targets = table.rows_by_passage
    return [each for each in found if any(row != each.own_row for row in targets[each.passage_row])]


def _assemble(
    arrays: Mapping[str, Rows], *, num_phrases: int, about: Mapping[str, Any]
) -> IdentifierPairs:
    """Make pairs of plain arrays, as they lie in the file; own rows are counted from 1 there."""
    return IdentifierPairs(
        queries=SequenceTable.from_lengths(arrays["query_ids"], arrays["query_lengths"]),
        phrase_ids=torch.from_numpy(arrays["phrase_ids"].astype(np.int32)),
        identifier_offsets=torch.from_numpy(find_offsets(arrays["identifier_lengths"])),
        passage_targets=torch.from_numpy(arrays["passage_targets"]),
        passage_offsets=torch.from_numpy(find_offsets(arrays["passage_lengths"])),
        query_rows=arrays["query_rows"],
        passage_rows=torch.from_numpy(arrays["passage_rows"]),
        own_rows=torch.from_numpy(arrays["own_rows"] - 1),
        is_held_out=arrays["is_held_out"].astype(bool),
        num_phrases=num_phrases,
        most_targets=int(arrays["passage_lengths"].max()),
        about=about,
    )


def _arrays(pairs: IdentifierPairs) -> dict[str, Rows]:
    """List what is written: no negative number among them."""
    offsets = pairs.passage_offsets.cpu().numpy()
    return {
        "query_ids": pairs.queries.stored_ids,
        "query_lengths": pairs.queries.lengths,
        "phrase_ids": pairs.phrase_ids.cpu().numpy(),
        "identifier_lengths": pairs.identifier_lengths,
        "passage_targets": pairs.passage_targets.cpu().numpy(),
        "passage_lengths": np.diff(offsets),
        "query_rows": pairs.query_rows,
        "passage_rows": pairs.passage_rows.cpu().numpy(),
        "own_rows": pairs.own_rows.cpu().numpy() + 1,
        "is_held_out": pairs.is_held_out.astype(np.uint8),
    }


def _flat(sequences: Sequence[Any]) -> Rows:
    if not sequences:
        return np.zeros(0, dtype=np.int64)
    return np.concatenate([np.asarray(each, dtype=np.int64) for each in sequences])


def _lengths(sequences: Sequence[Any]) -> Rows:
    return np.array([len(each) for each in sequences], dtype=np.int64)
