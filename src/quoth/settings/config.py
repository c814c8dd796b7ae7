"""One configuration: a section per component, checked as a whole.

Later wins: defaults, what the collection was made with, the TOML file, the command line. All
problems are reported at once.
"""

from __future__ import annotations

import dataclasses
import functools
import typing
from collections import ChainMap
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any

from quoth.answer.config import AnswerConfig, CandidateConfig, DecodingConfig
from quoth.cluster.serving.config import ClusterConfig
from quoth.constraints import AtLeastOne, CheckedConfig, Range, field_hints
from quoth.errors import ConfigError
from quoth.index.dense.config import DenseConfig
from quoth.models.glow.config import GlowConfig
from quoth.search.duplicates_config import DuplicatesConfig
from quoth.search.generative.config import GenerativeConfig
from quoth.search.hybrid.fusion_config import FusionConfig
from quoth.search.lexical.config import LexicalConfig
from quoth.search.rerank_config import RerankConfig
from quoth.settings.dynamic_lm import TRAINING_SECTIONS
from quoth.settings.learn import LearnConfig
from quoth.settings.pixar import PixarBuildConfig
from quoth.settings.server import ServerConfig
from quoth.text.folders.config import FolderConfig
from quoth.text.passages import PassageConfig
from quoth.text.readers.config import ReaderConfig
from quoth.text.words import AnalyserConfig
from quoth.training.recipes.glow_config import GlowRecipe

Values = Mapping[str, Mapping[str, Any]]
"""Section → field → value."""

_MAX_WAIT_SECONDS = 1_000_000  # more milliseconds than that do not fit into what SQLite takes


@dataclass(frozen=True, slots=True)
class CollectionConfig(CheckedConfig, title="collection"):
    """Settings of working on a collection."""

    wait_seconds: Annotated[float, Range(0, _MAX_WAIT_SECONDS)] = 30.0
    """How long to wait, in seconds, while another process is writing."""

    batch_documents: AtLeastOne = 1000
    """Documents per transaction; each batch is durable before the next one is written."""

    workers: Annotated[int, Range(0, 64)] = 3
    """Maximum number of further threads (processes where nothing is compiled) that prepare and
    analyse documents when there are many; also limited to the cores besides the first. The outcome
    is the same; 0 for none."""


@dataclass(frozen=True, slots=True)
class Config:
    """All settings, one section per component."""

    collection: CollectionConfig = field(default_factory=CollectionConfig)
    readers: ReaderConfig = field(default_factory=ReaderConfig)
    passages: PassageConfig = field(default_factory=PassageConfig)
    analyser: AnalyserConfig = field(default_factory=AnalyserConfig)
    sync: FolderConfig = field(default_factory=FolderConfig)
    lexical: LexicalConfig = field(default_factory=LexicalConfig)
    dense: DenseConfig = field(default_factory=DenseConfig)
    fusion: FusionConfig = field(default_factory=FusionConfig)
    generative: GenerativeConfig = field(default_factory=GenerativeConfig)
    duplicates: DuplicatesConfig = field(default_factory=DuplicatesConfig)
    rerank: RerankConfig = field(default_factory=RerankConfig)
    pixar: PixarBuildConfig = field(default_factory=PixarBuildConfig)
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
    """Map section names to their classes; those of `quoth train dynamic-lm` come last."""
    return {**typing.get_type_hints(Config), **TRAINING_SECTIONS}


def build_config(*layers: Values) -> Config:
    """Lay settings over the defaults, the last layer on top."""
    problems: list[str] = []
    built: dict[str, Any] = {}
    for unknown in {name for layer in layers for name in layer} - sections().keys():
        problems.append(f"there is no section [{unknown}]; there are {', '.join(sections())}")
    for name, kind in sections().items():
        given = [layer[name] for layer in layers if name in layer]
        if not given:
            if name not in TRAINING_SECTIONS:
                built[name] = _usual(kind)
            continue
        if not all(isinstance(values, Mapping) for values in given):
            problems.append(f"[{name}] must hold fields and their values")
            continue
        values = dict(ChainMap(*map(dict, reversed(given))))
        known = {key: value for key, value in values.items() if key in setting_names(kind)}
        problems += [_unknown_field(name, kind, key) for key in values.keys() - known.keys()]
        try:
            built[name] = kind(**{key: _frozen(value) for key, value in known.items()})
        except ConfigError as error:
            problems.append(str(error))
    if problems:
        raise ConfigError("; ".join(sorted(problems)))
    return Config(**{each.name: built[each.name] for each in dataclasses.fields(Config)})


@functools.cache
def _usual(kind: type) -> Any:
    """Return a section of defaults: made and checked once, as nothing changes settings."""
    return kind()


def as_values(config: Config, names: tuple[str, ...]) -> dict[str, dict[str, Any]]:
    """Return some sections as plain values, to be saved."""
    return {name: _plain(getattr(config, name)) for name in names}


def stored_values(config: Config) -> dict[str, dict[str, Any]]:
    """Return the settings that shape a collection, as collections keep them.

    Collections made before compounds could be split know nothing of them, and nor does what reads
    them: a list is kept only where there is one.
    """
    values = as_values(config, STORED_SECTIONS)
    if not values["analyser"]["compounds"]:
        del values["analyser"]["compounds"]
    return values


def chosen_values(config: Config, names: tuple[str, ...]) -> dict[str, dict[str, Any]]:
    """Return what differs from the defaults in some sections, to be saved."""
    values, usual = as_values(config, names), as_values(Config(), names)
    chosen = {
        name: {key: value for key, value in own.items() if value != usual[name][key]}
        for name, own in values.items()
    }
    return {name: own for name, own in chosen.items() if own}


@functools.cache
def setting_names(kind: type) -> tuple[str, ...]:
    """List the fields of a section, less those that are sections of their own."""
    return tuple(name for name, hint in field_hints(kind) if not dataclasses.is_dataclass(hint))


def _unknown_field(section: str, kind: type, key: str) -> str:
    return f"[{section}] has no field {key}; it has {', '.join(setting_names(kind))}"


def _frozen(value: Any) -> Any:
    return tuple(value) if isinstance(value, list) else value


def _plain(section: Any) -> dict[str, Any]:
    return {
        key: list(value) if isinstance(value, tuple) else value
        for key, value in dataclasses.asdict(section).items()
    }
