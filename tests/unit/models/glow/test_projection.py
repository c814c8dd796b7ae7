"""Projection heads: harmless at first, saved and loaded, absent by default."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from tiny_encoder import save_tiny_encoder

from quoth.errors import ConfigError
from quoth.models.glow.config import GlowConfig
from quoth.models.glow.encoder import GlowEncoder
from quoth.models.glow.files import PROJECTION_FILE, plain_config
from quoth.models.glow.network import Projection

TEXTS = ("the owl hunts", "a raven at night", "two hens")


@pytest.fixture
def encoder(tmp_path: Path) -> GlowEncoder:
    folder = save_tiny_encoder(tmp_path / "tiny")
    return GlowEncoder.load(str(folder), fast=False)


def projected(encoder: GlowEncoder, size: int) -> GlowEncoder:
    encoder.network.projection = Projection(32, size)
    config = replace(encoder.config, projection=size)
    return GlowEncoder("p", encoder.network, encoder.tokenizer, config, identity={"name": "p"})


def test_vectors_have_the_projected_length(encoder: GlowEncoder) -> None:
    own = projected(encoder, 64)
    vectors = own.encode_queries(TEXTS).vectors
    assert own.width == 64 and vectors.shape == (3, 64)
    np.testing.assert_allclose(np.linalg.norm(vectors, axis=1), 1.0, rtol=1e-5)


def test_a_wider_projection_starts_with_the_same_cosines(encoder: GlowEncoder) -> None:
    documents = [{"text": (text,)} for text in TEXTS]
    before = encoder.encode_queries(TEXTS).vectors @ encoder.encode_documents(documents).vectors.T
    own = projected(encoder, 64)
    after = own.encode_queries(TEXTS).vectors @ own.encode_documents(documents).vectors.T
    np.testing.assert_allclose(after, before, atol=1e-5)


def test_each_side_has_its_own_map_and_both_are_saved(encoder: GlowEncoder, tmp_path: Path) -> None:
    own = projected(encoder, 64)
    assert own.network.projection is not None
    with torch.no_grad():
        own.network.projection.documents.weight.mul_(torch.linspace(1, 2, 64)[:, None])
    own.save(tmp_path / "saved")
    loaded = GlowEncoder.load(str(tmp_path / "saved"), fast=False)
    documents = [{"text": (text,)} for text in TEXTS]
    assert loaded.config.projection == 64
    np.testing.assert_array_equal(
        loaded.encode_queries(TEXTS).vectors, own.encode_queries(TEXTS).vectors
    )
    found = loaded.encode_documents(documents).vectors
    np.testing.assert_array_equal(found, own.encode_documents(documents).vectors)
    assert not np.allclose(found, loaded.encode_queries(TEXTS).vectors)
    (tmp_path / "saved" / PROJECTION_FILE).unlink()
    with pytest.raises(ConfigError, match=r"has no projection\.safetensors"):
        GlowEncoder.load(str(tmp_path / "saved"), fast=False)


def test_without_one_nothing_changes(encoder: GlowEncoder) -> None:
    assert encoder.network.projection is None and encoder.width == 32
    assert "projection" not in plain_config(encoder.config)
    assert not any("projection" in name for name, _ in encoder.network.named_parameters())


def test_impossible_sizes_are_errors() -> None:
    with pytest.raises(ConfigError, match="projection is 32, expected 0 or 64 to 768"):
        GlowConfig(projection=32)
