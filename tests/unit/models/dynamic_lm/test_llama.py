"""Llama without transformers: the same numbers, whatever is read and however it is padded."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from half_precision import needs_bf16
from safetensors.torch import load_file
from torch import Tensor
from transformers import DynamicCache, LlamaConfig, LlamaForCausalLM

from quoth.models.dynamic_lm.llama import (
    WEIGHTS_FILE,
    CausalLlama,
    LlamaCache,
    read_shape,
    tensor_names,
)

DTYPES = (torch.float32, pytest.param(torch.bfloat16, marks=needs_bf16))


@pytest.fixture(scope="module", params=["tied", "apart"])
def folder(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("llama")
    config = LlamaConfig(
        vocab_size=50,
        hidden_size=32,
        intermediate_size=48,
        num_hidden_layers=3,
        num_attention_heads=4,
        num_key_value_heads=2 if request.param == "tied" else 4,
        tie_word_embeddings=request.param == "tied",
        initializer_range=0.3,
    )
    with torch.random.fork_rng():
        torch.manual_seed(2)
        LlamaForCausalLM(config).save_pretrained(str(made))
    return made


def open_both(folder: Path, dtype: torch.dtype) -> tuple[CausalLlama, Any]:
    shape = read_shape(folder)
    assert shape is not None
    tensors = load_file(str(folder / WEIGHTS_FILE))
    assert tensors.keys() == tensor_names(shape)
    own = CausalLlama({name: each.to(dtype) for name, each in tensors.items()}, shape)
    return own, LlamaForCausalLM.from_pretrained(str(folder), dtype=dtype).eval()


def read(model: Any, ids: Tensor, mask: Tensor, cache: Any) -> Tensor:
    """Score what follows each of the tokens; ids (B, T), mask (B, T_all)."""
    positions = (mask.long().cumsum(1) - 1).clamp_min(0)[:, -ids.shape[1] :]
    with torch.inference_mode():
        states = model.base_model(
            inputs_embeds=model.get_input_embeddings()(ids),
            attention_mask=mask.long(),
            position_ids=positions,
            past_key_values=cache,
            use_cache=cache is not None,
        ).last_hidden_state
        scores: Tensor = model.get_output_embeddings()(states)
    return scores


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("side", ["none", "left", "right"])
def test_it_scores_as_transformers_does(folder: Path, dtype: torch.dtype, side: str) -> None:
    own, theirs = open_both(folder, dtype)
    ids = torch.randint(50, (2, 9), generator=torch.Generator().manual_seed(1))
    mask = torch.ones_like(ids, dtype=torch.bool)
    if side != "none":
        mask[0, slice(3) if side == "left" else slice(6, None)] = False
    found, expected = (read(model, ids, mask, None) for model in (own, theirs))
    assert torch.equal(found[mask], expected[mask])


@pytest.mark.parametrize("dtype", DTYPES)
def test_it_reads_on_from_a_cache_as_transformers_does(folder: Path, dtype: torch.dtype) -> None:
    own, theirs = open_both(folder, dtype)
    ids = torch.randint(50, (2, 12), generator=torch.Generator().manual_seed(4))
    mask = torch.ones_like(ids, dtype=torch.bool)
    mask[1, :2] = False
    both = []
    for model, cache in ((own, LlamaCache()), (theirs, DynamicCache())):
        found = [read(model, ids[:, :6], mask[:, :6], cache)[:, -1]]
        read(model, ids[:, :2], mask[:, :8], cache)
        cache.crop(-2)  # what was only tried
        found.append(read(model, ids[:, 6:9], mask[:, :9], cache))
        cache.batch_select_indices(torch.tensor([1]))
        found.append(read(model, ids[1:, 9:10], mask[1:, :10], cache))
        both.append(found)
    for one, other in zip(*both, strict=True):
        torch.testing.assert_close(one, other)  # releases multiply in different orders


@pytest.mark.parametrize(
    "change",
    [
        {"model_type": "gpt2"},
        {"hidden_act": "gelu"},
        {"attention_bias": True},
        {"rope_scaling": {"rope_type": "linear", "factor": 2.0}},
        {"rope_parameters": {"rope_type": "llama3", "rope_theta": 1e4}},
        {"num_key_value_heads": None},
        {"num_hidden_layers": "many"},
    ],
)
def test_other_models_are_left_to_transformers(
    folder: Path, tmp_path: Path, change: dict[str, object]
) -> None:
    content = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    (tmp_path / "config.json").write_text(json.dumps(content), encoding="utf-8")
    assert read_shape(tmp_path) == read_shape(folder)
    (tmp_path / "config.json").write_text(json.dumps(content | change), encoding="utf-8")
    assert read_shape(tmp_path) is None


@pytest.mark.parametrize("content", [None, "", "[]", "{}"])
def test_a_folder_without_a_description_is_left_to_transformers(
    tmp_path: Path, content: str | None
) -> None:
    if content is not None:
        (tmp_path / "config.json").write_text(content, encoding="utf-8")
    assert read_shape(tmp_path) is None
