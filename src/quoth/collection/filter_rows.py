"""Find the rows that meet a metadata condition.

`filters.matches` says what a condition means. Here the same is found out for all documents at once,
from the tables `filter_values` and `documents`. A set of rows is a number whose bits are the rows,
so that `and`, `or` and `not` cost next to nothing, whatever the tree; what costs is reading rows.
So the tests on one key share what they read: a value that several tests name is read once, so is
each range between the bounds of all comparisons, and all texts to look for in a key are looked for
in one pass.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Sequence
from functools import cached_property
from itertools import compress, repeat
from operator import contains
from typing import Any, cast

from quoth.collection.database import Database
from quoth.collection.filter_syntax import (
    And,
    Comparison,
    Condition,
    Contains,
    Exists,
    Membership,
    Not,
    Or,
    Test,
)
from quoth.collection.filters import TEXT, clean, clip, fold, fold_all, store_value
from quoth.interruption import check_interruption
from quoth.records import Scalar

RowBits = int
"""Rows as the bits of a number; a negative one means all rows but some."""

_NONE, _ALL = 0, -1
_VALUES_AT_ONCE = 500  # bound to one statement; SQLite may take no more than 999
_TEXTS_AT_ONCE = 5_000
_FEW = 1_000  # rows that are quicker to fetch than to flag
_MAX_SHARED = 256  # values of a key whose rows are kept
_FILLED = re.compile(rb"[^\0]")
_TO_DIGITS, _TO_FLAGS = bytes.maketrans(b"\0\1", b"01"), bytes.maketrans(b"01", b"\0\1")


def find_rows(condition: Condition, database: Database) -> set[int]:
    """Find the rows of live documents whose metadata meet a condition."""
    reader = _RowReader(database)
    found = _Evaluation(condition, reader).evaluate(condition)
    return to_rows(found & reader.live() if found < 0 else found & ~reader.removed())


def gather(rows: Sequence[int]) -> RowBits:
    """Turn a few rows into a set.

    >>> gather([1, 3]) == 2**1 + 2**3
    True
    """
    octets = bytearray(max(rows, default=0) // 8 + 1)
    for row in rows:
        octets[row // 8] |= 1 << row % 8
    return int.from_bytes(octets, "little")


def to_bits(flags: bytes | bytearray) -> RowBits:
    """Turn one byte per row, 0 or 1, into bits.

    >>> to_bits(bytes([0, 1, 0, 1])) == 2**1 + 2**3
    True
    """
    return int(flags.translate(_TO_DIGITS)[::-1], 2)


def to_rows(bits: RowBits) -> set[int]:
    """List the rows of a set.

    >>> to_rows(2**1 + 2**3)
    {1, 3}
    """
    if bits.bit_count() < _FEW:
        octets = bits.to_bytes(bits.bit_length() // 8 + 1, "little")
        found = ((8 * each.start(), each[0][0]) for each in _FILLED.finditer(octets))
        return {row + place for row, octet in found for place in range(8) if octet >> place & 1}
    flags = f"{bits:b}".encode().translate(_TO_FLAGS)[::-1]
    return set(compress(range(len(flags)), flags))


def list_tests(condition: Condition) -> Iterator[Test]:
    """Yield the tests that a condition is made of, from left to right."""
    match condition:
        case And(parts) | Or(parts):
            for part in parts:
                yield from list_tests(part)
        case Not(part):
            yield from list_tests(part)
        case _:
            yield condition


class _RowReader:
    """Reads sets of rows from the store's tables."""

    def __init__(self, database: Database) -> None:
        self._db = database
        self.size = 1 + int(database.one("SELECT coalesce(max(row), 0) FROM documents"))

    def live(self) -> RowBits:
        """Read the rows of all live documents; an index lists them, as documents are long."""
        return self._read("SELECT row FROM documents", ()) & ~self.removed()

    def removed(self) -> RowBits:
        """Read the rows of removed documents that are still kept."""
        return self._read("SELECT row FROM documents WHERE removed IS NOT NULL", ())

    def entries(self, where: str, parameters: tuple[object, ...]) -> RowBits:
        """Read the rows of some entries."""
        return self._read(f"SELECT row FROM filter_values WHERE {where}", parameters)

    def texts(self, key: str) -> Iterator[list[Any]]:
        """Yield text and row of all entries with texts of a key, many at a time."""
        query = "SELECT CAST(value AS TEXT), row FROM filter_values WHERE key = ? AND kind = ?"
        return self._db.portions(query, (key, TEXT), size=_TEXTS_AT_ONCE)

    def _read(self, sql: str, parameters: tuple[object, ...]) -> RowBits:
        check_interruption()
        few = self._db.all(f"{sql} LIMIT {_FEW}", parameters)
        if len(few) < _FEW:
            return gather([row for (row,) in few])
        return to_bits(self._db.flag_rows(sql, parameters, size=self.size))


class _Evaluation:
    """One condition being evaluated: what its tests ask of each key, and what is known by now."""

    def __init__(self, condition: Condition, reader: _RowReader) -> None:
        self._reader = reader
        self._columns: dict[tuple[str, int], _Column] = {}
        self._texts: dict[str, _Texts] = {}
        self._keys: dict[str, RowBits] = {}
        for test in list_tests(condition):
            self._plan(test)

    def evaluate(self, condition: Condition) -> RowBits:
        """Find the rows that meet a condition, or part of it."""
        match condition:
            case And(parts):
                return self._meet(parts)
            case Or(parts):
                return self._join(parts)
            case Not(part):
                return ~self.evaluate(part)
            case Comparison(key, "!=", value):
                return ~self.evaluate(Comparison(key, "==", value))
        return self._test(condition)

    def _meet(self, parts: Sequence[Condition]) -> RowBits:
        found = _ALL
        for part in parts:
            if found == _NONE:
                break
            found &= self.evaluate(part)
        return found

    def _join(self, parts: Sequence[Condition]) -> RowBits:
        found = _NONE
        for part in parts:
            found |= self.evaluate(part)
        return found

    def _plan(self, test: Test) -> None:
        """Note what a test asks of its key, so that it can be read together with the others."""
        match test:
            case Comparison(key, sign, value):
                for kind, stored in _store_all((value,)):
                    column = self._column(key, kind)
                    (column.mentions if sign in ("==", "!=") else column.cuts)[stored] += 1
            case Membership(key, values):
                for kind, stored in _store_all(values):
                    self._column(key, kind).mentions[stored] += 1
            case Contains(key, text):
                texts = self._texts.setdefault(clean(key), _Texts(clean(key), self._reader))
                texts.wanted.add(_needle(text))

    def _test(self, test: Test) -> RowBits:
        match test:
            case Comparison(key, sign, value):
                for kind, stored in _store_all((value,)):
                    column = self._column(key, kind)
                    return column.equal([stored]) if sign == "==" else column.compare(sign, stored)
                return _NONE  # nothing compares with NaN
            case Membership(key, values):
                return self._list_members(key, values)
            case Contains(key, text):
                return self._texts[clean(key)].found[_needle(text)]
            case Exists(key):
                return self._exists(clean(key))

    def _list_members(self, key: str, values: Sequence[Scalar]) -> RowBits:
        by_kind: dict[int, list[Scalar]] = {}
        for kind, stored in _store_all(values):
            by_kind.setdefault(kind, []).append(stored)
        found = _NONE
        for kind, wanted in by_kind.items():
            found |= self._column(key, kind).equal(wanted)
        return found

    def _exists(self, key: str) -> RowBits:
        if key not in self._keys:
            self._keys[key] = self._reader.entries("key = ?", (key,))
        return self._keys[key]

    def _column(self, key: str, kind: int) -> _Column:
        name = clean(key), kind
        if name not in self._columns:
            self._columns[name] = _Column(*name, self._reader)
        return self._columns[name]


class _Column:
    """The values of one key and kind, as far as a condition asks for them.

    Values that several tests name are read once and kept. The bounds of all comparisons, sorted,
    cut the values into segments: below the first bound (0), equal to it (1), between it and the
    second (2), and so on. A comparison allows all segments up to one or from one on.
    """

    def __init__(self, key: str, kind: int, reader: _RowReader) -> None:
        self.mentions: Counter[Scalar] = Counter()
        self.cuts: Counter[Scalar] = Counter()
        self._name = (key, kind)
        self._reader = reader
        self._values: dict[Scalar, RowBits] = {}
        self._segments: dict[int, RowBits] = {}
        self._upto: list[RowBits] = []
        self._onward: list[RowBits] = []

    def equal(self, wanted: Collection[Scalar]) -> RowBits:
        """Find the rows with one of some values."""
        others = [value for value in wanted if value not in self._shared]
        found = _NONE
        for value in self._shared.intersection(wanted):
            if value not in self._values:
                self._values[value] = self._read("= ?", value)
            found |= self._values[value]
        for start in range(0, len(others), _VALUES_AT_ONCE):
            some = others[start : start + _VALUES_AT_ONCE]
            found |= self._read(f"IN ({', '.join('?' * len(some))})", *some)
        return found

    def compare(self, sign: str, value: Scalar) -> RowBits:
        """Find the rows with a value on one side of a bound."""
        every = range(2 * len(self._bounds) + 1)
        at = 2 * self._bounds.index(value) + 1
        if sign in ("<", "<="):
            return self._reach(self._upto, every[: at + (sign == "<=")])
        return self._reach(self._onward, every[: at - (sign == ">=") : -1])

    @cached_property
    def _shared(self) -> set[Scalar]:
        """The values that several tests name, or the most named of them."""
        named = self.mentions.most_common(_MAX_SHARED)
        return {value for value, times in named if times > 1}

    @cached_property
    def _bounds(self) -> list[Any]:
        return sorted(cast(Iterable[Any], self.cuts))

    def _reach(self, known: list[RowBits], segments: Sequence[int]) -> RowBits:
        """Join segments, each of which is known together with all before it once it is read."""
        for number in segments[len(known) :]:
            if number not in self._segments:
                self._segments[number] = self._read_segment(number)
            known.append(self._segments[number] | (known[-1] if known else _NONE))
        return known[len(segments) - 1]

    def _read_segment(self, number: int) -> RowBits:
        """Read the rows of one segment; odd ones hold one value, even ones what lies between."""
        place, is_bound = divmod(number, 2)
        if is_bound:
            return self._read("= ?", self._bounds[place])
        above, below = self._bounds[max(0, place - 1) : place], self._bounds[place : place + 1]
        tests = ["> ?"] * len(above) + ["< ?"] * len(below)
        return self._read(" AND value ".join(tests) or "IS NOT NULL", *above, *below)

    def _read(self, test: str, *values: Scalar) -> RowBits:
        where = f"key = ? AND kind = ? AND value {test}"
        return self._reader.entries(where, (*self._name, *values))


class _Texts:
    """All that a condition looks for in the texts of one key."""

    def __init__(self, key: str, reader: _RowReader) -> None:
        self.wanted: set[str] = set()
        self._key = key
        self._reader = reader

    @cached_property
    def found(self) -> dict[str, RowBits]:
        """Find the rows of each text that is looked for."""
        flags = {needle: bytearray(self._reader.size) for needle in self.wanted}
        for some in self._reader.texts(self._key):
            texts, rows = zip(*some, strict=True)
            folded = fold_all(texts)
            for needle, flagged in flags.items():
                check_interruption()
                for row in compress(rows, map(contains, folded, repeat(needle))):
                    flagged[row] = 1
        return {needle: to_bits(flagged) for needle, flagged in flags.items()}


def _needle(text: str) -> str:
    return fold(clip(text))


def _store_all(values: Sequence[Scalar]) -> Iterator[tuple[int, Scalar]]:
    return filter(None, map(store_value, values))
