"""Dynamic language models on disk.

    artifact.json            kind, format, settings, the base's name and digest, checksums of files
    projection.safetensors   what stands between the encoder's states and phrases' vectors
    language-model/          adapters in peft's layout, or where all was trained Hugging Face's own
    phrase-encoder/          likewise

Adapters over a frozen base take 11 MB for the embedded model; the base is named, not copied.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file
from tokenizers import Tokenizer
from torch import Tensor, nn

from quoth.artifact import (
    Artifact,
    find_damage,
    open_artifact,
    save_artifact,
    seal_file,
    write_folder,
)
from quoth.errors import ConfigError, Damaged
from quoth.models.dynamic_lm.config import DynamicLMConfig
from quoth.models.dynamic_lm.network import DynamicNetwork
from quoth.models.language_models import EMBEDDED_NAME, digest_language_model
from quoth.models.lora import adapter_tensors, is_transposed, load_adapters, target_names
from quoth.models.pretrained import EncoderSource, find_folder
from quoth.models.saving import save_tensors, save_tokenizer, writing_tensors

KIND, FORMAT = "dynamic-lm", 1
MODEL_FOLDER, ENCODER_FOLDER, PROJECTION_FILE = (
    "language-model",
    "phrase-encoder",
    "projection.safetensors",
)
ADAPTER_FILE, ADAPTER_CONFIG_FILE = "adapter_model.safetensors", "adapter_config.json"
DTYPES = {"bf16": torch.bfloat16, "fp32": torch.float32}
PEFT_PREFIX = "base_model.model."
_BACKBONE = "backbone."


@dataclass(frozen=True, slots=True)
class SavedDynamicLM:
    """What `artifact.json` says."""

    config: DynamicLMConfig
    source: EncoderSource


def load_language_model(folder: Path, *, dtype: torch.dtype) -> nn.Module:
    """Load a causal model in the Hugging Face layout."""
    from transformers import AutoModelForCausalLM

    return _load(AutoModelForCausalLM, folder, dtype=dtype)


def read_saved(folder: Path) -> SavedDynamicLM:
    """Read what was saved; files that are missing, cut or altered are refused."""
    artifact = open_artifact(folder, kind=KIND, version=FORMAT)
    if artifact is None:
        raise ConfigError(f"{folder} holds no dynamic language model; name another folder")
    damage = find_damage(folder, artifact, deep=True)
    if damage:
        raise Damaged("; ".join(damage) + "; copy the folder anew")
    try:
        config = replace(DynamicLMConfig(), **artifact.config["model"])
        return SavedDynamicLM(config, EncoderSource(**artifact.config["base"]))
    except (TypeError, KeyError) as error:
        raise Damaged(f"{folder} cannot be read ({error}); copy it anew") from error


def find_saved_base(folder: Path, saved: SavedDynamicLM, *, base: Path | None) -> Path:
    """Find the language model of one that was saved: inside it, as given, or by its name."""
    if saved.config.tuning == "full":
        return folder / MODEL_FOLDER
    if base is None and saved.source.name == EMBEDDED_NAME and not Path(EMBEDDED_NAME).is_dir():
        raise ConfigError(f"{folder} stands on {EMBEDDED_NAME}: convert it first and give it")
    return base or find_folder(saved.source.name, kind="language model", embedded=EMBEDDED_NAME)


def require_base(folder: Path, saved: SavedDynamicLM, *, base: Path) -> None:
    """Refuse another language model than the one that adapters were trained over."""
    if saved.config.tuning == "lora" and digest_language_model(base) != saved.source.digest:
        raise ConfigError(
            f"{folder} was trained over another {saved.source.name} than the one in {base};"
            " restore that language model, or train the adapters again"
        )


def load_network(
    folder: Path, saved: SavedDynamicLM, *, base: Path, dtype: torch.dtype
) -> DynamicNetwork:
    """Load the language model in `base`, and what was trained."""
    config, encoder = saved.config, None
    if config.tuning == "full":
        from transformers import AutoModel

        encoder = _load(AutoModel, folder / ENCODER_FOLDER, dtype=dtype)
    network = DynamicNetwork(
        load_language_model(base, dtype=dtype),
        config,
        generator=torch.Generator().manual_seed(0),  # all that is drawn is overwritten
        encoder=encoder,
    )
    load_projection(folder, network)
    if config.tuning == "lora":
        for name, model in _adapted_models(network).items():
            _load_adapter(folder / name, model, prefix=_prefix(network))
    return network


def save_network(
    folder: Path,
    network: DynamicNetwork,
    *,
    config: DynamicLMConfig,
    source: EncoderSource,
    tokenizer: Tokenizer,
    dtype: str,
) -> None:
    """Write a model, over an older one only when complete."""
    if dtype not in DTYPES:
        raise ConfigError(f"dtype is {dtype!r}, expected one of {', '.join(DTYPES)}")
    if folder.exists() and any(folder.iterdir()):
        read_saved(folder)  # refuses to overwrite what is something else
    with write_folder(folder) as unfinished:
        _save_tensors(unfinished / PROJECTION_FILE, projection_tensors(network), DTYPES[dtype])
        for name, model in _adapted_models(network).items():
            if config.tuning == "lora":
                _save_adapter(
                    unfinished / name, model, config, DTYPES[dtype], prefix=_prefix(network)
                )
        if config.tuning == "full":
            _save_whole(unfinished, network, tokenizer=tokenizer, dtype=DTYPES[dtype])
        paths = sorted(path for path in unfinished.rglob("*") if path.is_file())
        files = {path.relative_to(unfinished).as_posix(): seal_file(path) for path in paths}
        settings = {"model": asdict(config), "base": asdict(source), "dtype": dtype}
        save_artifact(unfinished, Artifact(KIND, FORMAT, 0, settings, files))


def load_projection(folder: Path, network: DynamicNetwork) -> None:
    """Load what the phrase encoder has beyond its transformer."""
    _fill(folder / PROJECTION_FILE, projection_tensors(network))


def projection_tensors(network: DynamicNetwork) -> dict[str, Tensor]:
    """List what the phrase encoder has beyond its transformer."""
    return {
        name: tensor.detach()
        for name, tensor in network.encoder.state_dict().items()
        if not name.startswith(_BACKBONE)
    }


def adapter_config(model: nn.Module, config: DynamicLMConfig, *, num_layers: int) -> dict[str, Any]:
    """Describe adapters as peft does."""
    return {
        "peft_type": "LORA",
        "task_type": "CAUSAL_LM",
        "base_model_name_or_path": config.base,
        "r": config.lora_rank,
        "lora_alpha": config.lora_alpha,
        "lora_dropout": config.lora_dropout,
        "bias": "none",
        "fan_in_fan_out": is_transposed(model),
        "inference_mode": True,
        "layers_to_transform": list(range(num_layers)),
        "target_modules": target_names(model),
    }


def _adapted_models(network: DynamicNetwork) -> dict[str, nn.Module]:
    language_model: Any = network.language_model
    return {MODEL_FOLDER: language_model.base_model, ENCODER_FOLDER: network.encoder.backbone}


def _prefix(network: DynamicNetwork) -> str:
    """How peft names a layer of the backbone, as part of the causal model."""
    language_model: Any = network.language_model
    return f"{PEFT_PREFIX}{language_model.base_model_prefix}."


def _save_adapter(
    folder: Path, model: nn.Module, config: DynamicLMConfig, dtype: torch.dtype, *, prefix: str
) -> None:
    folder.mkdir()
    tensors = adapter_tensors(model)
    if not tensors:
        raise ConfigError("adapters that were merged cannot be saved; save before merging")
    named = {prefix + name: tensor for name, tensor in tensors.items()}
    _save_tensors(folder / ADAPTER_FILE, named, dtype)
    num_layers = int(model.config.num_hidden_layers)  # type: ignore[union-attr,arg-type]
    content = adapter_config(model, config, num_layers=num_layers)
    text = json.dumps(content, indent=1, sort_keys=True) + "\n"
    (folder / ADAPTER_CONFIG_FILE).write_text(text, encoding="utf-8")


def _load_adapter(folder: Path, model: nn.Module, *, prefix: str) -> None:
    own = read_adapter(folder, prefix=prefix)
    require_fit(folder / ADAPTER_FILE, load_adapters(model, own))


def read_adapter(folder: Path, *, prefix: str) -> dict[str, Tensor]:
    """Read adapters by their names within the backbone."""
    found = _read_tensors(folder / ADAPTER_FILE)
    return {name.removeprefix(prefix): tensor for name, tensor in found.items()}


def _save_whole(
    folder: Path, network: DynamicNetwork, *, tokenizer: Tokenizer, dtype: torch.dtype
) -> None:
    models = {MODEL_FOLDER: network.language_model, ENCODER_FOLDER: network.encoder.backbone}
    for name, model in models.items():
        tensors = {key: each.to(dtype) for key, each in model.state_dict().items()}
        with writing_tensors(folder / name):
            model.save_pretrained(str(folder / name), state_dict=tensors)  # type: ignore[operator]
    save_tokenizer(tokenizer, folder / MODEL_FOLDER / "tokenizer.json")


def _load(kind: Any, folder: Path, *, dtype: torch.dtype) -> nn.Module:
    """Load in fp32, then cast: transformers would set torch's default dtype for all threads."""
    try:
        model: nn.Module = kind.from_pretrained(str(folder), dtype=torch.float32)
    except (OSError, ValueError) as error:
        reason = str(error).strip().splitlines()[0]
        raise ConfigError(
            f"{folder} is not a causal model in the Hugging Face layout ({reason})"
        ) from error
    for parameter in model.parameters():  # not the buffers: rotations stay in fp32
        parameter.data = parameter.data.to(dtype)
    return model


def _fill(path: Path, own: Mapping[str, Tensor]) -> None:
    """Copy the tensors of a file into those of a network."""
    found = _read_tensors(path)
    wrong = [
        name
        for name in sorted(own.keys() | found.keys())
        if name not in own or name not in found or own[name].shape != found[name].shape
    ]
    require_fit(path, wrong)
    for name, tensor in own.items():
        tensor.copy_(found[name])


def require_fit(path: Path, wrong: list[str]) -> None:
    """Refuse a file of which some tensors are missing, too many or ill-shaped."""
    if wrong:
        raise Damaged(
            f"{path} does not fit its settings: {', '.join(wrong[:3])}; copy the folder anew"
        )


def _read_tensors(path: Path) -> dict[str, Tensor]:
    try:
        return load_file(str(path))
    except (OSError, SafetensorError) as error:
        raise Damaged(f"{path} cannot be read ({error}); copy the folder anew") from error


def _save_tensors(path: Path, tensors: Mapping[str, Tensor], dtype: torch.dtype) -> None:
    small = {name: tensor.to(dtype).cpu().contiguous() for name, tensor in tensors.items()}
    save_tensors(small, path, metadata={"format": "pt"})
