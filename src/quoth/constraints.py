"""Bounds and choices of settings: declared on the fields, read by one checker.

A settings class says of each field what it may be, and its base class checks that:

    @dataclass(frozen=True, slots=True)
    class DenseConfig(CheckedConfig, title="dense"):
        storage: Annotated[str, OneOf("fp32", "fp16", "int8")] = "fp16"
        exact_limit: AtLeastZero = 200_000

Only conditions over several fields are written out, in `conflicts`. All problems are reported at
once. Every field says what is allowed; `FREE` is for those that may hold anything of their type.
"""

from __future__ import annotations

import dataclasses
import functools
import re
import sys
import types
import typing
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from numbers import Integral, Real
from typing import Annotated, Any, ClassVar, Literal, Protocol

from quoth.errors import ConfigError

_LARGEST = sys.float_info.max  # infinite numbers, and none at all, are no settings


class Constraint(Protocol):
    """What a value of a field must be, beside its type."""

    @property
    def expected(self) -> str:
        """Return what is allowed, in words; empty where everything is."""

    def accepts(self, value: Any) -> bool:
        """Whether a value of the right type is allowed."""


@dataclass(frozen=True, slots=True)
class Range:
    """Bounds of a number, or of how many things a field holds (`Size`)."""

    least: float | None = None
    most: float | None = None
    above: float | None = None
    below: float | None = None
    or_zero: bool = False
    """Whether 0 is allowed as well, where it leaves the choice to Quoth."""

    @property
    def expected(self) -> str:
        """Return the bounds in words.

        >>> [each.expected for each in (Range(0, 1), Range(1), Range(0), Range(above=0, most=1))]
        ['0 to 1', 'at least 1', '0 or more', 'above 0, at most 1']
        >>> Range(64, 768, or_zero=True).expected, Range(0, below=1).expected
        ('0 or 64 to 768', '0 or more, below 1')
        """
        found = f"{self.least:,} to {self.most:,}" if None not in (self.least, self.most) else ""
        return f"0 or {found or self._parts()}" if self.or_zero else found or self._parts()

    def _parts(self) -> str:
        parts = []
        if self.least is not None:
            alone = self.least == 0 or self.below is not None
            parts.append(f"{self.least:,} or more" if alone else f"at least {self.least:,}")
        if self.above is not None:
            parts.append(f"above {self.above:,}")
        if self.most is not None:
            parts.append(f"at most {self.most:,}")
        if self.below is not None:
            parts.append(f"below {self.below:,}")
        return ", ".join(parts)

    def accepts(self, value: float) -> bool:
        """Whether a number lies within the bounds."""
        return (self.or_zero and value == 0) or (
            (self.least is None or value >= self.least)
            and (self.most is None or value <= self.most)
            and (self.above is None or value > self.above)
            and (self.below is None or value < self.below)
        )


class OneOf:
    """A choice of words."""

    def __init__(self, *choices: str) -> None:
        self.choices = choices

    @property
    def expected(self) -> str:
        """Return the choices in words.

        >>> OneOf("text", "json").expected, OneOf("a", "b", "c").expected
        ('text or json', 'one of a, b, c')
        """
        two = len(self.choices) == 2
        return " or ".join(self.choices) if two else f"one of {', '.join(self.choices)}"

    def accepts(self, value: str) -> bool:
        """Whether a word is one of the choices."""
        return value in self.choices


@dataclass(frozen=True, slots=True)
class Accepts:
    """A test of a value, and what it expects in words."""

    test: Callable[[Any], object]
    expected: str

    def accepts(self, value: Any) -> bool:
        """Whether a value passes the test."""
        return bool(self.test(value))


def matches(pattern: str, expected: str) -> Accepts:
    """Return the constraint of texts that match a regular expression as a whole."""
    return Accepts(re.compile(pattern).fullmatch, expected)


def not_empty(expected: str) -> Accepts:
    """Return the constraint of texts and lists that must not be empty."""
    return Accepts(bool, expected)


FREE = Accepts(lambda _value: True, "")
"""Declares that a field may hold anything of its type."""

Text = Annotated[str, FREE]
Seed = Annotated[int, FREE]
AtLeastZero = Annotated[int, Range(0)]
AtLeastOne = Annotated[int, Range(1)]
NonNegative = Annotated[float, Range(0)]
Positive = Annotated[float, Range(above=0)]
Share = Annotated[float, Range(0, 1)]
PositiveShare = Annotated[float, Range(above=0, most=1)]
ShareBelowOne = Annotated[float, Range(0, below=1)]
InnerShare = Annotated[float, Range(above=0, below=1)]
Names = tuple[Text, ...]
Device = Annotated[str, matches(r"auto|cpu|cuda(:\d+)?", "auto, cpu, cuda or cuda:N")]


class CheckedConfig:
    """Base of all settings: checks every field by its annotation, then what `conflicts` says."""

    __slots__ = ()
    title: ClassVar[str] = ""
    """What errors call the settings, the section where there is one."""

    def __init_subclass__(cls, *, title: str = "") -> None:
        super().__init_subclass__()
        if title:  # not given again where dataclass makes the class anew, with slots
            cls.title = title

    def __post_init__(self) -> None:
        kind: type = type(self)
        values = [(name, getattr(self, name), hint) for name, hint in field_hints(kind)]
        problems = [problem for each in values for problem in _problems(*each)]
        if all(_has_type(value, hint) for _, value, hint in values):
            problems += self.conflicts()
        if problems:
            raise ConfigError(f"{self.title}: {'; '.join(problems)}")

    def conflicts(self) -> Iterable[str]:
        """Say what is wrong between several fields; each alone is checked by its annotation."""
        return ()


@functools.cache
def field_hints(kind: type) -> tuple[tuple[str, Any], ...]:
    """List the fields of a settings class with their types, constraints included."""
    hints = typing.get_type_hints(kind, include_extras=True)
    return tuple((each.name, hints[each.name]) for each in dataclasses.fields(kind))


def split_hint(hint: Any) -> tuple[Any, tuple[Constraint, ...]]:
    """Take a type and its constraints apart; a choice of literals is text with choices.

    >>> split_hint(AtLeastOne)
    (<class 'int'>, (Range(least=1, most=None, above=None, below=None, or_zero=False),))
    """
    if typing.get_origin(hint) is Annotated:
        kind, *constraints = typing.get_args(hint)
        return kind, tuple(constraints)
    if typing.get_origin(hint) is Literal:
        return str, (OneOf(*typing.get_args(hint)),)
    return hint, ()


def _problems(name: str, value: Any, hint: Any) -> Iterator[str]:
    """Say what is wrong with the value of a field, or with what it holds."""
    kind, constraints = split_hint(hint)
    if not _has_type(value, hint):
        yield f"{name} is {_show(value)}, expected {type_in_words(hint)}"
        return
    for each in constraints:
        if value is not None and not each.accepts(value):
            yield f"{name} is {_show(value)}, expected {each.expected}"
    if isinstance(value, Mapping):
        for key, item in value.items():
            yield from _problems(f"{name}.{key}", item, typing.get_args(kind)[1])
    elif isinstance(value, list | tuple):
        [inner] = split_hint(typing.get_args(kind)[0])[1]
        for item in value:
            if not inner.accepts(item):
                yield f"{name} has {item!r}, expected {inner.expected}"


def _show(value: Any) -> str:
    return "empty" if isinstance(value, str | tuple | list) and not value else repr(value)


def _has_type(value: Any, hint: Any) -> bool:
    """Whether a value is of the type that a field is declared with, at every depth."""
    kind, _ = split_hint(hint)
    origin = typing.get_origin(kind)
    if origin is types.UnionType:
        return any(_has_type(value, each) for each in typing.get_args(kind))
    if origin is tuple:
        item = typing.get_args(kind)[0]
        return isinstance(value, list | tuple) and all(_has_type(each, item) for each in value)
    if origin is not None:
        item = typing.get_args(kind)[1]
        return isinstance(value, Mapping) and all(_has_type(each, item) for each in value.values())
    if kind is bool or isinstance(value, bool):
        return kind is bool and isinstance(value, bool)
    if kind is float:
        is_number = isinstance(value, Real)
        return is_number and -_LARGEST <= value <= _LARGEST
    return isinstance(value, Integral if kind is int else kind)


def type_in_words(hint: Any) -> str:
    """Say what a value must be by its type alone.

    >>> type_in_words(AtLeastOne), type_in_words(Names)
    ('a whole number', 'names separated by commas')
    """
    kind, _ = split_hint(hint)
    arguments = typing.get_args(kind)
    if typing.get_origin(kind) is types.UnionType:
        return f"{type_in_words(arguments[0])} or none"
    if typing.get_origin(kind) is tuple:
        return "names separated by commas"
    if arguments:
        what = "weight" if split_hint(arguments[1])[0] is float else "number"
        return f"name={what} pairs separated by commas"
    return _WORDS.get(kind, "settings of its own")


_WORDS = {str: "text", int: "a whole number", float: "a number", bool: "true or false"}
