"""What the folder of a query generator says of it, read without torch."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from quoth.errors import ConfigError, Damaged
from quoth.models.pretrained import EncoderSource
from quoth.models.query_generator.config import QueryGeneratorConfig

KIND, FORMAT = "query-generator", 1
CONFIG_FILE, DECODER_FILE, ENCODER_FOLDER = "config.json", "decoder.safetensors", "encoder"


@dataclass(frozen=True, slots=True)
class SavedGenerator:
    """What `config.json` says."""

    config: QueryGeneratorConfig
    encoder: EncoderSource
    sha256: str


def is_own(folder: Path) -> bool:
    """Whether a folder holds a query generator that Quoth wrote."""
    content = read_config(folder) if (folder / CONFIG_FILE).exists() else {}
    return content.get("kind") == KIND


def read_saved(folder: Path) -> SavedGenerator:
    """Read what a generator of ours is."""
    content = read_config(folder)
    if content.get("kind") != KIND:
        raise ConfigError(f"{folder} holds no query generator that Quoth wrote; name another")
    if content.get("format") != FORMAT:
        raise ConfigError(
            f"{folder} has format {content.get('format')}, this Quoth reads {FORMAT};"
            " train it again, or install the Quoth that wrote it"
        )
    try:
        config = replace(QueryGeneratorConfig(), **content["config"])
        return SavedGenerator(config, EncoderSource(**content["encoder"]), content["sha256"])
    except (TypeError, KeyError) as error:
        raise Damaged(f"{folder / CONFIG_FILE} cannot be read ({error}); copy it anew") from error


def encoder_folder(folder: Path, saved: SavedGenerator) -> Path:
    """Find the encoder of a generator: beside it, or by its name if it is still the same."""
    if (folder / ENCODER_FOLDER).is_dir():
        return folder / ENCODER_FOLDER
    if saved.config.train_encoder:
        raise Damaged(f"{folder / ENCODER_FOLDER} is missing; copy the folder anew")
    return saved.encoder.find(folder)


def read_config(folder: Path) -> dict[str, Any]:
    """Read the `config.json` of a folder."""
    path = folder / CONFIG_FILE
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise ConfigError(
            f"{folder} holds no model: {CONFIG_FILE} cannot be read ({error})"
        ) from error
    if not isinstance(content, dict):
        raise ConfigError(f"{path} is not an object; name a folder that holds a model")
    return content
