"""How an encoder's files are laid out.

The layout is Hugging Face's with sentence-transformers' module list, so that an encoder without
weighting and projection is read by either; `quoth_glow.json` adds what only Quoth knows.
"""

from __future__ import annotations

import json
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from quoth.errors import ConfigError
from quoth.models.glow.config import GlowConfig

SETTINGS_FILE = "quoth_glow.json"
DOCUMENT_TOWER = "document"
MERGE_FILE = "merge.safetensors"
FIELDS_FILE = "fields.safetensors"
PROJECTION_FILE = "projection.safetensors"
_LATER = ("projection", "query_length", "spread_layers")


def find_config(folder: Path) -> GlowConfig:
    """Read how an encoder is used: as it was saved, or as it was published."""
    return saved_config(folder) or published_config(folder)


def saved_config(folder: Path) -> GlowConfig | None:
    """Read the settings an encoder of ours was saved with, None where it is another's."""
    content = _read_json(folder / SETTINGS_FILE)
    if content is None:
        return None
    try:
        return replace(GlowConfig(), **{**content, "fields": tuple(content["fields"])})
    except (TypeError, KeyError) as error:
        raise ConfigError(f"{folder / SETTINGS_FILE} cannot be read ({error})") from error


def published_config(folder: Path) -> GlowConfig:
    """Read how sentence-transformers would use an encoder; the defaults where it is silent."""
    config = GlowConfig()
    pooling = _read_json(folder / "1_Pooling" / "config.json")
    if pooling is not None:
        modes = [key for key, value in pooling.items() if key.startswith("pooling_mode") and value]
        known = {"pooling_mode_mean_tokens": "mean", "pooling_mode_cls_token": "cls"}
        if len(modes) != 1 or modes[0] not in known:
            raise ConfigError(
                f"{folder} pools by {', '.join(modes) or 'nothing'}; Quoth knows mean and cls"
            )
        config = replace(config, pooling=known[modes[0]])
    limits = _read_json(folder / "sentence_bert_config.json") or {}
    if isinstance(limits.get("max_seq_length"), int):
        config = replace(config, max_subwords=limits["max_seq_length"])
    return config


def plain_config(config: GlowConfig) -> dict[str, Any]:
    """Return settings as values that JSON can hold.

    Fields that came later are left out at 0 or false: indexes that were made before stay valid.
    """
    return {
        key: list(value) if isinstance(value, tuple) else value
        for key, value in asdict(config).items()
        if value or key not in _LATER
    }


def write_module_files(folder: Path, config: GlowConfig, *, width: int) -> None:
    """Describe the encoder to sentence-transformers, and to ourselves."""
    for path, content in _module_files(config, width).items():
        (folder / path).parent.mkdir(exist_ok=True)
        text = json.dumps(content, indent=1, sort_keys=True) + "\n"
        (folder / path).write_text(text, encoding="utf-8")


def _read_json(path: Path) -> Any:
    if not path.exists():
        return None
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise ConfigError(f"{path} cannot be read ({error})") from error


def _module_files(config: GlowConfig, width: int) -> dict[str, Any]:
    kinds = ("Transformer", "Pooling", "Normalize")
    return {
        SETTINGS_FILE: plain_config(config),
        "modules.json": [
            {
                "idx": at,
                "name": str(at),
                "path": "" if at == 0 else f"{at}_{kind}",
                "type": f"sentence_transformers.models.{kind}",
            }
            for at, kind in enumerate(kinds)
        ],
        "sentence_bert_config.json": {
            "max_seq_length": config.max_subwords,
            "do_lower_case": False,
        },
        "1_Pooling/config.json": {
            "word_embedding_dimension": width,
            "pooling_mode_cls_token": config.pooling == "cls",
            "pooling_mode_mean_tokens": config.pooling == "mean",
            "pooling_mode_max_tokens": False,
            "pooling_mode_mean_sqrt_len_tokens": False,
        },
    }
