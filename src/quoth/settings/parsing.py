"""Settings as people write them: TOML files, and text of a command line."""

from __future__ import annotations

import math
import tomllib
import typing
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from quoth.constraints import field_hints, split_hint, type_in_words
from quoth.errors import ConfigError
from quoth.settings.config import Values, build_config, sections, setting_names

_BOOLEANS = {"true": True, "yes": True, "1": True, "false": False, "no": False, "0": False}


def read_toml(path: Path) -> Values:
    """Read a configuration file."""
    try:
        content = tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise ConfigError(f"{path} cannot be read ({error.strerror})") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ConfigError(f"{path} is not valid TOML ({error})") from error
    stray = [name for name, value in content.items() if not isinstance(value, dict)]
    if stray:
        raise ConfigError(f"{path}: {', '.join(stray)} must be in a [section]")
    return content


def read_assignments(texts: Sequence[str], among: Sequence[str]) -> dict[str, str]:
    """Take `section.field=value` apart; a bare field belongs to the first of some sections.

    >>> read_assignments(["dense.hnsw-neighbours=8", "steps=40"], ["pixar", "dense"])
    {'dense.hnsw_neighbours': '8', 'pixar.steps': '40'}
    """
    found: dict[str, str] = {}
    problems = []
    for text in texts:
        name, equals, value = text.partition("=")
        name = name.strip().replace("-", "_")
        name = name if "." in name else f"{among[0]}.{name}"
        if not equals:
            problems.append(f"--set {text} sets nothing, expected SECTION.FIELD=VALUE")
        elif (section := name.partition(".")[0]) not in among and section in sections():
            problems.append(f"--set {text} names no section of this command: {', '.join(among)}")
        else:
            found[name] = value.strip()
    if problems:
        raise ConfigError("; ".join(problems))
    return found


def overrides_from_text(texts: Mapping[str, str]) -> Values:
    """Turn `section.field` → text, as given on a command line, into typed values.

    >>> overrides_from_text({"passages.max_words": "90"})
    {'passages': {'max_words': 90}}
    """
    values: dict[str, dict[str, Any]] = {}
    problems = []
    for name, text in texts.items():
        section, _, key = name.partition(".")
        hint = _hints(section).get(key)
        if hint is None:
            problems.append(f"there is no setting {name}{_known(section)}")
            continue
        try:
            values.setdefault(section, {})[key] = parse(text, hint)
        except ValueError:
            problems.append(f"{name} is {text!r}, expected {type_in_words(hint)}")
    if problems:
        raise ConfigError("; ".join([*problems, *_further_problems(values)]))
    return values


def _further_problems(values: Values) -> list[str]:
    """Check what could be read, so that all problems are told at once."""
    try:
        build_config(values)
    except ConfigError as error:
        return [str(error)]
    return []


def parse(text: str, hint: Any) -> Any:
    """Read text as a field of some type wants it; raise ValueError where it cannot be.

    >>> parse("title=2,url=0", Mapping[str, float]), parse("a, b", tuple[str, ...])
    ({'title': 2.0, 'url': 0.0}, ('a', 'b'))
    """
    kind, _ = split_hint(hint)
    if typing.get_origin(kind) is tuple:
        return _parse_names(text)
    if typing.get_origin(kind) is not None:
        return _parse_pairs(text, typing.get_args(kind)[1])
    if kind is bool:
        return _parse_bool(text)
    if kind is float:
        return _parse_number(text)
    if kind in (int, str):
        return kind(text)
    raise ValueError(text)


def _hints(section: str) -> dict[str, Any]:
    if section not in sections():
        return {}
    hints = dict(field_hints(sections()[section]))
    return {name: hints[name] for name in setting_names(sections()[section])}


def _known(section: str) -> str:
    """Say which settings there are in a section, or which sections."""
    if section not in sections():
        return f"; the sections are {', '.join(sections())}"
    return f"; {section} has {', '.join(setting_names(sections()[section]))}"


def _parse_number(text: str) -> float:
    number = float(text)
    if not math.isfinite(number):
        raise ValueError(text)
    return number


def _parse_bool(text: str) -> bool:
    if text.lower() not in _BOOLEANS:
        raise ValueError(text)
    return _BOOLEANS[text.lower()]


def _parse_names(text: str) -> tuple[str, ...]:
    return tuple(name.strip() for name in text.split(",") if name.strip())


def _parse_pairs(text: str, hint: Any) -> dict[str, Any]:
    pairs = [item.rpartition("=") for item in _parse_names(text)]
    if not all(name.strip() for name, _, _ in pairs):
        raise ValueError(text)
    return {name.strip(): parse(value, hint) for name, _, value in pairs}
