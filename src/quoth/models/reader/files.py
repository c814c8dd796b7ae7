"""Readers on disk: layers and heads in one safetensors file, and what they are.

    config.json         kind, format, settings, encoder they started from, checksum of the weights
    reader.safetensors  int8 per row with fp32 row scales (symmetric; biases and norms fp16), or
                        bf16, or fp32

The table of words, half of a small encoder, is never trained: it is the encoder's and not copied.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from quoth.artifact import write_folder
from quoth.errors import ConfigError, Damaged
from quoth.models.bert_files import BertShape, read_shape, read_weights, tensor_sizes
from quoth.models.pretrained import EncoderSource
from quoth.models.reader.config import ReaderConfig
from quoth.models.saving import save_tensors
from quoth.models.tensor_files import Floats, describe_weights, read_sealed_arrays, widen

if TYPE_CHECKING:
    from torch import Tensor

    from quoth.models.reader.network import ReaderNetwork

KIND, FORMAT = "reader", 1
CONFIG_FILE, WEIGHTS_FILE = "config.json", "reader.safetensors"
WORDS = "embeddings.word_embeddings.weight"
_HEADS = {"places": 3, "relevance": 1}


@dataclass(frozen=True, slots=True)
class SavedReader:
    """What `config.json` says."""

    config: ReaderConfig
    encoder: EncoderSource
    sha256: str
    dtype: str = "int8"


def read_saved(folder: Path) -> SavedReader:
    """Read what a reader is."""
    content = _read_config(folder)
    if content.get("kind") != KIND or content.get("format") != FORMAT:
        raise ConfigError(
            f"{folder} holds a {content.get('kind')} of format {content.get('format')}, expected a"
            f" {KIND} of format {FORMAT}; name another folder, or train a reader"
        )
    try:
        config = replace(ReaderConfig(), **content["config"])
        encoder = EncoderSource(**content["encoder"])
        return SavedReader(config, encoder, content["sha256"], content.get("dtype", "int8"))
    except (TypeError, KeyError) as error:
        raise Damaged(f"{folder / CONFIG_FILE} cannot be read ({error}); copy it anew") from error


def load_tensors(
    folder: Path, saved: SavedReader, *, base: Path
) -> tuple[dict[str, Floats], BertShape]:
    """Load layers and heads in fp32, with the table of words of the encoder in `base`."""
    shape = read_shape(base)
    whole = None if shape is None else read_weights(base, shape)
    if shape is None or whole is None:
        raise ConfigError(f"{base} holds no plain BERT, which readers are made of")
    tensors = widen(read_sealed_arrays(folder / WEIGHTS_FILE, sha256=saved.sha256))
    sizes = own_sizes(shape)
    if sizes != {name: tensor.shape for name, tensor in tensors.items()}:
        raise Damaged(f"{folder / WEIGHTS_FILE} does not fit its encoder; copy the folder anew")
    return {WORDS: whole[WORDS], **tensors}, shape


def own_sizes(shape: BertShape) -> dict[str, tuple[int, ...]]:
    """List the tensors that a reader's file holds, each with its size."""
    sizes = tensor_sizes(shape)
    del sizes[WORDS]
    for name, count in _HEADS.items():
        sizes |= {f"{name}.weight": (count, shape.width), f"{name}.bias": (count,)}
    return sizes


def own_tensors(network: ReaderNetwork, shape: BertShape) -> dict[str, Tensor]:
    """Take from a network what a reader's file holds."""
    state = {name.removeprefix("encoder."): tensor for name, tensor in network.state_dict().items()}
    return {name: state[name].detach().cpu().contiguous() for name in own_sizes(shape)}


def save_reader(
    folder: Path,
    tensors: Mapping[str, Tensor],
    config: ReaderConfig,
    *,
    encoder: EncoderSource,
    dtype: str = "int8",
    like: Mapping[str, Tensor] | None = None,
    seed: int = 0,
) -> None:
    """Write a reader, over an older one only when complete.

    One that was trained a little from another is rounded `like` the tensors of that one's file, so
    that what it learned is not rounded away; the seed decides how.
    """
    from quoth.models.quantised import quantise, requantise

    small = quantise(tensors, dtype=dtype) if like is None else requantise(tensors, like, seed=seed)
    if folder.exists() and any(folder.iterdir()) and _read_config(folder).get("kind") != KIND:
        raise ConfigError(f"{folder} holds something else than a reader; name a new folder")
    with write_folder(folder) as unfinished:
        save_tensors(small, unfinished / WEIGHTS_FILE)
        describe_weights(
            unfinished / CONFIG_FILE,
            WEIGHTS_FILE,
            kind=KIND,
            format=FORMAT,
            config=asdict(config),
            encoder=asdict(encoder),
            dtype=dtype,
        )


def _read_config(folder: Path) -> dict[str, Any]:
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
