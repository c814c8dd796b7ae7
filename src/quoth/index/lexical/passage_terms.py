"""Which terms stand in each passage of a document, so that what a hit shows needs no analysis.

One record per row of the store: the spans of its passages, and a key of 32 bits for every term in
them, in order. A row's content never changes, so a record is right or missing; where one is missing
or damaged, passages are analysed instead. Keys can coincide: among 100 terms of a document, six of
a query meet another's key with a probability of 600 / 2³², and then another passage may be shown.

The records lie in a small SQLite file beside the index. It names the settings that passages were
cut with: under others, it counts as empty.
"""

from __future__ import annotations

import contextlib
import json
import sqlite3
import struct
import zlib
from array import array
from bisect import bisect_right
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from itertools import accumulate, chain
from pathlib import Path
from typing import Any, NamedTuple, Self

from quoth.compiled import is_compiled
from quoth.vocabulary.derived_file import SQLITE_ERRORS, DerivedFile, explain_failure
from quoth.vocabulary.weighting import K1, saturate

FILE_NAME = "passages.db"
TELLING_LENGTH = 10
"""Terms from which on a passage counts in full; a shorter one, such as a title, in proportion."""

_WIDTH = 4  # bytes of a number
_PER_PASSAGE = 5  # numbers
_MAX_KEYS = 300_000  # some 25 MB
_MAX_PENDING = 500
_MAX_READ_BYTES = 16_000_000
_RECORDS = "SELECT row, terms FROM records WHERE row IN (SELECT value FROM json_each(?))"
_SCHEMA = """
CREATE TABLE IF NOT EXISTS records (row INTEGER PRIMARY KEY, terms BLOB NOT NULL);
CREATE TABLE IF NOT EXISTS basis (value TEXT NOT NULL);
"""


class PlacedPassage(NamedTuple):
    """Where a passage stands: the number of its field in the document, instance and span."""

    field: int
    instance: int
    start: int
    end: int


CutPassage = tuple[str, int, int, int, str, bytes]
"""The name of a passage's field, its instance, start and end there, its text, and the keys of the
terms in it."""


class _Keys(dict[str, bytes]):
    """Term → key, computed once; emptied when it grows too large."""

    def __missing__(self, term: str) -> bytes:
        if len(self) >= _MAX_KEYS:
            self.clear()
        key = self[term] = zlib.crc32(term.encode()).to_bytes(_WIDTH, "little")
        return key


_KEYS = _Keys()


class _PackedWeights:
    """The keys and weights of terms as compiled code takes them; those of the last query stay."""

    def __init__(self) -> None:
        self._last: tuple[Mapping[str, float], int, bytes, bytes] | None = None

    def pack(self, weights: Mapping[str, float]) -> tuple[bytes, bytes]:
        """Write keys and weights."""
        last = self._last  # other threads may replace it meanwhile
        if last is None or last[0] is not weights or last[1] != len(weights):
            keys = b"".join(map(_KEYS.__getitem__, weights))
            packed = struct.pack(f"={len(weights)}d", *weights.values())
            last = self._last = (weights, len(weights), keys, packed)
        return last[2], last[3]


_WEIGHTS = _PackedWeights()


def write_wanted_keys(weights: Mapping[str, float]) -> bytes:
    """Write the keys of weighted terms, one after another."""
    return _WEIGHTS.pack(weights)[0]


def weigh_terms(tfs: Mapping[str, int], weights: Mapping[str, float], *, num_terms: int) -> float:
    """Weigh a passage by the weighted terms in it.

    >>> weigh_terms({"owl": 1}, {"owl": 3.0, "barn": 2.0}, num_terms=5)
    1.5
    """
    matched = 0.0
    for term, weight in weights.items():  # in this order, which decides how sums are rounded
        if term in tfs:
            matched += weight * saturate(tfs[term], 1.0)
    return matched * _share(num_terms)


def _share(num_terms: int) -> float:
    return min(1.0, num_terms / TELLING_LENGTH)


def write_record(passages: Sequence[PlacedPassage], terms: Sequence[Sequence[str]]) -> bytes:
    """Write the record of a document from its passages and the terms of each."""
    numbers = [len(passages)]
    for placed, own in zip(passages, terms, strict=True):
        numbers += (*placed, len(own))
    head = struct.pack(f"={len(numbers)}I", *numbers)
    every = terms[0] if len(terms) == 1 else chain.from_iterable(terms)
    keys = _write_keys(list(every))
    checksum = zlib.crc32(keys, zlib.crc32(head))
    return b"".join((checksum.to_bytes(_WIDTH, "little"), head, keys))


def _write_keys(terms: list[str]) -> bytes:
    """Write the keys of terms, one after another."""
    if not is_compiled():
        return b"".join(map(_KEYS.__getitem__, terms))
    from quoth.native import keys

    return keys(terms)


class PassageTerms:
    """The record of one document, read."""

    __slots__ = ("_keys", "_lazy_ends", "_places", "record")

    def __init__(self, record: bytes) -> None:
        """Read a record; raises ValueError where it is not as it was written."""
        if zlib.crc32(memoryview(record)[_WIDTH:]).to_bytes(_WIDTH, "little") != record[:_WIDTH]:
            raise ValueError("its checksum is another")
        self.record = record
        count = int.from_bytes(record[_WIDTH : 2 * _WIDTH], "little")
        body = (2 + _PER_PASSAGE * count) * _WIDTH
        self._places = array("I", record[2 * _WIDTH : body])
        self._keys = record[body:]
        self._lazy_ends: list[int] | None = None

    def __len__(self) -> int:
        return len(self._places) // _PER_PASSAGE

    def fields(self) -> Sequence[int]:
        """Return the number of the field that each passage stands in."""
        return self._places[::_PER_PASSAGE]

    def place(self, at: int) -> PlacedPassage:
        """Tell where a passage stands."""
        start = at * _PER_PASSAGE
        return PlacedPassage(*self._places[start : start + _PER_PASSAGE - 1])

    def cut(self, fields: Mapping[str, tuple[str, ...]], at: int) -> CutPassage:
        """Cut a passage out of the fields of its document."""
        placed, ends = self.place(at), (0, *self._ends())
        name = list(fields)[placed.field]
        text = fields[name][placed.instance][placed.start : placed.end]
        keys = self._keys[_WIDTH * ends[at] : _WIDTH * ends[at + 1]]
        return name, placed.instance, placed.start, placed.end, text, keys

    def weigh(self, weights: Mapping[str, float]) -> list[float]:
        """Weigh every passage by the weighted terms in it, as `weigh_terms` does."""
        if not is_compiled():
            return self.weigh_slowly(weights)
        from quoth.native import weigh

        keys, packed = _WEIGHTS.pack(weights)
        return weigh(self.record, keys, packed, TELLING_LENGTH, K1)

    def weigh_slowly(self, weights: Mapping[str, float]) -> list[float]:
        """Do the same without compiled code."""
        ends, find = self._ends(), self._keys.find
        matched = [0.0] * len(ends)
        for term, weight in weights.items():
            key = _KEYS[term]
            at, tfs = find(key), dict[int, int]()
            while at >= 0:
                if at % _WIDTH:  # across two keys
                    at = find(key, at + 1)
                    continue
                passage = bisect_right(ends, at // _WIDTH)
                tfs[passage] = tfs.get(passage, 0) + 1
                at = find(key, at + _WIDTH)
            for passage, tf in tfs.items():
                matched[passage] += weight * saturate(tf, 1.0)
        return [
            each and each * _share(end - start)
            for each, start, end in zip(matched, (0, *ends), ends, strict=False)
        ]

    def _ends(self) -> list[int]:
        """Tell up to where in all terms each passage's own stand."""
        if self._lazy_ends is None:
            self._lazy_ends = list(accumulate(self._places[_PER_PASSAGE - 1 :: _PER_PASSAGE]))
        return self._lazy_ends


def cut_heaviest(
    kept: Sequence[PassageTerms],
    fields: Sequence[Mapping[str, tuple[str, ...]]],
    weights: Mapping[str, float],
    *,
    besides: Container[str] = (),
) -> Sequence[CutPassage | None]:
    """Cut the first of the heaviest passages of each of many documents; None where there is none.

    Those of fields in `besides` are taken only where there are no others.
    """
    if not is_compiled():
        return cut_heaviest_slowly(kept, fields, weights, besides=besides)
    from quoth.native import heaviest

    keys, packed = _WEIGHTS.pack(weights)
    records = [each.record for each in kept]
    return heaviest(records, list(fields), besides, keys, packed, TELLING_LENGTH, K1)


def cut_heaviest_slowly(
    kept: Sequence[PassageTerms],
    fields: Sequence[Mapping[str, tuple[str, ...]]],
    weights: Mapping[str, float],
    *,
    besides: Container[str] = (),
) -> list[CutPassage | None]:
    """Do the same without compiled code."""
    found: list[CutPassage | None] = []
    for own, texts in zip(kept, fields, strict=True):
        names = list(texts)
        numbers = own.fields()
        fit = [at for at, number in enumerate(numbers) if names[number] not in besides]
        fit = fit or list(range(len(numbers)))
        weighed = own.weigh_slowly(weights) if len(fit) > 1 else [0.0] * len(numbers)
        best = max(fit, key=weighed.__getitem__, default=-1)
        found.append(own.cut(texts, best) if fit else None)
    return found


class PassageTermsFile(DerivedFile):
    """The records of a collection on disk."""

    schema = _SCHEMA

    def __init__(self, connection: sqlite3.Connection, path: Path) -> None:
        super().__init__(connection, path)
        self._pending: list[tuple[int, bytes]] = []
        self._read: dict[int, PassageTerms] = {}
        self._read_bytes = 0

    @classmethod
    def none(cls) -> Self:
        """Return a file that holds nothing."""
        connection = sqlite3.connect(":memory:", check_same_thread=False)
        connection.executescript(cls.schema)
        return cls(connection, Path(":memory:"))

    @property
    def basis(self) -> Any:
        """What the records rest on; None where they were never finished."""
        return self._told().get("basis")

    @property
    def reached(self) -> tuple[int, str]:
        """The last change that the records hold, and the log's digest there."""
        told = self._told()
        try:
            return int(told.get("change", -1)), str(told.get("log", ""))
        except (TypeError, ValueError):
            return -1, ""

    def _told(self) -> dict[str, Any]:
        found = self._run("SELECT value FROM basis")
        try:
            told = json.loads(found[0][0]) if found else {}
        except (ValueError, TypeError):
            return {}
        return told if isinstance(told, dict) else {}

    def require_readable(self) -> None:
        """Raise where the file is no such file."""
        self._run("SELECT max(row) FROM records")

    def read(self, rows: Iterable[int]) -> dict[int, PassageTerms]:
        """Read the records of rows; those that are missing or damaged are left out."""
        wanted, known = list(rows), self._read
        unknown = [row for row in wanted if row not in known]
        if unknown:
            if self._read_bytes > _MAX_READ_BYTES:
                self._read = known = {row: known[row] for row in wanted if row in known}
                self._read_bytes = 0
            for row, record in self._run(_RECORDS, (json.dumps(unknown),)):
                with contextlib.suppress(ValueError, TypeError):
                    known[row] = PassageTerms(record)
                    self._read_bytes += len(record)
        return {row: known[row] for row in wanted if row in known}

    def begin(self) -> None:
        """Start a batch of changes."""
        self._pending = []
        self._run("PRAGMA secure_delete = ON")  # as in the store: what is removed leaves nothing
        self._run("BEGIN IMMEDIATE")

    def clear(self) -> None:
        """Drop all records, within a batch."""
        self._run("DELETE FROM records")

    def put(self, records: Iterable[tuple[int, bytes]]) -> None:
        """Keep records, given by row."""
        self._pending.extend(records)
        if len(self._pending) >= _MAX_PENDING:
            self._flush()

    def drop(self, rows: Sequence[int]) -> None:
        """Drop the records of rows."""
        self._run_many("DELETE FROM records WHERE row = ?", ((row,) for row in rows))

    def commit(self, *, basis: object, change: int, log: str) -> None:
        """Make the batch durable, as the state after `change` of the log."""
        self._flush()
        self._run("DELETE FROM basis")
        told = {"basis": basis, "change": change, "log": log}
        self._run("INSERT INTO basis VALUES (?)", (json.dumps(told, sort_keys=True),))
        self._run("COMMIT")
        self._run("PRAGMA shrink_memory")  # pages at hand are of no use from here on

    def all_records(self) -> Iterator[tuple[int, bytes]]:
        """Yield rows and their records, in the order of rows."""
        try:
            # Not `yield from`: it would close the cursor, perhaps after the connection.
            for found in self._connection.execute(  # noqa: UP028
                "SELECT row, terms FROM records ORDER BY row"
            ):
                yield found
        except SQLITE_ERRORS as error:
            raise explain_failure(self._path, error) from error

    def _flush(self) -> None:
        self._insert_many(
            "records (row, terms)",
            self._pending,
            width=2,
            otherwise="ON CONFLICT DO UPDATE SET terms = excluded.terms",
        )
        self._pending = []
