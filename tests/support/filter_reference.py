"""What a condition means for one document, by its definition: what SQL must select."""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from quoth.collection.filter_syntax import (
    And,
    Comparison,
    Condition,
    Contains,
    Exists,
    Membership,
    Not,
    Or,
)
from quoth.collection.filters import clip, fold, store_value
from quoth.records import Scalar

_OPERATORS: dict[str, Callable[[Any, Any], bool]] = {
    "==": operator.eq,  # != is its negation
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
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
    found = [typed for typed in map(store_value, values.get(condition.key, ())) if typed]
    return any(_passes(condition, *typed) for typed in found)


def _passes(test: Comparison | Membership | Exists | Contains, kind: int, value: Scalar) -> bool:
    match test:
        case Comparison(_, sign, wanted):
            typed = store_value(wanted)
            return typed is not None and typed[0] == kind and _OPERATORS[sign](value, typed[1])
        case Membership(_, wanted_values):
            return (kind, value) in map(store_value, wanted_values)
        case Contains(_, text):
            return isinstance(value, str) and fold(clip(text)) in fold(value)
        case Exists():
            return True
