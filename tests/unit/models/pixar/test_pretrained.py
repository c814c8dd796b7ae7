"""A network to start from: what is shipped comes back, rows follow from texts, damage is told."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from quoth.errors import ConfigError, Damaged
from quoth.models.pixar.config import PixarConfig
from quoth.models.pixar.pixar import Pixar
from quoth.models.pixar.pretrained import (
    CONFIG_FILE,
    NAME,
    WEIGHTS_FILE,
    open_pretrained,
    save_pretrained,
)

Start = Callable[..., Pixar]
CONFIG = PixarConfig(
    num_slots=4, slot_layers=1, max_query_subwords=16, row_lengths=True, unit_rows=False
)


@pytest.fixture
def shipped(start: Start, tmp_path: Path) -> tuple[Pixar, Path]:
    model = start(CONFIG)
    with torch.no_grad():
        assert model.network.lengths is not None
        chance = torch.Generator().manual_seed(1)
        weight = model.network.lengths.weight
        weight += torch.randn(weight.shape, generator=chance)
    save_pretrained(tmp_path / "net", model.network, encoder=model.encoder, dtype="fp32")
    return model, tmp_path / "net"


def test_a_model_starts_where_the_network_was(shipped: tuple[Pixar, Path]) -> None:
    model, folder = shipped
    texts = ["raven at night", "mouse"]
    made = Pixar.start(
        num_phrases=2,
        phrase_texts=texts,
        counts=np.arange(4),
        seed=5,  # decides nothing: every tensor is given
        pretrained=open_pretrained(str(folder)),
    )
    assert made.config == CONFIG and made.encoder == model.encoder
    for found, expected in zip(
        made.encode_queries(texts), model.encode_queries(texts), strict=True
    ):
        np.testing.assert_allclose(found, expected, atol=1e-5)
    assert made.identity()["digest"] != model.identity()["digest"]


def test_rows_are_as_long_as_learned_and_point_where_the_text_does(
    shipped: tuple[Pixar, Path],
) -> None:
    _model, folder = shipped
    texts = ["raven at night", "mouse"]
    made = Pixar.start(
        num_phrases=2,
        phrase_texts=texts,
        counts=np.arange(4),
        pretrained=open_pretrained(str(folder)),
    )
    unit = made.encode_queries(texts).pooled / 10
    lengths = np.linalg.norm(made.head.rows[:2], axis=1)
    np.testing.assert_allclose(made.head.rows[:2], unit * lengths[:, None], atol=1e-5)
    layer = made.network.lengths
    assert layer is not None
    plain = unit @ layer.weight.detach().numpy()[0] + layer.bias.item()
    np.testing.assert_allclose(lengths, np.log1p(np.exp(plain)), rtol=1e-4)
    assert abs(lengths[0] - lengths[1]) > 1e-3


def test_lengths_start_at_one(start: Start) -> None:
    np.testing.assert_allclose(np.linalg.norm(start(CONFIG).head.rows[:6], axis=1), 1.0, atol=1e-5)


def test_lengths_need_rows_that_keep_them() -> None:
    with pytest.raises(ConfigError, match="unit_rows"):
        replace(CONFIG, unit_rows=True)


def test_int8_loses_little(shipped: tuple[Pixar, Path], tmp_path: Path) -> None:
    model, _folder = shipped
    save_pretrained(tmp_path / "small", model.network, encoder=model.encoder)
    made = Pixar.start(
        num_phrases=1,
        phrase_texts=["owl"],
        counts=np.arange(3),
        pretrained=open_pretrained(str(tmp_path / "small")),
    )
    found, expected = (each.encode_queries(["raven at night"]).pooled for each in (made, model))
    assert (found * expected).sum() / 100 > 0.999


def test_what_is_damaged_or_something_else_is_told(
    shipped: tuple[Pixar, Path], tmp_path: Path
) -> None:
    model, folder = shipped
    with pytest.raises(ConfigError, match="no folder"):
        open_pretrained("nowhere")
    content = json.loads((folder / CONFIG_FILE).read_text())
    (folder / CONFIG_FILE).write_text(json.dumps(content | {"kind": "reader"}))
    with pytest.raises(ConfigError, match="holds a reader"):
        open_pretrained(str(folder))
    with pytest.raises(ConfigError, match="holds a reader"):
        save_pretrained(folder, model.network, encoder=model.encoder)
    (folder / CONFIG_FILE).write_text("{}")
    with pytest.raises(Damaged, match="cannot be read"):
        open_pretrained(str(folder))
    (folder / CONFIG_FILE).write_text(json.dumps(content))
    (folder / WEIGHTS_FILE).write_bytes((folder / WEIGHTS_FILE).read_bytes()[:-1] + b"x")
    with pytest.raises(Damaged):
        open_pretrained(str(folder)).restore(model.network)


def test_the_shipped_network_fits_the_embedded_encoder() -> None:
    pretrained = open_pretrained(NAME)
    assert pretrained.find_encoder().is_dir()
    size = sum(each.stat().st_size for each in pretrained.folder.iterdir())
    assert size < 20e6
    made = Pixar.start(
        num_phrases=3,
        phrase_texts=["of the", "barn owl", "photosynthesis"],
        counts=np.arange(5),
        pretrained=pretrained,
    )
    lengths = np.linalg.norm(made.head.rows[:3], axis=1)
    assert lengths[0] < lengths[1:].min()  # it learned that some phrases say little
