"""PIXAR models on disk.

    config.json          kind, format, settings, encoder it reads with, checksum of every file
    network.safetensors  what stands between the encoder's states and the vectors, fp32
    head.safetensors     rows in fp32, bf16, fp16, or int8 with an fp32 scale per row; biases fp32
    head-rows.npy        the same rows to be memory-mapped by who serves, fp16 or fp32, if asked for
    head-bias.npy
    encoder/             Hugging Face's layout, only where the encoder was trained as well

A frozen encoder is named, not copied. What is read whole is hashed; what is mapped is measured.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors import SafetensorError
from safetensors.torch import load_file
from tokenizers import Tokenizer
from torch import Tensor, nn

from quoth.artifact import FileSeal, seal_file, write_folder
from quoth.errors import ConfigError, Damaged
from quoth.models.pixar.config import PixarConfig
from quoth.models.pixar.head import HeadVectors
from quoth.models.pixar.network import EncoderStates, PixarNetwork
from quoth.models.pretrained import EncoderSource, load_encoder
from quoth.models.saving import save_tensors, save_tokenizer, writing_tensors

KIND, FORMAT = "pixar", 1
CONFIG_FILE, NETWORK_FILE, HEAD_FILE = "config.json", "network.safetensors", "head.safetensors"
ROWS_FILE, BIAS_FILE, ENCODER_FOLDER = "head-rows.npy", "head-bias.npy", "encoder"
DTYPES = {"fp32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16, "int8": torch.int8}
MAPPED = {"none": None, "fp16": np.float16, "fp32": np.float32}
_ENCODER = "encoder."


@dataclass(frozen=True, slots=True)
class SavedPixar:
    """What `config.json` says."""

    config: PixarConfig
    encoder: EncoderSource
    files: Mapping[str, FileSeal]


def build_network(encoder: nn.Module, config: PixarConfig, *, slot_id: int) -> PixarNetwork:
    """Join a Hugging Face encoder with fresh slots; queries and slots must fit its positions."""
    settings: Any = encoder.config
    embeddings: Any = getattr(encoder, "embeddings", None)
    table = getattr(embeddings, "position_embeddings", None)
    longest = config.max_query_subwords + (config.num_slots if config.slots == "mask" else 0)
    longest = max(longest, config.num_slots + 1 if config.slots == "input" else 0)
    if table is not None:
        limit = table.num_embeddings - (0 if table.padding_idx is None else table.padding_idx + 1)
        if longest > limit:
            raise ConfigError(
                f"the encoder reads {limit} subwords at most, queries with slots take {longest};"
                " lower max_query_subwords or num_slots"
            )
    network = PixarNetwork(
        EncoderStates(encoder),
        config,
        width=settings.hidden_size,
        num_heads=settings.num_attention_heads,
        slot_id=slot_id,
    )
    pooler = getattr(encoder, "pooler", None)
    if isinstance(pooler, nn.Module):
        pooler.requires_grad_(False)  # never used
    return network.eval()


def read_saved(folder: Path) -> SavedPixar:
    """Read what a saved model is."""
    path = folder / CONFIG_FILE
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise ConfigError(
            f"{folder} holds no model: {CONFIG_FILE} cannot be read ({error})"
        ) from error
    if not isinstance(content, dict) or content.get("kind") != KIND:
        raise ConfigError(f"{folder} holds no PIXAR model; name a folder that holds one")
    if content.get("format") != FORMAT:
        raise ConfigError(
            f"{folder} has format {content.get('format')}, this Quoth reads {FORMAT};"
            " train it again, or install the Quoth that wrote it"
        )
    try:
        return SavedPixar(
            replace(PixarConfig(), **content["config"]),
            EncoderSource(**content["encoder"]),
            {name: FileSeal(**seal) for name, seal in content["files"].items()},
        )
    except (TypeError, KeyError, AttributeError) as error:
        raise Damaged(f"{path} cannot be read ({error}); copy it anew") from error


def encoder_folder(folder: Path, saved: SavedPixar) -> Path:
    """Find the encoder of a model: beside it, or by its name if it is still the same."""
    if saved.config.train_encoder:
        if not (folder / ENCODER_FOLDER).is_dir():
            raise Damaged(f"{folder / ENCODER_FOLDER} is missing; copy the folder anew")
        return folder / ENCODER_FOLDER
    return saved.encoder.find(folder)


def load_network(folder: Path, saved: SavedPixar, *, base: Path, slot_id: int) -> PixarNetwork:
    """Load the encoder in `base` and the rest, in fp32; altered weights are refused."""
    if saved.config.train_encoder:
        prefix = f"{ENCODER_FOLDER}/"
        for name in saved.files:
            if name.startswith(prefix):
                _require_whole(folder, saved, name)
    network = build_network(load_encoder(base), saved.config, slot_id=slot_id)
    loaded = _read_tensors(folder, saved, NETWORK_FILE)
    own = network_tensors(network)
    shapes = {name: tensor.shape for name, tensor in loaded.items()}
    if shapes != {name: tensor.shape for name, tensor in own.items()}:
        raise Damaged(f"{folder / NETWORK_FILE} does not fit its settings; copy the folder anew")
    network.load_state_dict(loaded, strict=False)
    return network


def load_head(folder: Path, saved: SavedPixar, *, mapped: bool) -> HeadVectors:
    """Load the head: whole and in fp32, or memory-mapped where such a copy was saved."""
    if mapped and ROWS_FILE in saved.files:
        for name in (ROWS_FILE, BIAS_FILE):
            _require_whole(folder, saved, name, deep=False)
        return HeadVectors(np.load(folder / ROWS_FILE, mmap_mode="r"), np.load(folder / BIAS_FILE))
    tensors = _read_tensors(folder, saved, HEAD_FILE)
    return HeadVectors(widen(tensors).numpy(), tensors["bias"].numpy())


def save_pixar(
    folder: Path,
    network: PixarNetwork,
    *,
    head: HeadVectors,
    encoder: EncoderSource,
    tokenizer: Tokenizer,
    dtype: str = "bf16",
    mapped: str = "none",
) -> None:
    """Write a model, over an older one only when complete.

    `dtype` is that of the stored rows; `mapped` that of a second copy that can be memory-mapped.
    """
    problems = [
        f"{name} is {value!r}, expected one of {', '.join(known)}"
        for name, value, known in (("dtype", dtype, DTYPES), ("mapped", mapped, MAPPED))
        if value not in known
    ]
    if problems:
        raise ConfigError("pixar: " + "; ".join(problems))
    if folder.exists() and any(folder.iterdir()):
        read_saved(folder)  # something else is not overwritten
    with write_folder(folder) as unfinished:
        save_tensors(network_tensors(network), unfinished / NETWORK_FILE)
        bias = np.ascontiguousarray(head.bias)
        stored = narrow(torch.from_numpy(np.array(head.rows)), dtype=dtype)
        save_tensors(stored | {"bias": torch.from_numpy(bias)}, unfinished / HEAD_FILE)
        if (kind := MAPPED[mapped]) is not None:
            np.save(unfinished / ROWS_FILE, head.rows.astype(kind, copy=False))
            np.save(unfinished / BIAS_FILE, bias)
        if network.config.train_encoder:
            inner = unfinished / ENCODER_FOLDER
            with writing_tensors(inner):
                network.encoder.encoder.save_pretrained(str(inner))  # type: ignore[attr-defined]
            save_tokenizer(tokenizer, inner / "tokenizer.json")
        _write_config(unfinished, network.config, encoder)


def network_tensors(network: PixarNetwork) -> dict[str, Tensor]:
    """List the tensors of a network; the encoder's are not among them."""
    return {
        name: tensor.detach().cpu().contiguous()
        for name, tensor in network.state_dict().items()
        if not name.startswith(_ENCODER)
    }


def narrow(rows: Tensor, *, dtype: str) -> dict[str, Tensor]:
    """Shrink rows; int8 keeps a scale per row, the row's greatest number being 127.

    >>> small = narrow(torch.tensor([[1.27, -0.64]]), dtype="int8")
    >>> small["rows"].tolist(), round(float(small["scales"]), 6)
    ([[127, -64]], 0.01)
    """
    if dtype != "int8":
        return {"rows": rows.to(DTYPES[dtype])}
    scales = rows.float().abs().amax(1) / 127
    safe = scales.clamp_min(torch.finfo(torch.float32).tiny)
    small = (rows / safe[:, None]).round().clamp(-127, 127).to(torch.int8)
    return {"rows": small, "scales": scales}


def widen(tensors: Mapping[str, Tensor]) -> Tensor:
    """Return rows in fp32."""
    rows = tensors["rows"].float()
    return rows * tensors["scales"][:, None] if "scales" in tensors else rows


def _write_config(folder: Path, config: PixarConfig, encoder: EncoderSource) -> None:
    """Describe a model whose files are complete."""
    paths = sorted(path for path in folder.rglob("*") if path.is_file())
    content = {
        "kind": KIND,
        "format": FORMAT,
        "config": asdict(config),
        "encoder": asdict(encoder),
        "files": {path.relative_to(folder).as_posix(): asdict(seal_file(path)) for path in paths},
    }
    text = json.dumps(content, indent=1, sort_keys=True) + "\n"
    (folder / CONFIG_FILE).write_text(text, encoding="utf-8")


def _read_tensors(folder: Path, saved: SavedPixar, name: str) -> dict[str, Tensor]:
    _require_whole(folder, saved, name)
    try:
        return load_file(str(folder / name))
    except SafetensorError as error:
        raise Damaged(f"{folder / name} cannot be read ({error}); copy the folder anew") from error


def _require_whole(folder: Path, saved: SavedPixar, name: str, *, deep: bool = True) -> None:
    """Refuse a file that is missing, cut, or, where it is read whole, altered."""
    path, seal = folder / name, saved.files.get(name)
    if seal is None or not path.exists():
        raise Damaged(f"{path} is missing; copy the folder anew")
    if path.stat().st_size != seal.size or (deep and seal_file(path) != seal):
        raise Damaged(f"{path} was altered or cut since it was written; copy the folder anew")
