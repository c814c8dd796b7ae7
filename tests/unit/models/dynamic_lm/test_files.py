from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file
from torch import Tensor

from quoth.artifact import Artifact, open_artifact, save_artifact, seal_file
from quoth.errors import ConfigError, Damaged
from quoth.models.dynamic_lm.config import DynamicLMConfig
from quoth.models.dynamic_lm.dynamic_lm import DynamicLM, open_dynamic_lm

CPU = torch.device("cpu")
FAMILIES = ("llama", "gpt2")


@pytest.fixture
def start(bases: dict[str, Path], disturb: Any) -> Any:
    def make(family: str, **settings: object) -> DynamicLM:
        base = bases[family]
        config = DynamicLMConfig(base=str(base), **settings)  # type: ignore[arg-type]
        model: DynamicLM = disturb(DynamicLM.start(base, config=config, device=CPU))
        return model

    return make


def scores(model: DynamicLM) -> Tensor:
    """Score everything after a text with a phrase in it: touches all that is saved."""
    vectors = model.encode_phrases([[5, 6, 7], [8, 9]], lengths=[[2, 3], [2]])
    network, mask = model.network, torch.ones(1, 4, dtype=torch.bool)
    tokens = torch.tensor([[3, network.num_subwords + 1, 4, 5]])
    with torch.no_grad():
        states = network.states(network.embed(tokens, phrase_vectors=vectors), mask=mask)
        return torch.cat(
            (network.subword_scores(states), network.phrase_scores(states, vectors)), dim=-1
        )


@pytest.mark.parametrize("tuning", ["lora", "full"])
@pytest.mark.parametrize("layers", [0, 1])
@pytest.mark.parametrize("family", FAMILIES)
def test_what_was_saved_scores_the_same(
    tmp_path: Path, start: Any, family: str, layers: int, tuning: str
) -> None:
    model = start(family, tuning=tuning, encoder_layers=layers)
    model.save(tmp_path / "saved", dtype="fp32")
    opened = open_dynamic_lm(tmp_path / "saved", base=None, device=CPU)
    assert opened.config == model.config and opened.source == model.source
    torch.testing.assert_close(scores(opened), scores(model), atol=1e-6, rtol=1e-6)
    assert opened.inputs.prompt("why", ["owl"]) == model.inputs.prompt("why", ["owl"])


@pytest.mark.parametrize("tuning", ["lora", "full"])
def test_bf16_files_are_half_as_large_and_near(tmp_path: Path, start: Any, tuning: str) -> None:
    model = start("llama", tuning=tuning)
    sizes = []
    for dtype in ("bf16", "fp32"):
        model.save(tmp_path / dtype, dtype=dtype)
        sizes.append(sum(each.stat().st_size for each in (tmp_path / dtype).rglob("*.safetensors")))
    assert sizes[0] < 0.7 * sizes[1]
    opened = open_dynamic_lm(tmp_path / "bf16", base=None, device=CPU)
    torch.testing.assert_close(scores(opened), scores(model), atol=0.3, rtol=0.05)


@pytest.mark.parametrize(
    ("family", "layer"),
    [
        ("llama", "model.layers.1.self_attn.q_proj"),
        ("gpt2", "transformer.h.1.attn.c_attn"),
    ],
)
def test_adapters_are_named_as_peft_names_them(
    tmp_path: Path, start: Any, family: str, layer: str
) -> None:
    start(family, lora_rank=4).save(tmp_path / "saved")
    folder = tmp_path / "saved" / "language-model"
    tensors = load_file(folder / "adapter_model.safetensors")
    outer = 96 if family == "gpt2" else 32
    assert tensors[f"base_model.model.{layer}.lora_A.weight"].shape == (4, 32)
    assert tensors[f"base_model.model.{layer}.lora_B.weight"].shape == (outer, 4)
    settings = json.loads((folder / "adapter_config.json").read_text())
    assert (settings["r"], settings["lora_alpha"]) == (4, 32.0)
    assert settings["fan_in_fan_out"] is (family == "gpt2")
    assert layer.rpartition(".")[2] in settings["target_modules"]


def test_saving_again_replaces(tmp_path: Path, start: Any, disturb: Any) -> None:
    model = start("llama")
    model.save(tmp_path / "saved")
    disturb(model, seed=8).save(tmp_path / "saved", dtype="fp32")
    opened = open_dynamic_lm(tmp_path / "saved", base=None, device=CPU)
    torch.testing.assert_close(scores(opened), scores(model))
    assert [path.name for path in tmp_path.iterdir()] == ["saved"]


def test_something_else_is_not_overwritten(tmp_path: Path, start: Any) -> None:
    (tmp_path / "thesis.txt").write_text("mine")
    with pytest.raises(ConfigError, match="no dynamic language model"):
        start("llama").save(tmp_path)
    assert (tmp_path / "thesis.txt").read_text() == "mine"


def test_unknown_dtypes_and_merged_adapters_are_not_saved(tmp_path: Path, start: Any) -> None:
    model = start("llama")
    with pytest.raises(ConfigError, match="int3"):
        model.save(tmp_path / "saved", dtype="int3")
    model.network.merge()
    with pytest.raises(ConfigError, match="save before merging"):
        model.save(tmp_path / "saved")
    assert not (tmp_path / "saved").exists()


def test_another_base_is_refused(tmp_path: Path, bases: dict[str, Path], start: Any) -> None:
    start("llama").save(tmp_path / "saved")
    other = tmp_path / "other"
    other.mkdir()
    for path in bases["llama"].iterdir():
        (other / path.name).write_bytes(path.read_bytes())
    open_dynamic_lm(tmp_path / "saved", base=other, device=CPU)
    tensors = load_file(other / "model.safetensors")
    next(iter(tensors.values())).view(-1)[0] += 1
    save_file(tensors, other / "model.safetensors", metadata={"format": "pt"})
    with pytest.raises(ConfigError, match="trained over another"):
        open_dynamic_lm(tmp_path / "saved", base=other, device=CPU)


def test_an_embedded_base_has_to_be_given(
    tmp_path: Path, bases: dict[str, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    base = bases["llama"]
    DynamicLM.start(base, config=DynamicLMConfig(), device=CPU).save(tmp_path / "saved")
    with pytest.raises(ConfigError, match="SmolLM2"):
        open_dynamic_lm(tmp_path / "saved", base=None, device=CPU)
    opened = open_dynamic_lm(tmp_path / "saved", base=base, device=CPU)
    assert opened.source.name == "SmolLM2-135M-Instruct"


@pytest.mark.parametrize(
    "name", ["projection.safetensors", "language-model/adapter_model.safetensors"]
)
def test_damaged_files_are_refused(tmp_path: Path, start: Any, name: str) -> None:
    start("llama").save(tmp_path / "saved")
    path = tmp_path / "saved" / name
    content = bytearray(path.read_bytes())
    content[-3] ^= 1
    path.write_bytes(content)
    with pytest.raises(Damaged, match="altered"):
        open_dynamic_lm(tmp_path / "saved", base=None, device=CPU)
    path.write_bytes(content[:-3])
    with pytest.raises(Damaged, match="bytes"):
        open_dynamic_lm(tmp_path / "saved", base=None, device=CPU)
    path.unlink()
    with pytest.raises(Damaged, match="missing"):
        open_dynamic_lm(tmp_path / "saved", base=None, device=CPU)


@pytest.mark.parametrize(
    "name", ["projection.safetensors", "phrase-encoder/adapter_model.safetensors"]
)
def test_files_that_do_not_fit_their_settings_are_refused(
    tmp_path: Path, start: Any, name: str
) -> None:
    folder = tmp_path / "saved"
    start("llama").save(folder)
    tensors = load_file(folder / name)
    dropped = sorted(tensors)[0]
    del tensors[dropped]
    save_file(tensors, folder / name)
    _seal_again(folder, name)
    with pytest.raises(Damaged, match="does not fit its settings"):
        open_dynamic_lm(folder, base=None, device=CPU)


def test_no_model_and_no_base(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="no dynamic language model"):
        open_dynamic_lm(tmp_path, base=None, device=CPU)
    with pytest.raises(ConfigError, match="not a causal model"):
        DynamicLM.start(tmp_path, config=DynamicLMConfig(), device=CPU)


def _seal_again(folder: Path, name: str) -> None:
    old = open_artifact(folder, kind="dynamic-lm", version=1)
    assert old is not None
    files = {**old.files, name: seal_file(folder / name)}
    save_artifact(folder, Artifact(old.kind, old.version, old.change, old.config, files))
