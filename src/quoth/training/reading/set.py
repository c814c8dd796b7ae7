"""What a reader is trained on: questions with a passage that answers them, and others like it.

Everything is kept as subwords: a question, a title and a text are stretches of one long array each.
An example is a question with the rows of its passage and of its neighbours (passages found for it
that hold no answer), and the stretches of subwords that answer it. Without such stretches it is one
of two things: a question that its passage does not answer, or a pair, of which no more is known
than that query and passage belong together.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from quoth.training.packed_file import Arrays, read_packed, write_packed

ANSWERED, UNANSWERED, PAIR = 0, 1, 2
"""Kinds of examples."""

_KIND, _FORMAT = "reading-set", 1


class Ragged(NamedTuple):
    """Rows of unequal length in one array."""

    values: NDArray[Any]
    offsets: NDArray[np.int64]  # (N + 1,)

    @staticmethod
    def of(rows: Iterable[Sequence[int]], dtype: str) -> Ragged:
        """Join rows.

        >>> table = Ragged.of([[1, 2], [], [3]], "<u2")
        >>> table[0].tolist(), table[2].tolist(), len(table.offsets)
        ([1, 2], [3], 4)
        """
        kept = [np.asarray(row, dtype=dtype) for row in rows]
        offsets = np.concatenate(([0], np.cumsum([len(row) for row in kept], dtype=np.int64)))
        return Ragged(np.concatenate([*kept, np.zeros(0, dtype)]).astype(dtype), offsets)

    def __getitem__(self, row: Any) -> Any:
        """Return one row."""
        return self.values[self.offsets[row] : self.offsets[row + 1]]


@dataclass(frozen=True, slots=True)
class ReadingSet:
    """Examples (N) over passages (P) and questions (Q)."""

    questions: Ragged  # (N), subwords
    titles: Ragged  # (P), subwords
    texts: Ragged  # (P), subwords
    sentences: Ragged  # (P), the number of the sentence that each subword of a text stands in
    answers: Ragged  # (N), first and last subword of each stretch that answers, in turns
    passage_rows: NDArray[np.int64]  # (N,)
    neighbours: NDArray[np.int64]  # (N, K), -1 where there are fewer
    kinds: NDArray[np.uint8]  # (N,)
    source_ids: NDArray[np.uint8]  # (N,)
    held_out: NDArray[np.bool_]  # (N,)
    sources: tuple[str, ...]

    def __len__(self) -> int:
        return len(self.passage_rows)


_RAGGED = ("questions", "titles", "texts", "sentences", "answers")
_PLAIN = ("passage_rows", "neighbours", "kinds", "source_ids", "held_out")


def save_reading_set(path: Path, reading: ReadingSet) -> None:
    """Write a set as one file."""
    arrays: Arrays = {name: getattr(reading, name) for name in _PLAIN}
    arrays["passage_rows"] = reading.passage_rows.astype(np.int32)
    arrays["neighbours"] = reading.neighbours.astype(np.int32)
    for name in _RAGGED:
        table: Ragged = getattr(reading, name)
        arrays[f"{name}.values"] = table.values
        arrays[f"{name}.lengths"] = np.diff(table.offsets).astype(np.uint16)
    facts = {"format": _FORMAT, "sources": list(reading.sources)}
    write_packed(path, arrays, kind=_KIND, facts=facts)


def open_reading_set(path: Path) -> ReadingSet:
    """Read what `save_reading_set` wrote."""
    arrays, facts = read_packed(path, kind=_KIND, expected={"format": _FORMAT})
    parts: dict[str, Any] = {name: arrays[name] for name in _PLAIN}
    for name in ("passage_rows", "neighbours"):
        parts[name] = parts[name].astype(np.int64)
    for name in _RAGGED:
        offsets = np.concatenate(([0], np.cumsum(arrays[f"{name}.lengths"], dtype=np.int64)))
        parts[name] = Ragged(arrays[f"{name}.values"], offsets)
    return ReadingSet(**parts, sources=tuple(facts["sources"]))


def join_sets(first: ReadingSet, second: ReadingSet) -> ReadingSet:
    """Make one set of two that share nothing."""
    shift = len(first.texts.offsets) - 1
    tables: dict[str, Any] = {
        name: _append(getattr(first, name), getattr(second, name)) for name in _RAGGED
    }
    width = max(first.neighbours.shape[1], second.neighbours.shape[1])
    moved = np.where(second.neighbours >= 0, second.neighbours + shift, -1)
    return ReadingSet(
        **tables,
        passage_rows=np.concatenate([first.passage_rows, second.passage_rows + shift]),
        neighbours=np.concatenate([_widen(first.neighbours, width), _widen(moved, width)]),
        kinds=np.concatenate([first.kinds, second.kinds]),
        source_ids=np.concatenate(
            [first.source_ids, second.source_ids + np.uint8(len(first.sources))]
        ),
        held_out=np.concatenate([first.held_out, second.held_out]),
        sources=(*first.sources, *second.sources),
    )


def _append(first: Ragged, second: Ragged) -> Ragged:
    offsets = np.concatenate([first.offsets, second.offsets[1:] + first.offsets[-1]])
    return Ragged(np.concatenate([first.values, second.values]), offsets)


def _widen(rows: NDArray[np.int64], width: int) -> NDArray[np.int64]:
    return np.pad(rows, ((0, 0), (0, width - rows.shape[1])), constant_values=-1)
