"""What metadata conditions mean, and the rows they allow.

`matches` says what a condition (see `filter_syntax`) means; `to_sql` says the same to the store's
tables `filter_values` and `documents`, which hold what `filter_entries` finds in a document.

- A key may have many values; a test holds if any one of them passes. `!=` and `not in` are the
exact negations of `==` and `in`, so they also hold for documents without the key. - Booleans,
numbers and texts are three kinds; values of different kinds are never equal or ordered. - Integers
and fractions compare exactly; an integer beyond 64 bits is taken as the nearest fraction. - Texts
compare by code point, so dates compare rightly when written as ISO 8601 (`"2020-01-31"`). Only
their first 1,000 characters are kept and compared, in documents and conditions alike; what SQLite
cannot hold in a text (NUL, lone surrogates, U+FFFE, U+FFFF) counts as U+FFFD. - `contains` ignores
case character by character: ß and ss stay different.
"""

from __future__ import annotations

import json
import math
import operator
import re
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache
from typing import Any, Literal

from quoth.collection.filter_syntax import (
    And,
    Comparison,
    Condition,
    Contains,
    Exists,
    Membership,
    Not,
    Or,
    fit_integer,
)
from quoth.records import Document, Scalar

_BOOL, _NUMBER, _TEXT = 0, 1, 2
_LONGEST_TEXT = 1000
_LONGEST_INSTANCE = 100
_UNSTORABLE = re.compile("[\0\ud800-\udfff\ufffe\uffff]")


def filter_entries(document: Document) -> Iterator[tuple[str, int, Scalar]]:
    """Yield the distinct (key, kind, value) to store for a document, sorted.

    Besides the metadata, field instances of at most 100 characters can be filtered on. NaN cannot.

    >>> list(filter_entries(Document("d1", {"genre": ("Action",)}, {"year": 1999, "hit": True})))
    [('genre', 2, 'Action'), ('hit', 0, 1), ('year', 1, 1999)]
    """
    pairs: list[tuple[str, Scalar]] = []
    for key, value in document.metadata.items():
        pairs.extend((key, each) for each in (value if isinstance(value, tuple) else (value,)))
    for key, instances in document.fields.items():
        pairs.extend((key, each) for each in instances if len(each) <= _LONGEST_INSTANCE)
    stored = ((_clean(key), _store(value)) for key, value in pairs)
    yield from sorted({(key, *typed): None for key, typed in stored if typed})


def _store(value: Scalar) -> tuple[int, Scalar] | None:
    """Turn a value into its kind and the value kept for it; None if it cannot be kept.

    >>> _store(True), _store(2**64), _store(float("nan"))
    ((0, 1), (1, 1.8446744073709552e+19), None)
    """
    if isinstance(value, bool):
        return _BOOL, int(value)
    if isinstance(value, str):
        return _TEXT, _clean(value)[:_LONGEST_TEXT]
    number = fit_integer(value) if isinstance(value, int) else value
    return None if math.isnan(number) else (_NUMBER, number)


def _clean(text: str) -> str:
    return _UNSTORABLE.sub("\ufffd", text)


# What each operator is in Python and in SQL; != is written as a negation.
_OPERATORS: dict[str, tuple[Callable[[Any, Any], bool], str]] = {
    "==": (operator.eq, "="),
    "<": (operator.lt, "<"),
    "<=": (operator.le, "<="),
    ">": (operator.gt, ">"),
    ">=": (operator.ge, ">="),
}


def matches(condition: Condition, values: Mapping[str, Sequence[Scalar]]) -> bool:
    """Whether a document with these values by key meets the condition.

    >>> matches(Comparison("year", ">=", 2020), {"year": (1999, 2021)})
    True
    """
    match condition:
        case And(parts):
            return all(matches(part, values) for part in parts)
        case Or(parts):
            return any(matches(part, values) for part in parts)
        case Not(part):
            return not matches(part, values)
        case Comparison(key, "!=", value):
            return not matches(Comparison(key, "==", value), values)
    found = [typed for typed in map(_store, values.get(condition.key, ())) if typed]
    return any(_passes(condition, *typed) for typed in found)


def _passes(test: Comparison | Membership | Exists | Contains, kind: int, value: Scalar) -> bool:
    match test:
        case Comparison(_, sign, wanted):
            typed = _store(wanted)
            return typed is not None and typed[0] == kind and _OPERATORS[sign][0](value, typed[1])
        case Membership(_, wanted_values):
            return (kind, value) in map(_store, wanted_values)
        case Contains(_, text):
            return isinstance(value, str) and _fold(_clean(text)[:_LONGEST_TEXT]) in _fold(value)
        case Exists():
            return True


def _fold(text: str) -> str:
    """Fold the case of each character that stays one character.

    >>> _fold("Straße Σ")
    'straße σ'
    """
    folded = ((character, character.casefold()) for character in text)
    return "".join(new if len(new) == 1 else old for old, new in folded)


def to_sql(condition: Condition) -> tuple[str, tuple[object, ...]]:
    """Write a condition as SQL that selects the rows of live documents, and its parameters.

    One common table per node, each named in a later one: nested selects would overflow SQLite's
    parser at the depth that conditions may have.

    >>> print(to_sql(Exists("year"))[0])
    WITH t0(row) AS (SELECT row FROM filter_values WHERE key = ?)
    SELECT row FROM documents WHERE removed IS NULL AND row IN (SELECT row FROM t0)
    """
    query = _SqlWriter()
    last = query.write(condition)
    tables = ",\n".join(f"t{number}(row) AS ({sql})" for number, sql in enumerate(query.tables))
    select = f"SELECT row FROM documents WHERE removed IS NULL AND row IN (SELECT row FROM {last})"
    return f"WITH {tables}\n{select}", tuple(query.parameters)


_MOST_OPERANDS = 100  # of one compound select; SQLite takes 500


class _SqlWriter:
    """Gathers the common tables of a query and the parameters in the order of their marks."""

    def __init__(self) -> None:
        self.tables: list[str] = []
        self.parameters: list[object] = []

    def write(self, condition: Condition) -> str:
        """Add the tables of a condition; return the name of the one that holds its rows."""
        match condition:
            case And(parts):
                return self._join("INTERSECT", [self.write(part) for part in parts])
            case Or(parts):
                return self._join("UNION", [self.write(part) for part in parts])
            case Not(part):
                return self._negate(self.write(part))
            case Comparison(key, "!=", value):
                return self._negate(self.write(Comparison(key, "==", value)))
            case Comparison(key, sign, value):
                kind, stored = _store(value) or (_NUMBER, None)  # nothing compares with NULL
                return self._test(
                    key, f"AND kind = {kind} AND value {_OPERATORS[sign][1]} ?", stored
                )
            case Membership(key, values):
                return self._join("UNION", self._write_lists(key, values))
            case Contains(key, text):
                pattern = _glob(_clean(text)[:_LONGEST_TEXT])
                return self._test(key, f"AND kind = {_TEXT} AND value GLOB ?", pattern)
            case Exists(key):
                return self._test(key, "")

    def _write_lists(self, key: str, values: Sequence[Scalar]) -> list[str]:
        """Write one test per list of values; a list is one parameter, however long."""
        lists: dict[tuple[int, float], list[Scalar]] = defaultdict(list)
        for kind, value in filter(None, map(_store, values)):
            scale, listed = (1, value) if isinstance(value, str) else _scale_number(value)
            lists[kind, scale].append(listed)
        tests = []
        for (kind, scale), listed_values in lists.items():
            scaled, factors = ("j.value", ()) if kind == _TEXT else ("j.value * ?", (scale,))
            test = f"AND kind = {kind} AND value IN (SELECT {scaled} FROM json_each(?) AS j)"
            tests.append(self._test(key, test, *factors, json.dumps(listed_values)))
        return tests

    def _test(self, key: str, sql: str, *parameters: object) -> str:
        self.parameters += (_clean(key), *parameters)
        return self._add(f"SELECT row FROM filter_values WHERE key = ? {sql}".rstrip())

    def _negate(self, table: str) -> str:
        every = "SELECT row FROM documents WHERE removed IS NULL"
        return self._add(f"{every} EXCEPT SELECT row FROM {table}")

    def _join(self, word: Literal["INTERSECT", "UNION"], tables: list[str]) -> str:
        if not tables:
            return self._add(f"SELECT row FROM documents WHERE {int(word == 'INTERSECT')}")
        while len(tables) > 1:
            starts = range(0, len(tables), _MOST_OPERANDS)
            groups = [tables[start : start + _MOST_OPERANDS] for start in starts]
            selects = [[f"SELECT row FROM {table}" for table in group] for group in groups]
            tables = [self._add(f" {word} ".join(operands)) for operands in selects]
        return tables[0]

    def _add(self, sql: str) -> str:
        self.tables.append(sql)
        return f"t{len(self.tables) - 1}"


def _scale_number(value: float) -> tuple[float, int]:
    """Write a number as a power of two times an integer, as SQLite may round decimals in JSON.

    >>> _scale_number(0.75), _scale_number(2**53 + 1)
    ((0.25, 3), (1, 9007199254740993))
    """
    if isinstance(value, int):
        return 1, value
    if math.isinf(value):
        return math.inf, 1 if value > 0 else -1
    top, bottom = value.as_integer_ratio()
    shift = max(0, top.bit_length() - 62)  # the bits shifted out are zeros
    return (1 / bottom if bottom > 1 else math.ldexp(1, shift)), top >> shift


def _glob(text: str) -> str:
    """Write a GLOB pattern for texts that contain this one in any case.

    >>> _glob("a*É1")
    '*[aA][*][éÉ]1*'
    """
    variants = (_list_case_variants().get(_fold(character), character) for character in text)
    return f"*{''.join(v if len(v) == 1 and v not in '*?[' else f'[{v}]' for v in variants)}*"


@cache
def _list_case_variants() -> dict[str, str]:
    """List the characters that fold to the same one, by that one, where there are several."""
    every = "".join(map(chr, range(0x20000)))  # no letter beyond has a case
    variants: dict[str, str] = {}
    for character, folded in zip(every, _fold(every), strict=True):
        if character != folded:
            variants[folded] = variants.get(folded, folded) + character
    return variants
