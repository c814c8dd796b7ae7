"""Open a saved model to answer with, not to train: quick, and in one way only.

Weights stay where they are on disk until they are read; adapters are merged into them on the way,
while another thread makes sure that they are those the adapters were trained over.
"""

from __future__ import annotations

from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file
from torch import Tensor

from quoth.models.dynamic_lm.config import DynamicLMConfig
from quoth.models.dynamic_lm.dynamic_lm import DynamicLM, load_inputs
from quoth.models.dynamic_lm.files import (
    ADAPTER_FILE,
    ENCODER_FOLDER,
    MODEL_FOLDER,
    PEFT_PREFIX,
    SavedDynamicLM,
    find_saved_base,
    load_projection,
    read_adapter,
    read_saved,
    require_base,
    require_fit,
)
from quoth.models.dynamic_lm.llama import (
    MATRICES,
    WEIGHTS_FILE,
    CausalLlama,
    LlamaBackbone,
    LlamaShape,
    read_shape,
    tensor_names,
)
from quoth.models.dynamic_lm.network import DynamicNetwork
from quoth.models.lora import merge_weight

_MODEL = "model."  # what the causal model's names have before the backbone's


def open_merged(
    folder: Path, *, base: Path | None, device: torch.device, dtype: torch.dtype
) -> DynamicLM | None:
    """Open a model as `open_dynamic_lm` does, its adapters merged; it cannot be trained on.

    None where that is left to `open_dynamic_lm`: adapters over another family, or none at all.
    """
    saved = read_saved(folder)
    found = find_saved_base(folder, saved, base=base)
    shape = read_shape(found) if saved.config.tuning == "lora" else None
    tensors = _read_weights(found, shape)
    if shape is None or tensors is None:
        return None
    with ThreadPoolExecutor(1) as pool:
        check = pool.submit(require_base, folder, saved, base=found)
        try:
            network = _merge(folder, saved, tensors=tensors, shape=shape, dtype=dtype).to(device)
            inputs = load_inputs(found, network, saved.config)
        finally:
            check.result()  # what it says explains any other error
    return DynamicLM(network, inputs=inputs, config=saved.config, source=saved.source)


def _read_weights(base: Path, shape: LlamaShape | None) -> dict[str, Tensor] | None:
    """Map a model's tensors into memory; None where they are not those of its shape."""
    if shape is None:
        return None
    try:
        tensors = load_file(str(base / WEIGHTS_FILE))
    except (OSError, SafetensorError):
        return None
    return tensors if tensor_names(shape) <= tensors.keys() else None


def _merge(
    folder: Path,
    saved: SavedDynamicLM,
    *,
    tensors: Mapping[str, Tensor],
    shape: LlamaShape,
    dtype: torch.dtype,
) -> DynamicNetwork:
    """Make a language model and a phrase encoder, each of the weights and adapters of its own."""
    config = saved.config
    own = {name: tensor.to(dtype) for name, tensor in tensors.items()}
    shorter = replace(shape, num_layers=config.encoder_layers or shape.num_layers)
    network = DynamicNetwork(
        CausalLlama(_adapt(own, folder / MODEL_FOLDER, shape, config), shape),
        replace(config, tuning="full"),  # no adapters beside what is merged
        generator=torch.Generator().manual_seed(0),  # all that is drawn is overwritten
        encoder=LlamaBackbone(_adapt(own, folder / ENCODER_FOLDER, shorter, config), shorter),
    )
    load_projection(folder, network)
    return network.requires_grad_(False)


def _adapt(
    tensors: Mapping[str, Tensor], folder: Path, shape: LlamaShape, config: DynamicLMConfig
) -> dict[str, Tensor]:
    """Merge the adapters in a folder into the weights they were trained over."""
    adapters = read_adapter(folder, prefix=PEFT_PREFIX + _MODEL)
    targets = [
        f"layers.{layer}.{part}.{name}"
        for layer in range(shape.num_layers)
        for part, names in MATRICES.items()
        for name in names
    ]
    expected = {
        f"{target}.{side}.weight": size
        for target in targets
        for side, size in _sizes(tensors[f"{_MODEL}{target}.weight"], config.lora_rank).items()
    }
    wrong = [
        name
        for name in sorted(expected.keys() | adapters.keys())
        if name not in adapters or adapters[name].shape != expected.get(name)
    ]
    require_fit(folder / ADAPTER_FILE, wrong)
    merged = {
        f"{_MODEL}{target}.weight": merge_weight(
            tensors[f"{_MODEL}{target}.weight"],
            down=adapters[f"{target}.lora_A.weight"],
            up=adapters[f"{target}.lora_B.weight"],
            scale=config.lora_alpha / config.lora_rank,
        )
        for target in targets
    }
    return {**tensors, **merged}


def _sizes(weight: Tensor, rank: int) -> dict[str, tuple[int, int]]:
    """Return the sizes of the two sides of an adapter."""
    return {"lora_A": (rank, weight.shape[1]), "lora_B": (weight.shape[0], rank)}
