"""Records that jobs keep as JSON, reports above all: read back only where every value fits.

No torch here: a report is read and shown where nothing can be trained.
"""

from __future__ import annotations

import dataclasses
import functools
import math
import types
import typing
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Self

from quoth.errors import Damaged


class JobRecord:
    """A frozen dataclass of plain values; whatever a job reports is one."""

    __slots__ = ()

    def to_record(self) -> dict[str, Any]:
        """Return everything as plain values for JSON."""
        record: dict[str, Any] = _to_plain(self)
        return record

    @classmethod
    def from_record(cls, record: Any) -> Self:
        """Read what `to_record` gave; anything else is damaged."""
        found: Self = _from_plain(record, cls, "report")
        return found


def _to_plain(value: Any) -> Any:
    if dataclasses.is_dataclass(value):
        return {
            each.name: _to_plain(getattr(value, each.name)) for each in dataclasses.fields(value)
        }
    if isinstance(value, Mapping):
        return {key: _to_plain(each) for key, each in value.items()}
    if isinstance(value, tuple):
        return [_to_plain(each) for each in value]
    return str(value) if isinstance(value, Path) else value


def _from_plain(value: Any, hint: Any, where: str) -> Any:
    """Read a value of a type, which is what the fields of reports are made of."""
    if dataclasses.is_dataclass(hint):
        return _read_fields(value, typing.cast(type, hint), where)
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if origin is types.UnionType:  # a dataclass or None
        return None if value is None else _from_plain(value, arguments[0], where)
    if origin is tuple:
        return _read_items(value, arguments, where)
    if origin is Mapping:
        _require(isinstance(value, Mapping), value, "names with values", where)
        return {
            _from_plain(key, arguments[0], where): _from_plain(each, arguments[1], f"{where}.{key}")
            for key, each in value.items()
        }
    if hint is float:
        is_number = isinstance(value, int | float) and not isinstance(value, bool)
        _require(is_number and math.isfinite(value), value, "a finite number", where)
        return float(value)
    if hint is Path:
        return Path(_from_plain(value, str, where))
    _require(type(value) is hint, value, f"a value of type {hint.__name__}", where)
    return value


def _read_fields(value: Any, kind: type, where: str) -> Any:
    _require(isinstance(value, Mapping), value, "names with values", where)
    hints = _hints(kind)
    missing, unknown = sorted(hints.keys() - value.keys()), sorted(value.keys() - hints.keys())
    if missing or unknown:
        told = [
            f"{word} {', '.join(map(repr, names))}"
            for word, names in (("lacks", missing), ("has besides", unknown))
            if names
        ]
        raise _damaged(f"{where} {' and '.join(told)}")
    return kind(
        **{name: _from_plain(value[name], hint, f"{where}.{name}") for name, hint in hints.items()}
    )


def _read_items(value: Any, arguments: tuple[Any, ...], where: str) -> tuple[Any, ...]:
    _require(isinstance(value, list | tuple), value, "a list", where)
    if len(arguments) == 2 and arguments[1] is Ellipsis:
        hints = [arguments[0]] * len(value)
    else:
        hints = list(arguments)
    _require(len(value) == len(hints), value, f"{len(hints)} values", where)
    return tuple(
        _from_plain(each, hint, f"{where}[{at}]")
        for at, (each, hint) in enumerate(zip(value, hints, strict=True))
    )


def _require(is_right: bool, value: Any, expected: str, where: str) -> None:
    if not is_right:
        raise _damaged(f"{where} is {str(value)[:80]!r}, expected {expected}")


def _damaged(found: str) -> Damaged:
    return Damaged(
        f"this is no report of this version of Quoth: {found}; run the job again with --restart"
    )


@functools.cache
def _hints(kind: type) -> dict[str, Any]:
    return typing.get_type_hints(kind)
