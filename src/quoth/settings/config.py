"""One configuration: a section per component, from one TOML file and `--section.field` overrides.

Later wins: defaults, what the collection was made with, the TOML file, the command line. All
problems are reported at once.
"""

from __future__ import annotations

import dataclasses
import functools
import math
import sys
import tomllib
import typing
from collections import ChainMap
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from quoth.answer.config import AnswerConfig, CandidateConfig, DecodingConfig
from quoth.cluster.serving.config import ClusterConfig
from quoth.errors import ConfigError
from quoth.index.dense.config import DenseConfig
from quoth.models.glow.config import GlowConfig
from quoth.search.generative.config import GenerativeConfig
from quoth.search.hybrid.fusion_config import FusionConfig
from quoth.search.lexical.config import LexicalConfig
from quoth.search.rerank_config import RerankConfig
from quoth.settings.learn import LearnConfig
from quoth.settings.server import ServerConfig
from quoth.text.passages import PassageConfig
from quoth.text.readers.config import ReaderConfig
from quoth.text.words import AnalyserConfig
from quoth.training.recipes.glow_config import GlowRecipe

Values = Mapping[str, Mapping[str, Any]]
"""Section → field → value."""

_MAX_WAIT_SECONDS = 1_000_000  # more milliseconds than that do not fit into what SQLite takes


@dataclass(frozen=True, slots=True)
class CollectionConfig:
    """Settings of working on a collection."""

    wait_seconds: float = 30.0
    """How long to wait for another process that is writing."""

    batch_documents: int = 1000
    """Documents per transaction; each batch is durable before the next is read."""

    def __post_init__(self) -> None:
        problems = []
        if not 0 <= self.wait_seconds <= _MAX_WAIT_SECONDS:
            limits = f"0 to {_MAX_WAIT_SECONDS:,}"
            problems.append(f"wait_seconds is {self.wait_seconds}, expected {limits}")
        if self.batch_documents < 1:
            problems.append(f"batch_documents is {self.batch_documents}, expected at least 1")
        if problems:
            raise ConfigError("; ".join(problems))


@dataclass(frozen=True, slots=True)
class Config:
    """All settings, one section per component."""

    collection: CollectionConfig = field(default_factory=CollectionConfig)
    readers: ReaderConfig = field(default_factory=ReaderConfig)
    passages: PassageConfig = field(default_factory=PassageConfig)
    analyser: AnalyserConfig = field(default_factory=AnalyserConfig)
    lexical: LexicalConfig = field(default_factory=LexicalConfig)
    dense: DenseConfig = field(default_factory=DenseConfig)
    fusion: FusionConfig = field(default_factory=FusionConfig)
    generative: GenerativeConfig = field(default_factory=GenerativeConfig)
    rerank: RerankConfig = field(default_factory=RerankConfig)
    glow: GlowRecipe = field(default_factory=GlowRecipe)
    encoder: GlowConfig = field(default_factory=GlowConfig)
    learn: LearnConfig = field(default_factory=LearnConfig)
    answer: AnswerConfig = field(default_factory=AnswerConfig)
    candidates: CandidateConfig = field(default_factory=CandidateConfig)
    decoding: DecodingConfig = field(default_factory=DecodingConfig)
    server: ServerConfig = field(default_factory=ServerConfig)
    cluster: ClusterConfig = field(default_factory=ClusterConfig)


STORED_SECTIONS = ("passages", "analyser")
"""Sections that shape what is on disk, and so are kept with a collection."""


@functools.cache
def sections() -> dict[str, type]:
    """Map section names to their dataclasses."""
    return {name: hint for name, hint in typing.get_type_hints(Config).items()}


def build_config(*layers: Values) -> Config:
    """Lay settings over the defaults, the last layer on top."""
    problems: list[str] = []
    built: dict[str, Any] = {}
    for unknown in {name for layer in layers for name in layer} - sections().keys():
        problems.append(f"there is no section [{unknown}]; there are {', '.join(sections())}")
    for name, kind in sections().items():
        given = [layer[name] for layer in layers if name in layer]
        if not all(isinstance(values, Mapping) for values in given):
            problems.append(f"[{name}] must hold fields and their values")
            continue
        try:
            built[name] = _build_section(name, kind, dict(ChainMap(*map(dict, reversed(given)))))
        except ConfigError as error:
            problems.append(_name_section(name, str(error)))
    if problems:
        raise ConfigError("; ".join(sorted(problems)))
    return Config(**built)


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
        raise ConfigError(f"{path}: {', '.join(stray)} must stand in a [section]")
    return content


def overrides_from_text(texts: Mapping[str, str]) -> Values:
    """Turn `section.field` → text, as given on a command line, into typed values.

    >>> overrides_from_text({"passages.max_words": "90"})
    {'passages': {'max_words': 90}}
    """
    values: dict[str, dict[str, Any]] = {}
    problems = []
    for name, text in texts.items():
        section, _, key = name.partition(".")
        hint = field_types(sections()[section]).get(key) if section in sections() else None
        if hint is None:
            problems.append(f"there is no setting {name}")
            continue
        try:
            values.setdefault(section, {})[key] = _PARSERS[hint](text)
        except ValueError:
            problems.append(f"{name} is {text!r}, expected {_EXPECTED[hint]}")
    if problems:
        raise ConfigError("; ".join(problems))
    return values


def as_values(config: Config, names: tuple[str, ...]) -> dict[str, dict[str, Any]]:
    """Return some sections as plain values, to be saved."""
    return {name: _plain(getattr(config, name)) for name in names}


@functools.cache
def field_types(kind: type) -> dict[str, Any]:
    """Map the fields of a section to their types."""
    return typing.get_type_hints(kind)


def _build_section(name: str, kind: type, values: Mapping[str, Any]) -> Any:
    hints = field_types(kind)
    problems = []
    ready = {}
    for key, value in values.items():
        if key not in hints:
            problems.append(f"[{name}] has no field {key}; it has {', '.join(hints)}")
        elif not _fits(value, hints[key]):
            problems.append(f"{name}.{key} is {value!r}, expected {_EXPECTED[hints[key]]}")
        else:
            ready[key] = tuple(value) if isinstance(value, list) else value
    if problems:
        raise ConfigError("; ".join(problems))
    return kind(**ready)


def _fits(value: object, hint: Any) -> bool:
    if hint is bool or isinstance(value, bool):
        return hint is bool and isinstance(value, bool)
    if hint == tuple[str, ...]:
        return isinstance(value, list | tuple) and all(isinstance(item, str) for item in value)
    if hint == Mapping[str, float]:
        return isinstance(value, Mapping) and all(_fits(item, float) for item in value.values())
    if hint == Mapping[str, int]:
        return isinstance(value, Mapping) and all(_fits(item, int) for item in value.values())
    if hint is float:
        return isinstance(value, int | float) and abs(value) <= sys.float_info.max
    return isinstance(value, hint)


def _name_section(name: str, problem: str) -> str:
    """Say which section a problem is in, unless it does so itself."""
    return problem if problem.startswith((name, f"[{name}]")) else f"{name}: {problem}"


def _parse_number(text: str) -> float:
    number = float(text)
    if not math.isfinite(number):
        raise ValueError(text)
    return number


def _parse_bool(text: str) -> bool:
    words = {"true": True, "yes": True, "1": True, "false": False, "no": False, "0": False}
    if text.lower() not in words:
        raise ValueError(text)
    return words[text.lower()]


def _parse_names(text: str) -> tuple[str, ...]:
    return tuple(name.strip() for name in text.split(",") if name.strip())


def _parse_pairs(text: str) -> dict[str, str]:
    pairs = [item.rpartition("=") for item in _parse_names(text)]
    if not all(name.strip() for name, _, _ in pairs):
        raise ValueError(text)
    return {name.strip(): value for name, _, value in pairs}


def _parse_weights(text: str) -> dict[str, float]:
    return {name: _parse_number(value) for name, value in _parse_pairs(text).items()}


def _parse_counts(text: str) -> dict[str, int]:
    return {name: int(value) for name, value in _parse_pairs(text).items()}


def _plain(section: Any) -> dict[str, Any]:
    return {
        key: list(value) if isinstance(value, tuple) else value
        for key, value in dataclasses.asdict(section).items()
    }


_PARSERS: dict[Any, Callable[[str], Any]] = {
    str: str,
    int: int,
    float: _parse_number,
    bool: _parse_bool,
    tuple[str, ...]: _parse_names,
    Mapping[str, float]: _parse_weights,
    Mapping[str, int]: _parse_counts,
}
_EXPECTED: dict[Any, str] = {
    str: "text",
    int: "a whole number",
    float: "a number",
    bool: "true or false",
    tuple[str, ...]: "names separated by commas",
    Mapping[str, float]: "name=weight pairs separated by commas",
    Mapping[str, int]: "name=number pairs separated by commas",
}
