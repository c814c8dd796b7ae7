"""What `quoth learn` found out: plain values, kept as JSON beside what was learnt.

Every quality is measured on queries that nothing was trained on, with a 95 % interval over those
queries; a difference is paired by query, so it is surer than the two intervals beside it suggest.
No torch here: a report is read and shown where nothing can be trained.
"""

from __future__ import annotations

import dataclasses
import functools
import math
import types
import typing
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Any

from quoth.errors import Damaged
from quoth.evaluation.significance import difference_interval, mean_interval


@dataclass(frozen=True, slots=True)
class Estimate:
    """A mean over queries with its 95 % interval, found by bootstrap."""

    mean: float
    low: float
    high: float


@dataclass(frozen=True, slots=True)
class Quality:
    """One searcher on one kind of held-out queries, before and after learning."""

    searcher: str
    """lexical, dense or hybrid."""

    queries: str
    """The kind of queries: known items (also by overlap), pseudo-queries, or labelled pairs."""

    num_queries: int
    measure: str

    before: Estimate | None
    """None where the searcher did not exist before."""

    after: Estimate

    difference: Estimate | None
    """After minus before, paired by query."""


@dataclass(frozen=True, slots=True)
class Stage:
    """One part of the work, such as one training."""

    name: str
    seconds: float
    peak_megabytes: float
    steps: int
    best_step: int

    curve: tuple[tuple[int, float], ...]
    """Steps, each with the held-out RR@10 after it."""

    stopped_because: str


@dataclass(frozen=True, slots=True)
class LearningReport:
    """Everything that is worth knowing of one learning."""

    collection: str
    quoth: str
    """The version of Quoth."""

    seed: int
    device: str
    num_documents: int
    num_passages: int
    num_queries_by_kind: Mapping[str, int]
    encoder_before: str
    encoder_after: str
    installed: bool
    reason: str
    quality: tuple[Quality, ...]
    stages: tuple[Stage, ...]

    leak: Mapping[str, float]
    """How many held-out queries were trained on, and how far words alone give the others away."""

    identifiers: Mapping[str, float]
    """How many pseudo-queries were kept as names of their documents, and of how many."""

    supervision: str
    """One sentence: what people labelled for this, if anything."""

    seconds: float
    peak_megabytes: float

    examples: tuple[tuple[str, tuple[str, ...]], ...]
    """Passages, each with the pseudo-queries written for it."""

    generative: Mapping[str, float] = dataclasses.field(default_factory=dict)
    """What training generative search came to; empty where it was not asked for."""

    def to_record(self) -> dict[str, Any]:
        """Return everything as plain values for JSON."""
        record: dict[str, Any] = _to_plain(self)
        return record

    @classmethod
    def from_record(cls, record: Any) -> LearningReport:
        """Read what `to_record` gave; anything else is damaged."""
        report: LearningReport = _from_plain(record, cls, "report")
        return report


def estimate(values: Sequence[float], *, seed: int, num_resamples: int = 1000) -> Estimate:
    """Return the mean of one score per query, with its interval.

    >>> estimate([0.5, 0.5], seed=0)
    Estimate(mean=0.5, low=0.5, high=0.5)
    """
    interval = mean_interval(values, seed=seed, num_resamples=num_resamples)
    return Estimate(fmean(values), interval.low, interval.high)


def paired_difference(
    before: Sequence[float], after: Sequence[float], *, seed: int, num_resamples: int = 1000
) -> Estimate:
    """Return the mean of after minus before over the same queries, with its interval.

    >>> paired_difference([0.25, 0.5], [0.5, 0.75], seed=0)
    Estimate(mean=0.25, low=0.25, high=0.25)
    """
    interval = difference_interval(after, before, seed=seed, num_resamples=num_resamples)
    mean = fmean(new - old for old, new in zip(before, after, strict=True))
    return Estimate(mean, interval.low, interval.high)


# --- plain values ----------------------------------------------------------------------------


def _to_plain(value: Any) -> Any:
    if dataclasses.is_dataclass(value):
        return {each.name: _to_plain(getattr(value, each.name)) for each in _fields(type(value))}
    if isinstance(value, Mapping):
        return {key: _to_plain(each) for key, each in value.items()}
    if isinstance(value, tuple):
        return [_to_plain(each) for each in value]
    return value


def _from_plain(value: Any, hint: Any, where: str) -> Any:
    """Read a value of a type, which is what the fields above are made of."""
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
        f"this is no learning report of this version of Quoth: {found}; learn again to make one"
    )


@functools.cache
def _hints(kind: type) -> dict[str, Any]:
    return typing.get_type_hints(kind)


def _fields(kind: type) -> tuple[dataclasses.Field[Any], ...]:
    return dataclasses.fields(kind)
