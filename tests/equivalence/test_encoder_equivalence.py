"""The encoder against transformers and sentence-transformers, on sentences as people write them."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from tiny_encoder import save_tiny_encoder
from transformers import AutoModel, AutoTokenizer
from transformers.utils import logging

from quoth.errors import ConfigError, Damaged
from quoth.models import pretrained
from quoth.models.glow.config import GlowConfig
from quoth.models.glow.encoder import GlowEncoder
from quoth.models.glow.files import SETTINGS_FILE
from quoth.models.glow.network import GlowNetwork

logging.disable_progress_bar()  # type: ignore[no-untyped-call]
pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")

SENTENCES = [
    "A barn owl hunts at dusk.",
    "",
    "It's ünïcödé: 東京, Ωμέγα, naïve café — ☃ and 🦉!",
    "The owl (Tyto alba) weighs 0.47 kg; see https://example.org/owls?page=2#tail.",
    "SHOUTING\n\nand\ttabs   and spaces ",
    "a",
    "zzzyyyxxx" * 30,
    "The quick brown fox jumps over the lazy dog. " * 60,  # cut at 256 subwords
]


@pytest.fixture(scope="module")
def default() -> GlowEncoder:
    return GlowEncoder.load("all-MiniLM-L6-v2", fast=False)


def _documents(encoder: GlowEncoder, texts: list[str]) -> Any:
    return encoder.encode_documents([{"text": (text,)} for text in texts]).vectors


def _by_transformers(folder: Path, texts: list[str], *, max_length: int) -> Any:
    tokenizer = AutoTokenizer.from_pretrained(str(folder))
    model = AutoModel.from_pretrained(str(folder), dtype=torch.float32)
    batch = tokenizer(
        texts, padding=True, truncation=True, max_length=max_length, return_tensors="pt"
    )
    with torch.inference_mode():
        states = model(**batch).last_hidden_state
    mask = batch["attention_mask"][..., None].float()
    pooled = (states * mask).sum(1) / mask.sum(1)
    return torch.nn.functional.normalize(pooled, dim=-1).numpy()


def _by_sentence_transformers(folder: Path, texts: list[str]) -> Any:
    sentence_transformers = pytest.importorskip("sentence_transformers")
    model = sentence_transformers.SentenceTransformer(str(folder), device="cpu")
    return model.encode(texts, normalize_embeddings=True, show_progress_bar=False)


# --- the same numbers -----------------------------------------------------------------------------


def test_the_embedded_default_equals_transformers(default: GlowEncoder) -> None:
    expected = _by_transformers(pretrained.find_folder(default.name), SENTENCES, max_length=256)
    np.testing.assert_allclose(_documents(default, SENTENCES), expected, atol=1e-5)


def test_the_embedded_default_equals_sentence_transformers(default: GlowEncoder) -> None:
    expected = _by_sentence_transformers(pretrained.find_folder(default.name), SENTENCES)
    np.testing.assert_allclose(_documents(default, SENTENCES), expected, atol=1e-5)


def test_queries_and_documents_of_one_tower_are_encoded_alike(default: GlowEncoder) -> None:
    short = SENTENCES[:6]
    queries = default.encode_queries(short).vectors
    np.testing.assert_allclose(queries, _documents(default, short), atol=1e-6)
    np.testing.assert_allclose(np.linalg.norm(queries, axis=1), 1.0, atol=1e-5)


def test_what_is_cut_is_counted_text_by_text(default: GlowEncoder) -> None:
    encoded = default.encode_documents([{"text": (text,)} for text in SENTENCES])
    tokenizer = AutoTokenizer.from_pretrained(str(pretrained.find_folder(default.name)))
    whole = [len(tokenizer(text, truncation=False)["input_ids"]) for text in SENTENCES]
    assert encoded.lengths == tuple(min(256, length) for length in whole)
    assert encoded.cuts == tuple(max(0, length - 256) for length in whole)
    assert encoded.num_cut == sum(encoded.cuts) > 0 and encoded.cuts[0] == 0


def test_bf16_stays_close(default: GlowEncoder) -> None:
    fast = GlowEncoder.load("all-MiniLM-L6-v2", fast=True)
    cosines = (_documents(fast, SENTENCES) * _documents(default, SENTENCES)).sum(1)
    assert cosines.min() > 0.999


@pytest.mark.parametrize("mode", ["row", "column", "add_log"])
def test_weights_of_one_reproduce_the_unweighted_network(tmp_path: Path, mode: str) -> None:
    """Strength 0 turns every weight into 1, through the whole of the weighted path."""
    base = str(save_tiny_encoder(tmp_path / "base"))
    config = GlowConfig(max_subwords=64, weighting=mode, strength=0.0)
    expected = _documents(GlowEncoder.load(base, fast=False), TEXTS[:3])
    for strength, least, most in ((0.0, 0.0, 1e-6), (1.0, 1e-3, 2.0)):
        config = replace(config, strength=strength)
        encoder = GlowEncoder.load(base, config=config, fast=False)
        given = [{"text": (text,)} for text in TEXTS[:3]]
        found = encoder.encode_documents(given, counts=_NoCounts()).vectors
        assert least <= np.abs(found - expected).max() <= most


class _NoCounts:
    num_documents = 0

    def document_frequencies(self, _view: str, _terms: Iterable[str]) -> Mapping[str, int]:
        return {}

    def average_lengths(self) -> Mapping[str, float]:
        return {}


# --- round trips ----------------------------------------------------------------------------------

TEXTS = ["a barn owl", "the hen sleeps", "", "owl " * 90, "raven, night; mouse!"]


def _scramble(network: GlowNetwork, seed: int) -> None:
    """Change every weight, as training would, so that towers and tables differ."""
    chance = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for parameter in network.parameters():
            parameter.add_(torch.randn(parameter.shape, generator=chance) * 0.05)


@pytest.mark.parametrize(
    "config",
    [
        GlowConfig(max_subwords=64),
        GlowConfig(max_subwords=64, towers="separate"),
        GlowConfig(max_subwords=64, layout="fields", fields=("title", "text")),
        GlowConfig(max_subwords=64, layout="fields", towers="separate", num_layers=1),
        GlowConfig(max_subwords=64, pooling="cls", num_layers=1),
        GlowConfig(max_subwords=64, pooling="pooler"),
        GlowConfig(max_subwords=64, weighting="merge", towers="separate"),
    ],
    ids=["shared", "separate", "fields", "all at once", "cut, cls", "pooler", "merge"],
)
def test_a_saved_encoder_gives_the_same_vectors(tmp_path: Path, config: GlowConfig) -> None:
    base = save_tiny_encoder(tmp_path / "base")
    encoder = GlowEncoder.load(str(base), config=config, fast=False)
    _scramble(encoder.network, seed=1)
    encoder.save(tmp_path / "saved")
    loaded = GlowEncoder.load(str(tmp_path / "saved"), fast=False)
    assert loaded.config == config
    counts = None if config.weighting == "none" else _NoCounts()
    documents = [{"title": (text,), "text": (text[::-1],)} for text in TEXTS]
    for name, given in (("encode_queries", TEXTS), ("encode_documents", documents)):
        before = getattr(encoder, name)(given, counts=counts).vectors
        after = getattr(loaded, name)(given, counts=counts).vectors
        np.testing.assert_allclose(after, before, atol=1e-6, err_msg=name)
    assert not (tmp_path / "saved.tmp").exists()


def test_a_saved_encoder_of_3_layers_is_read_by_sentence_transformers(
    tmp_path: Path, default: GlowEncoder
) -> None:
    cut = GlowEncoder.load(default.name, config=replace(default.config, num_layers=3), fast=False)
    cut.save(tmp_path / "three")
    found = _documents(cut, SENTENCES)
    np.testing.assert_allclose(
        found, _by_sentence_transformers(tmp_path / "three", SENTENCES), atol=1e-5
    )
    assert np.abs(found - _documents(default, SENTENCES)).max() > 1e-2


def test_pooling_and_length_are_read_as_published(tmp_path: Path) -> None:
    base = save_tiny_encoder(tmp_path / "base")
    config = GlowConfig(pooling="cls", max_subwords=16, max_query_subwords=16)
    GlowEncoder.load(str(base), config=config, fast=False).save(tmp_path / "saved")
    (tmp_path / "saved" / SETTINGS_FILE).unlink()
    loaded = GlowEncoder.load(str(tmp_path / "saved"), fast=False)
    assert (loaded.config.pooling, loaded.config.max_subwords) == ("cls", 16)
    expected = _by_sentence_transformers(tmp_path / "saved", TEXTS)
    np.testing.assert_allclose(_documents(loaded, TEXTS), expected, atol=1e-5)


def test_sequences_stay_within_the_positions_of_the_encoder(tmp_path: Path) -> None:
    base = save_tiny_encoder(tmp_path / "base", positions=20)
    loaded = GlowEncoder.load(str(base), fast=False)
    assert loaded.config.max_subwords == loaded.config.max_query_subwords == 20
    assert loaded.encode_queries(["owl " * 50]).lengths == (20,)
    with pytest.raises(ConfigError, match="reads 20 subwords at most, 256 were asked for"):
        GlowEncoder.load(str(base), config=GlowConfig(), fast=False)


def test_more_layers_than_there_are_cannot_be_kept(tmp_path: Path) -> None:
    base = save_tiny_encoder(tmp_path / "base")
    config = GlowConfig(num_layers=3, max_subwords=64)
    with pytest.raises(ConfigError, match="has 2 layers, 3 were asked for"):
        GlowEncoder.load(str(base), config=config, fast=False)


def test_saving_never_overwrites_something_else(tmp_path: Path) -> None:
    encoder = GlowEncoder.load(str(save_tiny_encoder(tmp_path / "base")), fast=False)
    (tmp_path / "thesis").mkdir()
    (tmp_path / "thesis" / "chapter.tex").write_text("years of work")
    with pytest.raises(ConfigError, match="holds something else"):
        encoder.save(tmp_path / "thesis")
    assert (tmp_path / "thesis" / "chapter.tex").read_text() == "years of work"
    encoder.network.to(torch.bfloat16)
    with pytest.raises(ConfigError, match="fast=False"):
        encoder.save(tmp_path / "half")


# --- finding --------------------------------------------------------------------------------------


def test_a_tampered_default_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, default: GlowEncoder
) -> None:
    copy = tmp_path / "tampered"
    shutil.copytree(pretrained.find_folder(default.name), copy / "model")
    (copy / "__init__.py").touch()
    spec = type("Spec", (), {"origin": str(copy / "__init__.py")})
    monkeypatch.setattr(pretrained.importlib.util, "find_spec", lambda _name: spec)
    assert pretrained.find_folder(default.name) == copy / "model"
    with (copy / "model" / "model.safetensors").open("rb+") as stream:
        stream.seek(-1, os.SEEK_END)
        last = stream.read(1)
        stream.seek(-1, os.SEEK_END)
        stream.write(bytes([last[0] ^ 1]))
    with pytest.raises(Damaged, match="is not the published all-MiniLM-L6-v2; run pip install"):
        pretrained.find_folder(default.name)


@pytest.mark.parametrize("name", ["no-such-encoder", "./models/mine", "/nowhere", "a/b/c", ""])
def test_a_name_that_no_hub_could_know_never_asks_one(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pretrained, "_fetch", lambda name, *_: pytest.fail(f"asked for {name}"))
    if name == "":
        monkeypatch.chdir("/")  # "" is this folder, which holds no encoder
    with pytest.raises(ConfigError, match=r"there is no encoder|is not an encoder"):
        GlowEncoder.load(name)


def test_an_unknown_hub_name_is_explained_without_a_network(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path))
    with pytest.raises(ConfigError) as error:
        GlowEncoder.load("nobody/no-such-encoder")
    message = str(error.value)
    assert message.startswith("there is no encoder 'nobody/no-such-encoder'")
    assert "name a folder, or all-MiniLM-L6-v2" in message and "\n" not in message


def test_a_hub_model_in_the_local_cache_needs_no_network(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cached = tmp_path / "models--somebody--tiny"
    base = save_tiny_encoder(cached / "snapshots" / ("0" * 40))
    (cached / "refs").mkdir()
    (cached / "refs" / "main").write_text("0" * 40)
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path))
    monkeypatch.setattr("socket.socket.connect", lambda *_: pytest.fail("used the network"))
    assert pretrained.find_folder("somebody/tiny") == base
    found = GlowEncoder.load("somebody/tiny", fast=False)
    assert found.identity()["name"] == "tiny" and len(found.identity()["digest"]) == 64


def test_a_folder_without_an_encoder_is_explained(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="is not an encoder in the Hugging Face layout"):
        GlowEncoder.load(str(tmp_path))
    (tmp_path / SETTINGS_FILE).write_text("{")
    with pytest.raises(ConfigError, match=r"quoth_glow\.json cannot be read"):
        GlowEncoder.load(str(tmp_path))


def test_an_encoder_tells_itself_from_others(tmp_path: Path) -> None:
    base = save_tiny_encoder(tmp_path / "one" / "tiny")
    other = save_tiny_encoder(tmp_path / "two" / "tiny", seed=1)
    first, again = GlowEncoder.load(str(base)), GlowEncoder.load(f"{base}/")
    assert first.identity() == again.identity() != GlowEncoder.load(str(other)).identity()
    assert first.identity()["name"] == "tiny"
    shorter = GlowEncoder.load(str(base), config=GlowConfig(max_subwords=32))
    assert shorter.identity() != first.identity()
