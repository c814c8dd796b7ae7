"""From a record of keys and values to a document: which key is the docid, a field, or metadata.

Strings are fields and numbers are metadata; nested records are flattened with dotted keys, and what
fits neither rule is written as JSON into the field. Nothing is lost except nulls and empty strings.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import NamedTuple, TypeVar

from quoth.errors import CorpusError
from quoth.records import Document, Located, Place, Problem, Scalar
from quoth.text.readers.config import LINE_ID
from quoth.text.readers.outcomes import Metadata, Outcome

_T = TypeVar("_T")
USUAL_ID_KEYS = ("_id", "id", "docid")


@dataclass(frozen=True, slots=True)
class Keys:
    """Which key holds the docid (empty: a usual one) and which strings are only filtered on."""

    id_key: str
    metadata_keys: frozenset[str]


@dataclass(frozen=True, slots=True)
class Flaw:
    """Stands where a value should be that cannot be stored, and says why."""

    message: str


class _Leaf(NamedTuple):
    """A value with its dotted key, and whether it is metadata rather than text."""

    name: str
    value: object
    is_metadata: bool


def read_record(record: object, *, place: Place, keys: Keys) -> Outcome:
    """Make a document of a record, or say why it cannot be one."""
    try:
        return Located(_build_document(record, place=place, keys=keys), place)
    except CorpusError as error:
        return Problem(place, str(error))
    except RecursionError:
        return Problem(place, "nested too deeply")


def find_id_key(names: Iterable[str], *, keys: Keys) -> str:
    """Pick the key that holds the docid.

    >>> find_id_key(["text", "id", "_id"], keys=Keys("", frozenset()))
    '_id'
    """
    present = set(names)
    wanted = (keys.id_key,) if keys.id_key else USUAL_ID_KEYS
    for name in wanted:
        if name in present or name == LINE_ID:
            return name
    expected = " or ".join(json.dumps(name, ensure_ascii=False) for name in wanted)
    advice = f'set readers.id_key to another key, or to "{LINE_ID}" to use path:line'
    raise CorpusError(f"no docid: expected the key {expected}; {advice}")


def _build_document(record: object, *, place: Place, keys: Keys) -> Document:
    if isinstance(record, Flaw):
        raise CorpusError(record.message)
    if not isinstance(record, dict):
        raise CorpusError(f"expected a JSON object, found {_kind(record)}")
    id_key = find_id_key(record, keys=keys)
    if id_key == LINE_ID:
        docid, rest = str(place), record
    else:
        docid = _docid_of(id_key, record[id_key])
        rest = {name: value for name, value in record.items() if name != id_key}
    leaves = list(_leaves(rest, prefix="", is_metadata=False, keys=keys))
    fields = _gather((leaf.name, _texts(leaf.value)) for leaf in leaves if not leaf.is_metadata)
    metadata: Metadata = _gather(
        (leaf.name, _scalars(leaf.value)) for leaf in leaves if leaf.is_metadata
    )
    return Document(docid, fields, metadata)


def _docid_of(key: str, value: object) -> str:
    """Read a docid: a string that is not blank, or a whole number."""
    if isinstance(value, Flaw):
        raise CorpusError(value.message)
    if isinstance(value, int) and not isinstance(value, bool):
        return str(value)
    if isinstance(value, str) and value.strip():
        return value
    found = "a blank string" if isinstance(value, str) else _kind(value)
    raise CorpusError(f'docid "{key}" must be a string or a whole number, found {found}')


def _leaves(
    record: Mapping[str, object], *, prefix: str, is_metadata: bool, keys: Keys
) -> Iterator[_Leaf]:
    """Flatten a record; what stands under the top key `metadata` keeps its keys as they are."""
    for key, value in record.items():
        name = prefix + key
        is_kept = is_metadata or name in keys.metadata_keys
        if isinstance(value, dict) and name == "metadata" and not is_metadata:
            yield from _leaves(value, prefix="", is_metadata=True, keys=keys)
        elif isinstance(value, dict):
            yield from _leaves(value, prefix=f"{name}.", is_metadata=is_kept, keys=keys)
        else:
            bare = _without_nulls(value)
            yield _Leaf(name, bare, is_kept or _is_numeric(bare))


def _without_nulls(value: object) -> object:
    return [item for item in value if item is not None] if isinstance(value, list) else value


def _is_numeric(value: object) -> bool:
    """Tell whether there is something and nothing but numbers and truth values in it.

    >>> _is_numeric(3), _is_numeric([1, True]), _is_numeric([]), _is_numeric(["3", 3])
    (True, True, False, False)
    """
    if isinstance(value, list):
        return bool(value) and all(isinstance(item, int | float) for item in value)
    return isinstance(value, int | float)


def _texts(value: object) -> tuple[str, ...] | None:
    """Turn a value into the instances of a field; empty strings are dropped.

    >>> _texts("one"), _texts(["a", "", 2, {"b": [3]}]), _texts(None)
    (('one',), ('a', '2', '{"b": [3]}'), None)
    """
    if isinstance(value, str):
        return (value,) if value else None
    if value is None:
        return None
    items = value if isinstance(value, list) else [value]
    texts = (item if isinstance(item, str) else _render(item) for item in items)
    return tuple(text for text in texts if text) or None


def _scalars(value: object) -> Scalar | tuple[Scalar, ...] | None:
    """Turn a value into metadata: a scalar, or a tuple of scalars for a list.

    >>> _scalars(3), _scalars(["a", True, [1]]), _scalars([])
    (3, ('a', True, '[1]'), None)
    """
    if isinstance(value, list):
        return tuple(map(_scalar, value)) or None
    return None if value is None else _scalar(value)


def _scalar(value: object) -> Scalar:
    return value if isinstance(value, str | int | float) else _render(value)


def _gather(pairs: Iterable[tuple[str, _T | None]]) -> dict[str, _T]:
    """Collect what there is by key; two values that flatten to one key must agree."""
    value_by_key: dict[str, _T] = {}
    for name, value in pairs:
        if value is None:
            continue
        if value_by_key.setdefault(name, value) != value:
            raise CorpusError(f'key "{name}" has two different values after flattening; rename one')
    return value_by_key


def _render(value: object) -> str:
    """Write a value that is no string as JSON."""
    return json.dumps(value, ensure_ascii=False, default=_refuse)


def _refuse(value: object) -> str:
    raise CorpusError(value.message if isinstance(value, Flaw) else f"cannot store {value!r}")


def _kind(value: object) -> str:
    """Name the JSON kind of a value.

    >>> _kind(None), _kind(True), _kind([]), _kind(1.5)
    ('null', 'a boolean', 'a list', 'a number')
    """
    if value is None:
        return "null"
    names = {bool: "a boolean", int: "a number", float: "a number", str: "a string"}
    return names.get(type(value), "a list" if isinstance(value, list) else "an object")
