"""BERT on disk: what a model's files say of its shape, and its tensors.

Any other family, any variant of this one and any folder that is not described here is left to
transformers.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from quoth.models.tensor_files import Floats, map_tensors

_WEIGHTS_FILE = "model.safetensors"
EMBEDDED = "embeddings.LayerNorm"
ATTENDED = "attention.output.LayerNorm"
TRANSFORMED = "output.LayerNorm"
"""The norms after embedding, attending and transforming, by their names in a file."""

_PLAIN = {
    "model_type": ("bert",),
    "hidden_act": ("gelu",),
    "position_embedding_type": ("absolute", None),
    "is_decoder": (False, None),
    "quantization_config": (None,),
}


@dataclass(frozen=True, slots=True)
class BertShape:
    """What `config.json` says of a model."""

    width: int
    inner_width: int
    num_heads: int
    num_layers: int
    num_subwords: int
    num_positions: int
    num_fields: int
    norm_epsilon: float


def read_shape(folder: Path) -> BertShape | None:
    """Read the shape of a BERT model; None where transformers has to be asked."""
    try:
        content = json.loads((folder / "config.json").read_text(encoding="utf-8"))
        is_plain = all(content.get(name) in allowed for name, allowed in _PLAIN.items())
        if not is_plain or int(content["hidden_size"]) % int(content["num_attention_heads"]):
            return None
        return BertShape(
            width=int(content["hidden_size"]),
            inner_width=int(content["intermediate_size"]),
            num_heads=int(content["num_attention_heads"]),
            num_layers=int(content["num_hidden_layers"]),
            num_subwords=int(content["vocab_size"]),
            num_positions=int(content["max_position_embeddings"]),
            num_fields=int(content["type_vocab_size"]),
            norm_epsilon=float(content["layer_norm_eps"]),
        )
    except (OSError, ValueError, KeyError, TypeError, AttributeError, ArithmeticError):
        return None


def tensor_sizes(shape: BertShape) -> dict[str, tuple[int, ...]]:
    """List the tensors that vectors are made with, but for the pooler, each with its size."""
    width, inner = shape.width, shape.inner_width
    sizes: dict[str, tuple[int, ...]] = {
        "embeddings.word_embeddings.weight": (shape.num_subwords, width),
        "embeddings.position_embeddings.weight": (shape.num_positions, width),
        "embeddings.token_type_embeddings.weight": (shape.num_fields, width),
    }
    norms = [EMBEDDED]
    for layer in range(shape.num_layers):
        within = f"encoder.layer.{layer}."
        norms += [within + ATTENDED, within + TRANSFORMED]
        matrices = {
            "attention.self.query": (width, width),
            "attention.self.key": (width, width),
            "attention.self.value": (width, width),
            "attention.output.dense": (width, width),
            "intermediate.dense": (inner, width),
            "output.dense": (width, inner),
        }
        for name, size in matrices.items():
            sizes |= {f"{within}{name}.weight": size, f"{within}{name}.bias": size[:1]}
    return sizes | {f"{norm}.{part}": (width,) for norm in norms for part in ("weight", "bias")}


def read_weights(folder: Path, shape: BertShape) -> dict[str, Floats] | None:
    """Map a model's tensors into memory, in fp32; None where they are not those of its shape."""
    try:
        tensors = map_tensors(folder / _WEIGHTS_FILE)
    except (OSError, ValueError):
        return None
    sizes = tensor_sizes(shape)
    fits = all(name in tensors and tensors[name].shape == size for name, size in sizes.items())
    return {name: np.asarray(tensors[name], np.float32) for name in sizes} if fits else None
