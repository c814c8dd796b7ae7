"""Conditions to show as examples: on metadata that documents of this collection have.

Only some documents are looked at, the first and the last by docid, so that the cost does not grow
with the collection; keys that none of them has are missed. Fields can be filtered on as well, but
are no metadata and give no examples.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

from quoth.collection.filter_syntax import Comparison, Condition, Contains, render
from quoth.records import Scalar

Kind = Literal["boolean", "number", "text"]
_KINDS: tuple[Kind, ...] = ("boolean", "number", "text")  # as numbered in filter_values
_LONGEST_KEY = 40
_LONGEST_VALUE = 60
_SIDE = 100
_MOST_ENTRIES = 5_000

SAMPLE = f"""
SELECT CAST(key AS TEXT), kind, value FROM filter_values
WHERE row IN (
  SELECT row FROM (
    SELECT row FROM documents WHERE removed IS NULL ORDER BY docid LIMIT {_SIDE})
  UNION
  SELECT row FROM (
    SELECT row FROM documents WHERE removed IS NULL ORDER BY docid DESC LIMIT {_SIDE}))
AND key NOT IN (SELECT name FROM fields)
LIMIT {_MOST_ENTRIES}
"""
"""Reads (key, kind, value) of some live documents; indexes lead to each of them."""


@dataclass(frozen=True, slots=True)
class FilterExample:
    """A key of the metadata, the kind of its values, one value, and a condition that it meets."""

    key: str
    kind: Kind
    value: Scalar
    condition: str


def choose_examples(
    entries: Iterable[tuple[str, int, Scalar]], *, most: int
) -> tuple[FilterExample, ...]:
    """Choose the keys with the most values, and of each the middle one of its values.

    Keys that have one value everywhere, or another text in every document, such as a path, come
    last: a condition on them divides nothing.

    >>> entries = [("year", 1, 1999), ("year", 1, 2007), ("year", 1, 2020), ("draft", 0, 1)]
    >>> [example.condition for example in choose_examples(entries, most=2)]
    ['year >= 2007', 'draft == true']
    """
    values: dict[tuple[str, int], list[Scalar]] = defaultdict(list)
    for key, kind, value in entries:
        if _is_short(key, _LONGEST_KEY) and _is_fit(kind, value):
            values[key, kind].append(value)
    chosen: dict[str, FilterExample] = {}
    for key, kind in sorted(values, key=lambda each: (*_rank(values[each]), each)):
        found = sorted(values[key, kind])
        chosen.setdefault(key, _make_example(key, kind, found[len(found) // 2]))
    return tuple(chosen.values())[:most]


def _rank(values: Sequence[Scalar]) -> tuple[bool, int]:
    """Sort what a condition divides well first, then what has more values.

    >>> _rank(["en", "de", "en"]), _rank(["a.md", "b.md", "c.md"]), _rank([2019, 2020, 2021])
    ((False, -3), (True, -3), (False, -3))
    """
    distinct = len(set(values))
    is_name = isinstance(values[0], str) and 2 < distinct == len(values)
    return distinct == 1 or is_name, -len(values)


def _is_fit(kind: int, value: object) -> bool:
    """Whether a value is as its kind says, and can be shown in JSON and read at a glance."""
    if kind == _KINDS.index("text"):
        return isinstance(value, str) and _is_short(value, _LONGEST_VALUE)
    return kind in (0, 1) and isinstance(value, int | float) and math.isfinite(value)


def _is_short(text: str, longest: int) -> bool:
    return 0 < len(text) <= longest and text.isprintable()


def _make_example(key: str, kind: int, value: Scalar) -> FilterExample:
    typed = bool(value) if _KINDS[kind] == "boolean" else value
    return FilterExample(key, _KINDS[kind], typed, render(_condition(key, typed)))


def _condition(key: str, value: Scalar) -> Condition:
    """Make a condition that the value meets, such as people write.

    >>> render(_condition("author", "Edgar Allan Poe"))
    'author contains "Edgar"'
    """
    if isinstance(value, str) and " " in value.strip():
        return Contains(key, max(value.split(), key=len))
    is_ordered = not isinstance(value, bool | str)
    return Comparison(key, ">=" if is_ordered else "==", value)
