"""Describe settings to people: default, what is allowed, and what each means."""

from __future__ import annotations

import ast
import functools
import inspect
import textwrap
import typing
from collections.abc import Mapping
from dataclasses import dataclass, is_dataclass
from typing import Any

from quoth.constraints import field_hints, split_hint, type_in_words
from quoth.settings.config import sections, setting_names
from quoth.settings.dynamic_lm import BY_DEVICE, TRAINING_DEFAULTS


@dataclass(frozen=True, slots=True)
class Setting:
    """A field of a section, as `quoth settings` and `--help` show it."""

    section: str
    name: str
    default: Any
    allowed: str
    help: str
    """All that is known of it, over several lines."""

    @property
    def meaning(self) -> str:
        """Return the first sentence of the help.

        >>> Setting("a", "b", 1, "", "Most words. More\\nare cut.").meaning
        'Most words.'
        """
        return " ".join(self.help.split()).split(". ")[0].removesuffix(".") + "."

    @property
    def default_text(self) -> str:
        """Return the default as it is written on a command line."""
        return show_value(self.default)

    def to_record(self) -> dict[str, Any]:
        """Return everything as JSON takes it."""
        default = list(self.default) if isinstance(self.default, tuple) else self.default
        return {
            "setting": f"{self.section}.{self.name}",
            "default": dict(default) if isinstance(default, Mapping) else default,
            "allowed": self.allowed,
            "meaning": self.meaning,
            "help": " ".join(self.help.split()),
        }


@functools.cache
def describe_section(section: str) -> tuple[Setting, ...]:
    """List the settings of a section, less those that are sections of their own."""
    kind = sections()[section]
    docs, hints = field_docs(kind), dict(field_hints(kind))
    return tuple(
        Setting(section, name, _default(section, name), allowed_in_words(hints[name]), docs[name])
        for name in setting_names(kind)
    )


def _default(section: str, name: str) -> Any:
    """Return what is taken where nothing is set; None where the device decides."""
    if name in BY_DEVICE.get(section, ()):
        return None
    chosen = TRAINING_DEFAULTS.get(section, {})
    return chosen[name] if name in chosen else getattr(_usual(section), name)


@functools.cache
def _usual(section: str) -> Any:
    return sections()[section]()


def describe_setting(section: str, name: str) -> Setting:
    """Find one setting."""
    return next(each for each in describe_section(section) if each.name == name)


def allowed_in_words(hint: Any) -> str:
    """Say which values a field takes.

    >>> from quoth.constraints import AtLeastOne, Names, Share
    >>> allowed_in_words(Share), allowed_in_words(tuple[str, ...]), allowed_in_words(bool)
    ('0 to 1', 'names separated by commas', 'true or false')
    """
    kind, constraints = split_hint(hint)
    said = [found.expected for found in constraints if found.expected]
    if parts := typing.get_args(kind)[:2]:
        inner = [found for part in parts for found in split_hint(part)[1]]
        said += [f"each {found.expected}" for found in inner if found.expected]
        said.insert(0, type_in_words(hint))
    return ", ".join(said) or type_in_words(hint)


def show_value(value: object) -> str:
    """Write a value as it is written on a command line; nothing is shown as empty."""
    if value is None:
        return "depends on the device"
    if isinstance(value, Mapping):
        return ",".join(f"{name}={weight:g}" for name, weight in value.items()) or "empty"
    if isinstance(value, tuple):
        return ",".join(map(str, value)) or "empty"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, int) and value >= 10_000:
        return f"{value:_}"  # read back as it is, unlike a comma
    return str(value) or "empty"


@functools.cache
def field_docs(kind: type) -> dict[str, str]:
    """Read the docstring that stands below each field of a settings class, inherited ones too.

    >>> from quoth.text.words import AnalyserConfig
    >>> field_docs(AnalyserConfig)["fold_accents"][:18]
    'Match words with a'
    """
    found: dict[str, str] = {}
    for each in reversed(kind.__mro__):
        if is_dataclass(each):
            found |= _own_docs(each)
    return found


def _own_docs(kind: type) -> dict[str, str]:
    body = ast.parse(textwrap.dedent(inspect.getsource(kind))).body[0]
    assert isinstance(body, ast.ClassDef)
    return {
        field.target.id: inspect.cleandoc(str(doc.value.value))
        for field, doc in zip(body.body, body.body[1:], strict=False)
        if isinstance(field, ast.AnnAssign)
        and isinstance(field.target, ast.Name)
        and isinstance(doc, ast.Expr)
        and isinstance(doc.value, ast.Constant)
    }
