"""Fill a dense index with the vectors it lacks, the most useful ones first.

Encoding a large collection takes hours, and search uses what is there. So every document gets the
vector of its opening (its title and other short fields, and the first passage of its body) before
any gets the vectors of its other passages: a fraction of the time makes every document reachable
by meaning. In both stages documents come in the order of their rows, `CHUNK` at a time. Each
chunk is durable before the next, and a killed encoding resumes with the chunk it was at, so batches
and files are those of an encoding in one go: the same bytes, where the encoder computes alike. (The
embedded one changes to torch after its first 1,024 passages in a process, which moves the last bits
of what follows; a resumed encoding begins with ONNX Runtime again.)

Which documents lack their other passages need not be written down: rows that a finished encoding
has seen (up to the change that the index records) are whole; of all others the units are counted.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING, TypeVar

import numpy as np

from quoth.collection.store import Store
from quoth.index.dense.index import MOST_SEGMENTS, DenseIndex
from quoth.search.dense.record import EncodingRecord
from quoth.search.searcher import Progress

if TYPE_CHECKING:
    from quoth.models.glow.encoded import Encoded

_T = TypeVar("_T")

CHUNK = 128
"""Documents that are encoded together, and then made durable."""


class Stage(Enum):
    """The units of a document that are encoded in one go."""

    OPENING = "encoding the opening of each document"
    REST = "encoding the other passages"

    def of(self, units: Sequence[_T]) -> Sequence[_T]:
        """Take what this stage encodes from all units of a document.

        >>> Stage.OPENING.of("abc"), Stage.REST.of("abc"), Stage.REST.of("a")
        ('a', 'bc', '')
        """
        return units[:1] if self is Stage.OPENING else units[1:]

    @property
    def start(self) -> int:
        """Number of its first unit."""
        return 0 if self is Stage.OPENING else 1


@dataclass(frozen=True, slots=True)
class EncodedChunk:
    """The vectors of some rows, each with the unit of its document that it stands for."""

    rows: tuple[int, ...]
    units: tuple[int, ...]
    encoded: Encoded


EncodeChunks = Callable[[Sequence[Sequence[int]], Stage], Iterator[EncodedChunk]]
"""Encodes what a stage wants of rows, chunk by chunk, in the order given."""

CountUnits = Callable[[Sequence[int]], Mapping[int, int]]
"""Says how many units each of these rows has."""


def fill_index(
    index: DenseIndex,
    record: EncodingRecord,
    store: Store,
    *,
    whole_upto: int,
    encode: EncodeChunks,
    count_units: CountUnits,
    progress: Progress,
) -> None:
    """Give live rows the vectors they lack; those added up to `whole_upto` lack all or none."""
    upto, live = store.change, store.live_rows()
    held = index.num_units()
    missing = sorted(live - held.keys())
    unsure = (store.live_rows(after=whole_upto) | set(missing)) & live
    if unsure:
        record.begin(upto, log=store.log_digest(upto))
    # Both stages are asked for, even if empty: shards that are encoded together go in step.
    _add(index, record, missing, Stage.OPENING, encode, progress)
    rest = _lacking_rest(index.num_units(), sorted(unsure), count_units)
    _add(index, record, rest, Stage.REST, encode, progress)


def _lacking_rest(
    held: Mapping[int, int], rows: Sequence[int], count_units: CountUnits
) -> list[int]:
    """List the rows that hold fewer vectors than they have units."""
    found: list[int] = []
    for chunk in _chunks(rows):
        counts = count_units(chunk)
        found += [row for row in chunk if held.get(row, 0) < counts.get(row, 0)]
    return found


def _add(
    index: DenseIndex,
    record: EncodingRecord,
    rows: Sequence[int],
    stage: Stage,
    encode: EncodeChunks,
    progress: Progress,
) -> None:
    """Add what a stage wants, chunk by chunk; each is durable before the next is waited for."""
    chunks = _chunks(rows)
    if rows:
        progress(stage.value, 0, len(rows))
    for done, chunk in enumerate(encode(chunks, stage), start=1):
        if index.num_segments > MOST_SEGMENTS:  # before adding: a resumed encoding does the same
            index.compact()
        record.note(chunk.rows, chunk.encoded.lengths, chunk.encoded.cuts, start=stage.start)
        units = np.array(chunk.units, np.int32)
        index.add(np.array(chunk.rows, np.int64), units, chunk.encoded.vectors)
        progress(stage.value, min(done * CHUNK, len(rows)), len(rows))


def _chunks(rows: Sequence[int]) -> list[Sequence[int]]:
    return [rows[start : start + CHUNK] for start in range(0, len(rows), CHUNK)]
