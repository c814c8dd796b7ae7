"""Every setting declares what it may be and what it means, and one checker heeds that."""

from __future__ import annotations

import dataclasses
import importlib
import math
import pkgutil
import typing
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any, Literal

import numpy as np
import pytest

import quoth
from quoth.constraints import (
    FREE,
    AtLeastOne,
    CheckedConfig,
    Names,
    OneOf,
    Range,
    Seed,
    Share,
    field_hints,
    not_empty,
    split_hint,
)
from quoth.errors import ConfigError
from quoth.settings.describe import describe_section, field_docs


def _modules() -> Iterator[Any]:
    for each in pkgutil.walk_packages(quoth.__path__, "quoth."):
        if not each.name.startswith("quoth.adapters."):  # their libraries may be absent
            yield importlib.import_module(each.name)


def _classes() -> list[type]:
    """List the dataclasses that are settings, by their base or by their name."""
    found = {
        each
        for module in _modules()
        for each in vars(module).values()
        if isinstance(each, type) and dataclasses.is_dataclass(each)
        if each.__module__ == module.__name__
        if issubclass(each, CheckedConfig) or each.__name__.endswith(("Config", "Recipe"))
    }
    return sorted(found - {quoth.settings.config.Config}, key=lambda each: each.__qualname__)


CLASSES = _classes()


def _undeclared(hint: Any) -> bool:
    """Whether a field says nothing of what it may hold."""
    kind, constraints = split_hint(hint)
    inner = [each for each in typing.get_args(kind)[:2] if each not in (str, type(None), ...)]
    if inner and not isinstance(kind, type):
        return not constraints and any(map(_undeclared, inner))
    is_nested = isinstance(kind, type) and issubclass(kind, CheckedConfig)
    return not (constraints or kind is bool or is_nested)


@pytest.mark.parametrize("kind", CLASSES, ids=lambda each: each.__name__)
def test_every_field_declares_bounds_choices_or_that_it_is_free(kind: type) -> None:
    assert issubclass(kind, CheckedConfig) and kind.title
    assert [name for name, hint in field_hints(kind) if _undeclared(hint)] == []


@pytest.mark.parametrize("kind", CLASSES, ids=lambda each: each.__name__)
def test_every_field_has_a_meaning(kind: type) -> None:
    docs = field_docs(kind)
    assert docs.keys() == {each.name for each in dataclasses.fields(kind)}
    assert all(text.endswith(".") and "[" not in text for text in docs.values()), "or rich eats it"


def test_settings_are_found() -> None:
    assert len(CLASSES) > 40 and len({each.title for each in CLASSES}) == len(CLASSES) - 1


def test_a_meaning_is_one_line() -> None:
    from quoth.settings.config import sections

    for section in sections():
        for each in describe_section(section):
            assert each.allowed and "\n" not in each.meaning and each.meaning.endswith(".")


# The checker -----------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Nested(CheckedConfig, title="nested"):
    count: AtLeastOne = 1


@dataclass(frozen=True, slots=True)
class _Owls(CheckedConfig, title="owls"):
    count: AtLeastOne = 3
    seed: Seed = 0
    share: Share = 0.5
    kind: Annotated[str, OneOf("barn", "eagle", "snowy")] = "barn"
    side: Literal["left", "right"] = "left"
    place: Annotated[str, not_empty("a place such as barn")] = "barn"
    names: Names = ()
    weights: Mapping[str, Annotated[float, Range(above=0)]] = field(default_factory=dict)
    limit: Annotated[float | None, FREE] = None
    size: Annotated[int, Range(2, 9, or_zero=True)] = 0
    awake: bool = True
    nested: _Nested = field(default_factory=_Nested)

    def conflicts(self) -> Iterator[str]:
        if self.count > 5 and self.share == 1:
            yield "more than 5 cannot share everything"


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"count": 0}, "count is 0, expected at least 1"),
        ({"count": 2.0}, "count is 2.0, expected a whole number"),
        ({"count": True}, "count is True, expected a whole number"),
        ({"share": 1.5}, "share is 1.5, expected 0 to 1"),
        ({"share": math.nan}, "share is nan, expected a number"),
        ({"share": math.inf}, "share is inf, expected a number"),
        ({"kind": "tawny"}, "kind is 'tawny', expected one of barn, eagle, snowy"),
        ({"side": "top"}, "side is 'top', expected left or right"),
        ({"place": ""}, "place is empty, expected a place such as barn"),
        ({"names": "ab"}, "names is 'ab', expected names separated by commas"),
        ({"weights": {"a": 0.0}}, "weights.a is 0.0, expected above 0"),
        ({"weights": {"a": "x"}}, "weights is {'a': 'x'}, expected name=weight pairs"),
        ({"limit": "x"}, "limit is 'x', expected a number or none"),
        ({"size": 1}, "size is 1, expected 0 or 2 to 9"),
        ({"awake": 1}, "awake is 1, expected true or false"),
        ({"nested": 1}, "nested is 1, expected settings of its own"),
        ({"count": 6, "share": 1}, "owls: more than 5 cannot share everything"),
    ],
)
def test_the_checker_says_field_value_and_what_is_allowed(given: Any, said: str) -> None:
    with pytest.raises(ConfigError) as refused:
        _Owls(**given)
    assert said in str(refused.value) and str(refused.value).startswith("owls: ")


def test_all_problems_come_together() -> None:
    with pytest.raises(ConfigError, match=r"^owls: count is -1, .*; size is 10, .*$"):
        _Owls(count=-1, size=10)
    with pytest.raises(ConfigError, match=r"kind is 'x', .*; more than 5 cannot"):
        _Owls(kind="x", count=6, share=1)
    with pytest.raises(ConfigError, match=r"^owls: count is 'x', expected a whole number$"):
        _Owls(count="x", share=1)  # type: ignore[arg-type]  # no conflict can be looked for


def test_what_fits_is_taken() -> None:
    made = _Owls(count=np.int64(2), share=1, names=["a"], size=9, limit=0.5)  # type: ignore[arg-type]
    assert (made.count, made.share, made.size) == (2, 1, 9)
    assert dataclasses.replace(made, size=2).size == 2
