"""BERT without transformers: the same numbers, and what it does not know is left alone."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file
from tiny_encoder import make_tokenizer, save_tiny_encoder
from transformers import BertModel
from transformers.utils import logging

from quoth.engine.answering import Asking
from quoth.models.bert import Bert, open_sentence_encoder, read_shape, tensor_sizes
from quoth.models.glow.config import GlowConfig
from quoth.models.glow.encoder import GlowEncoder
from quoth.models.pretrained import DEFAULT_NAME, find_folder

WEIGHTS = "model.safetensors"
SENTENCES = (
    "The barn owl hunts at night.",
    "",
    "a",
    "Ravens; hens & swifts, 大鸦 [SEP] of the field!",
    "owl " * 62,
    "owl " * 63,  # one more than is read
    "One bird among many other birds watches a mouse in the field at dusk.",
    "zebra " * 90,
)


@pytest.fixture(autouse=True)
def one_thread() -> Iterator[None]:
    """Tiny products gain nothing from threads, and lose much where cores are shared."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    logging.disable_progress_bar()  # type: ignore[no-untyped-call]
    yield
    torch.set_num_threads(before)


@pytest.fixture(scope="module")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save_tiny_encoder(tmp_path_factory.mktemp("bert") / "tiny")


@pytest.fixture
def copied(tiny: Path, tmp_path: Path) -> Path:
    """A copy to change."""
    return shutil.copytree(tiny, tmp_path / "copied")


def change_json(path: Path, change: dict[str, object]) -> None:
    path.parent.mkdir(exist_ok=True)
    content = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
    path.write_text(json.dumps(content | change), encoding="utf-8")


def expected_vectors(folder: Path, sentences: tuple[str, ...]) -> Any:
    return GlowEncoder.load(str(folder), fast=False).encode_queries(sentences).vectors


def test_states_are_those_of_transformers(tiny: Path) -> None:
    shape = read_shape(tiny)
    assert shape is not None
    tensors = load_file(tiny / WEIGHTS)
    pooler = {"pooler.dense.weight", "pooler.dense.bias"}
    assert tensors.keys() - pooler == tensor_sizes(shape).keys()
    ids = torch.randint(5, 40, (3, 9), generator=torch.Generator().manual_seed(1))
    mask = torch.ones_like(ids, dtype=torch.bool)
    theirs = BertModel.from_pretrained(str(tiny), dtype=torch.float32).eval()
    for cut in (9, 4):  # without padding and with it
        mask[1, cut:] = False
        with torch.inference_mode():
            found = Bert(tensors, shape).states(ids, mask)
            expected = theirs(input_ids=ids, attention_mask=mask.long()).last_hidden_state
        torch.testing.assert_close(found[mask], expected[mask], rtol=0, atol=1e-6)


@pytest.mark.parametrize("positions", [128, 16])
def test_vectors_are_those_of_queries(tmp_path: Path, positions: int) -> None:
    folder = save_tiny_encoder(tmp_path / "tiny", positions=positions)
    opened = open_sentence_encoder(folder)
    assert opened is not None
    found = opened.encode(SENTENCES)
    np.testing.assert_allclose(found, expected_vectors(folder, SENTENCES), rtol=0, atol=1e-6)
    np.testing.assert_allclose(np.linalg.norm(found, axis=1), 1.0, atol=1e-6)
    assert np.array_equal(found[4], found[5])  # what is too long is cut
    assert np.abs(found[0] - found[6]).max() > 0.01


def test_a_sentence_is_the_same_alone_and_among_others(tiny: Path) -> None:
    opened = open_sentence_encoder(tiny)
    assert opened is not None
    together = opened.encode(SENTENCES)
    for at, sentence in enumerate(SENTENCES):
        np.testing.assert_allclose(opened.encode([sentence])[0], together[at], rtol=0, atol=1e-5)
    nothing = opened.encode([])
    assert (nothing.shape, nothing.dtype) == ((0, together.shape[1]), np.float32)


def test_half_precision_on_disk_is_read_in_full(copied: Path) -> None:
    halves = {name: each.to(torch.float16) for name, each in load_file(copied / WEIGHTS).items()}
    save_file(halves, copied / WEIGHTS, metadata={"format": "pt"})
    opened = open_sentence_encoder(copied)
    assert opened is not None
    expected = expected_vectors(copied, SENTENCES)
    np.testing.assert_allclose(opened.encode(SENTENCES), expected, rtol=0, atol=1e-6)


@pytest.mark.parametrize(
    ("file", "change"),
    [
        ("config.json", {"model_type": "roberta"}),
        ("config.json", {"hidden_act": "relu"}),
        ("config.json", {"position_embedding_type": "relative_key"}),
        ("config.json", {"is_decoder": True}),
        ("config.json", {"num_attention_heads": 5}),
        ("config.json", {"num_attention_heads": 0}),
        ("config.json", {"num_hidden_layers": "many"}),
        ("config.json", {"num_hidden_layers": 3}),
        ("config.json", {"intermediate_size": 63}),
        ("config.json", {"layer_norm_eps": None}),
        ("1_Pooling/config.json", {"pooling_mode_cls_token": True}),
        ("quoth_glow.json", {}),
    ],
)
def test_other_encoders_are_left_to_transformers(
    copied: Path, file: str, change: dict[str, object]
) -> None:
    assert open_sentence_encoder(copied) is not None
    change_json(copied / file, change)
    assert open_sentence_encoder(copied) is None


def test_a_tokenizer_of_another_kind_is_left_to_transformers(copied: Path) -> None:
    text = make_tokenizer().to_str().replace("[CLS]", "<s>").replace("[SEP]", "</s>")
    (copied / "tokenizer.json").write_text(text, encoding="utf-8")
    assert open_sentence_encoder(copied) is None


@pytest.mark.parametrize("content", [None, "", "[]", "{}"])
def test_a_folder_without_a_description_is_left_to_transformers(
    copied: Path, content: str | None
) -> None:
    path = copied / "config.json"
    path.unlink() if content is None else path.write_text(content, encoding="utf-8")
    assert open_sentence_encoder(copied) is None


def test_damaged_weights_are_left_to_transformers(copied: Path) -> None:
    path = copied / WEIGHTS
    whole = path.read_bytes()
    path.write_bytes(whole[:-9])
    assert open_sentence_encoder(copied) is None
    path.unlink()
    assert open_sentence_encoder(copied) is None


def test_questions_are_encoded_by_whatever_has_the_name(
    tiny: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A folder of the embedded encoder's name takes its place, as it does for searching."""
    monkeypatch.chdir(tmp_path)
    shutil.copytree(tiny, tmp_path / DEFAULT_NAME)
    quick = Asking(tmp_path)._encode(SENTENCES)
    np.testing.assert_allclose(quick, expected_vectors(tiny, SENTENCES), rtol=0, atol=1e-6)
    shutil.rmtree(tmp_path / DEFAULT_NAME)
    config = GlowConfig(pooling="cls", max_subwords=128)
    other = GlowEncoder.load(str(tiny), config=config, fast=False)
    other.save(tmp_path / DEFAULT_NAME)
    asking = Asking(tmp_path)
    expected = GlowEncoder.load(DEFAULT_NAME).encode_queries(SENTENCES).vectors
    assert np.array_equal(asking._encode(SENTENCES), expected)
    assert np.array_equal(asking._encode(SENTENCES[:0]), expected[:0])
    assert np.abs(expected - quick).max() > 0.01


def test_the_embedded_encoder_is_read_so() -> None:
    folder = find_folder(DEFAULT_NAME)
    opened = open_sentence_encoder(folder)
    assert opened is not None
    expected = expected_vectors(folder, SENTENCES)
    np.testing.assert_allclose(opened.encode(SENTENCES), expected, rtol=0, atol=1e-6)
