"""BERT without transformers: the same numbers, and what it does not know is left alone.

It is read by ONNX Runtime, or by torch where that is not installed.
"""

from __future__ import annotations

import json
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file
from tiny_encoder import save_tiny_encoder
from transformers import BertModel
from transformers.utils import logging

from quoth.engine.answering import Asking
from quoth.errors import ConfigError
from quoth.models.bert import ReadsBert, open_bert
from quoth.models.bert_files import read_shape, read_weights, tensor_sizes
from quoth.models.glow.config import GlowConfig
from quoth.models.glow.encoder import GlowEncoder
from quoth.models.glow.network import GlowNetwork
from quoth.models.glow.plain import PlainEncoder, open_encoder, open_plain_encoder
from quoth.models.onnx_bert import OnnxBert
from quoth.models.pretrained import DEFAULT_NAME, find_folder
from quoth.models.processor import has_fast_bf16, has_fast_int8

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


@pytest.fixture(params=["onnxruntime", "torch"])
def library(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """What reads; without ONNX Runtime, torch does."""
    if request.param == "torch":
        for name in ("onnx_bert", "onnx_int8"):
            monkeypatch.delitem(sys.modules, f"quoth.models.{name}", raising=False)
        monkeypatch.setitem(sys.modules, "onnxruntime", None)
    return str(request.param)


def open_folder(folder: Path, *, quick: bool = False) -> ReadsBert:
    shape = read_shape(folder)
    assert shape is not None
    tensors = read_weights(folder, shape)
    assert tensors is not None
    return open_bert(tensors, shape, quick=quick)


def random_batch(seed: int = 1) -> tuple[Any, Any]:
    chance = np.random.default_rng(seed)
    return chance.integers(5, 40, (3, 9)), np.array([9, 4, 1])


def test_states_are_those_of_transformers(tiny: Path, library: str) -> None:
    shape = read_shape(tiny)
    assert shape is not None
    pooler = {"pooler.dense.weight", "pooler.dense.bias"}
    assert load_file(tiny / WEIGHTS).keys() - pooler == tensor_sizes(shape).keys()
    network = open_folder(tiny)
    assert type(network).__name__ == {"onnxruntime": "OnnxBert", "torch": "TorchBert"}[library]
    theirs = BertModel.from_pretrained(str(tiny), dtype=torch.float32).eval()
    ids, cut = random_batch()
    fields = (np.arange(9) >= np.array([[2], [9], [0]])).astype(np.int64)
    for lengths in (np.full(3, 9), cut):  # without padding and with it
        mask = torch.from_numpy(np.arange(9) < lengths[:, None])
        for kinds in (fields, None):
            with torch.inference_mode():
                expected = theirs(
                    input_ids=torch.from_numpy(ids),
                    attention_mask=mask.long(),
                    token_type_ids=torch.zeros(3, 9).long()
                    if kinds is None
                    else torch.tensor(kinds),
                ).last_hidden_state
            found = network.states(ids, lengths, kinds)
            np.testing.assert_allclose(found[mask], expected[mask].numpy(), rtol=0, atol=2e-5)
            first = network.states(ids, lengths, kinds, first=1)
            np.testing.assert_allclose(first, found[:, :1], rtol=0, atol=2e-5)


def test_int8_is_near_and_reads_the_same_alone_and_among_others(
    tiny: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kinds: list[set[str]] = [set(), *([{"avx512_vnni"}] if has_fast_int8() else [])]
    for flags in kinds:  # without the instruction, products overflow: int8 is never used there
        monkeypatch.setattr("quoth.models.processor.processor_flags", lambda own=flags: own)
        exact, quick = open_folder(tiny), open_folder(tiny, quick=True)
        assert isinstance(quick, OnnxBert)
        ids, lengths = random_batch()
        mask = np.arange(9) < lengths[:, None]
        found, expected = (each.states(ids, lengths)[mask] for each in (quick, exact))
        assert np.array_equal(found, expected) == (not flags), "int8 only where it is quick"
        assert np.sqrt(np.square(found - expected).mean()) < 0.05, "of a deviation of 1"
        alone = quick.states(ids[1:2, :4], lengths[1:2])
        np.testing.assert_allclose(alone[0], quick.states(ids, lengths)[1, :4], atol=1e-4)


@pytest.mark.parametrize("positions", [128, 16])
def test_vectors_are_those_of_queries(tmp_path: Path, positions: int, library: str) -> None:
    folder = save_tiny_encoder(tmp_path / "tiny", positions=positions)
    opened, expected = open_encoder(str(folder)), GlowEncoder.load(str(folder), fast=False)
    assert isinstance(opened, PlainEncoder)
    assert opened.identity() == expected.identity() and opened.width == expected.width
    encoded, exact = opened.encode_queries(SENTENCES), expected.encode_queries(SENTENCES)
    assert (encoded.lengths, encoded.cuts) == (exact.lengths, exact.cuts)
    found = encoded.vectors
    np.testing.assert_allclose(found, exact.vectors, rtol=0, atol=1e-6)
    np.testing.assert_allclose(np.linalg.norm(found, axis=1), 1.0, atol=1e-6)
    assert np.array_equal(found[4], found[5])  # what is too long is cut
    assert np.abs(found[0] - found[6]).max() > 0.01


def test_a_sentence_is_the_same_alone_and_among_others(tiny: Path) -> None:
    opened = open_encoder(str(tiny))
    together = opened.encode_queries(SENTENCES).vectors
    for at, sentence in enumerate(SENTENCES):
        alone = opened.encode_queries([sentence]).vectors[0]
        np.testing.assert_allclose(alone, together[at], rtol=0, atol=1e-6)
    nothing = opened.encode_queries([]).vectors
    assert (nothing.shape, nothing.dtype) == ((0, together.shape[1]), np.float32)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_half_precision_on_disk_is_read_in_full(copied: Path, dtype: torch.dtype) -> None:
    halves = {name: each.to(dtype) for name, each in load_file(copied / WEIGHTS).items()}
    save_file(halves, copied / WEIGHTS, metadata={"format": "pt"})
    opened = open_plain_encoder(str(copied))
    assert opened is not None
    expected = expected_vectors(copied, SENTENCES)
    found = opened.encode_queries(SENTENCES).vectors
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-6)


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
        ("quoth_glow.json", {"fields": ["text"], "weighting": "row"}),
        ("quoth_glow.json", {"fields": ["text"], "layout": "fields"}),
        ("quoth_glow.json", {"fields": ["text"], "towers": "separate"}),
        ("quoth_glow.json", {"fields": ["text"], "pooling": "pooler"}),
        ("quoth_glow.json", {"fields": ["text"], "num_layers": 1}),
    ],
)
def test_other_encoders_are_left_to_transformers(
    copied: Path, file: str, change: dict[str, object]
) -> None:
    assert open_plain_encoder(str(copied)) is not None
    change_json(copied / file, change)
    assert open_plain_encoder(str(copied)) is None


def test_what_learning_saves_is_read_so(tiny: Path, tmp_path: Path) -> None:
    """Documents, too, pooled otherwise, and mapped for each side by itself."""
    config = GlowConfig(pooling="cls", projection=64, max_subwords=24)
    network = GlowEncoder.load(str(tiny), fast=False)
    made = GlowNetwork(
        network.network.query_encoder,
        pooling="cls",
        weighting="none",
        separate=False,
        projection=64,
    )
    assert made.projection is not None
    torch.nn.init.normal_(
        made.projection.documents.weight, generator=torch.Generator().manual_seed(1)
    )
    GlowEncoder("made", made, network.tokenizer, config, identity={}).save(tmp_path / "made")
    opened, expected = (
        open_encoder(str(tmp_path / "made")),
        GlowEncoder.load(str(tmp_path / "made"), fast=False),
    )
    assert isinstance(opened, PlainEncoder) and opened.width == 64
    assert opened.identity() == expected.identity()
    documents = [{"title": ["Owls"], "text": [each]} for each in SENTENCES]
    for found, exact in (
        (opened.encode_documents(documents), expected.encode_documents(documents)),
        (opened.encode_queries(SENTENCES), expected.encode_queries(SENTENCES)),
    ):
        assert (found.lengths, found.cuts) == (exact.lengths, exact.cuts)
        np.testing.assert_allclose(found.vectors, exact.vectors, rtol=0, atol=1e-6)
    (tmp_path / "made" / "projection.safetensors").unlink()
    with pytest.raises(ConfigError, match="projection is set"):
        open_encoder(str(tmp_path / "made"))


def test_torch_takes_over_where_there_are_many(tiny: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("quoth.models.glow.plain.MANY", 3)
    opened = open_plain_encoder(str(tiny))
    assert opened is not None
    documents = [{"text": [each]} for each in SENTENCES[:3]]
    before = opened.encode_documents(documents).vectors
    assert not {"_by_torch", "_in_bf16"} & vars(opened).keys()
    after = opened.encode_documents(documents).vectors
    assert {"_by_torch", "_in_bf16"} & vars(opened).keys()
    np.testing.assert_allclose(after, before, rtol=0, atol=1e-6 if not has_fast_bf16() else 0.02)


@pytest.mark.parametrize("content", [None, "", "[]", "{}"])
def test_a_folder_without_a_description_is_left_to_transformers(
    copied: Path, content: str | None
) -> None:
    path = copied / "config.json"
    path.unlink() if content is None else path.write_text(content, encoding="utf-8")
    assert open_plain_encoder(str(copied)) is None


def test_damaged_weights_are_left_to_transformers(copied: Path) -> None:
    path = copied / WEIGHTS
    whole = path.read_bytes()
    path.write_bytes(whole[:-9])
    assert open_plain_encoder(str(copied)) is None
    path.unlink()
    assert open_plain_encoder(str(copied)) is None


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
    expected = open_encoder(DEFAULT_NAME).encode_queries(SENTENCES).vectors
    assert np.array_equal(asking._encode(SENTENCES), expected)
    assert np.array_equal(asking._encode(SENTENCES[:0]), expected[:0])
    assert np.abs(expected - quick).max() > 0.01


def test_the_embedded_encoder_is_read_so() -> None:
    folder = find_folder(DEFAULT_NAME)
    opened = open_plain_encoder(DEFAULT_NAME)
    assert opened is not None
    found = opened.encode_queries(SENTENCES).vectors
    np.testing.assert_allclose(found, expected_vectors(folder, SENTENCES), rtol=0, atol=1e-6)
