"""Postings beside tantivy's, searched by compiled code: single words, exactly, with pruning.

tantivy's Python binding scores whatever matches; here most of it is skipped, because blocks of
postings say what they can add to a score at most (native/searcher.c). Scores are those of
`score.py`, to the last bit, whether documents were removed or not. Phrases are left to tantivy.

A collection has these files where compiled code was at hand for every write since the last rebuild;
`artifact.json` of the index names them. Each segment holds some documents and never changes; rows
that were removed since are listed beside them, until segments are merged.
"""

from __future__ import annotations

import mmap
import struct
from array import array
from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from quoth.artifact import Artifact
from quoth.compiled import is_compiled
from quoth.errors import Damaged
from quoth.index.lexical.query import Clause, LexicalQuery
from quoth.open_files import out_of_files, says_out_of_files
from quoth.storage_failures import says_storage_failed, storage_failed
from quoth.vocabulary.term_counts import EVERYTHING
from quoth.vocabulary.weighting import K1, kept_lengths, length_norm

if TYPE_CHECKING:
    from quoth.native import Segments

FOLDER = "postings"
ENTRY = "postings"
"""What the index says of its postings, in the configuration of its artifact."""

WHOLE = 32
"""The view of the whole document, behind those of at most so many fields."""

NUM_VIEWS = WHOLE + 1

_NUMBERS = struct.Struct(f"={NUM_VIEWS}d")
_NORMS = struct.Struct("=256d")
_NO_NORMS = bytes(_NORMS.size)
_UNSCORED = -1.0
_MAX_KNOWN = 100

_Weights = tuple[tuple[str, float], ...]

Frequencies = Mapping[str, Mapping[str, int]]
"""View → term → number of documents."""


@dataclass(frozen=True, slots=True)
class PostingsEntry:
    """The files of an index's postings, in order of rows."""

    segments: tuple[str, ...]
    gone: str | None
    """The file that lists removed rows; None where none was removed since the last merge."""

    last_row: int

    @classmethod
    def of(cls, artifact: Artifact) -> PostingsEntry | None:
        """Read what an index says of its postings; None where it has none."""
        found: Mapping[str, Any] | None = artifact.config.get(ENTRY)
        if found is None:
            return None
        return cls(tuple(found["segments"]), found["gone"], int(found["last_row"]))

    def as_config(self) -> dict[str, Any]:
        """Write it for the artifact."""
        return {"segments": list(self.segments), "gone": self.gone, "last_row": self.last_row}


def view_numbers(fields: Sequence[str]) -> dict[str, int]:
    """Number the views of an index.

    >>> view_numbers(["title", "text"])
    {'title': 0, 'text': 1, '*': 32}
    """
    return {**{field: at for at, field in enumerate(fields[:WHOLE])}, EVERYTHING: WHOLE}


def pack_numbers(by_view: Mapping[str, float], views: Mapping[str, int], rest: float) -> bytes:
    """Write one number per view, `rest` for those without one."""
    numbers = [rest] * NUM_VIEWS
    for view, number in by_view.items():
        if view in views:
            numbers[views[view]] = number
    return _NUMBERS.pack(*numbers)


def map_files(folder: Path, names: Iterable[str]) -> list[memoryview]:
    """Map files below a folder; whoever holds the views may delete or replace the files."""
    mapped = []
    for name in names:
        path = folder / FOLDER / name
        try:
            with path.open("rb") as stream:
                opened = mmap.mmap(stream.fileno(), 0, access=mmap.ACCESS_READ)
        except (OSError, ValueError) as error:
            if says_out_of_files(error):
                raise out_of_files(path) from error
            if says_storage_failed(error):
                raise storage_failed(path, error) from error
            raise _damaged(path, error) from error
        mapped.append(memoryview(opened))
    return mapped


def open_segments(folder: Path, entry: PostingsEntry) -> Segments:
    """Open the segments of an index, and mark what is gone from them."""
    from quoth.native import Segments

    gone = map_files(folder, [entry.gone])[0].tobytes() if entry.gone else None
    try:
        return Segments(map_files(folder, entry.segments), gone)
    except ValueError as error:
        raise _damaged(folder / FOLDER, error) from error


def _damaged(path: Path, error: Exception) -> Damaged:
    return Damaged(f"{path} cannot be read ({error}); run quoth verify with --repair")


class Postings:
    """The postings of an index in one state."""

    def __init__(self, segments: Segments, fields: Sequence[str], *, has_gone: bool) -> None:
        self.has_gone = has_gone
        self._segments = segments
        self._views = view_numbers(fields)
        self._weights = _PackedWeights(self._views)
        self._scale: _Scale | None = None

    @classmethod
    def open(cls, folder: Path, artifact: Artifact) -> Postings | None:
        """Open those of an index; None where it has none, or nothing that reads them is there."""
        entry = PostingsEntry.of(artifact)
        if entry is None or not is_compiled():
            return None
        fields = artifact.config["fields"]
        return cls(open_segments(folder, entry), fields, has_gone=entry.gone is not None)

    def can_answer(self, query: LexicalQuery) -> bool:
        """Whether a query is of words alone, each of which counts somewhere."""
        views, packed = self._views, self._weights.packed
        return all(
            len(clause.terms) == 1
            and clause.weights[0][0] in views
            and packed(clause.weights) is not None
            for clause in query.clauses
        )

    def top_k(
        self,
        query: LexicalQuery,
        k: int,
        *,
        allowed: set[int] | None,
        totals: tuple[int, Mapping[str, float]],
        idf: Mapping[str, Mapping[str, float]] | None = None,
    ) -> list[tuple[int, float]]:
        """Find the k best rows, and all that tie with the last of them, best first.

        `totals` are the documents and their mean length per view. `idf` is that of terms by view;
        without one, it follows from how many documents of these postings hold a term.
        """
        if self._scale is None or self._scale.totals is not totals:
            self._scale = _Scale(totals, self._views)
        packed, wanted, conditions = self._weights.packed, [], []
        for clause in query.clauses:
            term = clause.terms[0]
            if clause.occur != "should":
                conditions.append((term, self._views[clause.view], clause.occur == "must"))
            if clause.occur != "must_not":
                weights = packed(clause.weights)
                assert weights is not None, "it can be answered"
                own = None if idf is None else self._pack_idf(clause, idf)
                wanted.append((term, weights, own))
        return self._segments.search(
            wanted,
            conditions,
            None if allowed is None else array("q", sorted(allowed)).tobytes(),
            totals[0],
            self._scale.norms(self._weights.views),
            self._scale.averages,
            K1,
            k,
        )

    def _pack_idf(self, clause: Clause, idf: Mapping[str, Mapping[str, float]]) -> bytes:
        term = clause.terms[0]
        own = {view: idf[view][term] for view, _weight in clause.weights}
        return pack_numbers(own, self._views, 0.0)


class _PackedWeights:
    """The weights of clauses, written once for each tuple of them: most clauses share one."""

    def __init__(self, views: Mapping[str, int]) -> None:
        self.views: set[str] = set()
        """Views in which any clause so far was scored."""

        self._views = views
        self._known: dict[int, tuple[_Weights, bytes | None]] = {}

    def packed(self, weights: _Weights) -> bytes | None:
        """Write weights; None where one of them counts nothing, or its view is not indexed."""
        known = self._known.get(id(weights))
        if known is None or known[0] is not weights:
            if len(self._known) >= _MAX_KNOWN:
                self._known.clear()
            known = self._known[id(weights)] = (weights, self._pack(weights))
        return known[1]

    def _pack(self, weights: _Weights) -> bytes | None:
        if any(weight <= 0.0 or view not in self._views for view, weight in weights):
            return None
        self.views = self.views.union(view for view, _weight in weights)
        return pack_numbers(dict(weights), self._views, _UNSCORED)


class _Scale:
    """How lengths count in each view, written when a query needs it."""

    def __init__(self, totals: tuple[int, Mapping[str, float]], views: Mapping[str, int]) -> None:
        self.totals = totals
        self.averages = pack_numbers(totals[1], views, 0.0)
        self._views = views
        self._norms = [_NO_NORMS] * NUM_VIEWS
        self._known: set[str] = set()
        self._packed = tuple(self._norms)

    def norms(self, views: Set[str]) -> tuple[bytes, ...]:
        """Return k1 times the norm of each length, by view; of other views than these, any."""
        if not views <= self._known:
            for view in views - self._known:
                average = self.totals[1].get(view, 0.0)
                own = (K1 * length_norm(length, average) for length in kept_lengths())
                self._norms[self._views[view]] = _NORMS.pack(*own)
            self._known |= views
            self._packed = tuple(self._norms)
        return self._packed
