"""Generators on disk: round trips, what int8 costs, and folders that are refused."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from tiny_generator import CONFIG, PASSAGES, make_generator, save_base

from quoth.errors import ConfigError, Damaged
from quoth.models import pretrained
from quoth.models.quantised import dequantise, quantise
from quoth.models.query_generator.files import decoder_tensors
from quoth.models.query_generator.generator import QueryGenerator
from quoth.models.query_generator.network import QueryGeneratorNetwork
from quoth.models.query_generator.saved import CONFIG_FILE, DECODER_FILE

QUERIES = ["owl", "the raven", "birds sleep here", "dusk"]


def tensors_of(generator: QueryGenerator) -> dict[str, torch.Tensor]:
    assert isinstance(generator.network, QueryGeneratorNetwork)
    return decoder_tensors(generator.network)


@pytest.mark.parametrize(("dtype", "tolerance"), [("fp32", 0.0), ("bf16", 0.5), ("int8", 0.5)])
def test_a_generator_is_saved_and_loaded(
    generator: QueryGenerator, tmp_path: Path, dtype: str, tolerance: float
) -> None:
    generator.save(tmp_path / "saved", dtype=dtype)
    assert sorted(each.name for each in (tmp_path / "saved").iterdir()) == [
        CONFIG_FILE,
        DECODER_FILE,
    ]
    loaded = QueryGenerator.load(str(tmp_path / "saved"), fast=False)
    assert loaded.config == generator.config
    expected = generator.score(QUERIES, PASSAGES)
    assert loaded.score(QUERIES, PASSAGES) == pytest.approx(expected, abs=tolerance + 1e-6)
    if dtype == "fp32":
        own = tensors_of(loaded)
        assert all(torch.equal(each, own[name]) for name, each in tensors_of(generator).items())


def test_int8_is_off_by_half_a_step_at_most(generator: QueryGenerator) -> None:
    tensors = tensors_of(generator)
    small = quantise(tensors, dtype="int8")
    again = dequantise(small)
    assert again.keys() == tensors.keys()
    matrices = [name for name, each in tensors.items() if each.ndim == 2]
    assert len(matrices) == 2 * 10 + 2 and all(small[name].dtype == torch.int8 for name in matrices)
    for name in matrices:
        step = tensors[name].abs().amax(1, keepdim=True) / 127
        assert ((again[name] - tensors[name]).abs() <= step / 2 + 1e-7).all()
        assert float((again[name] - tensors[name]).abs().max()) > 0
    for name in tensors.keys() - set(matrices):
        torch.testing.assert_close(again[name], tensors[name], atol=1e-3, rtol=1e-3)


def test_a_row_of_zeros_stays_zero() -> None:
    again = dequantise(quantise({"w": torch.tensor([[0.0, 0.0], [1.0, -2.0]])}, dtype="int8"))
    assert again["w"].isfinite().all() and (again["w"][0] == 0).all()


def test_int8_takes_a_quarter_of_the_room(generator: QueryGenerator, tmp_path: Path) -> None:
    for dtype in ("int8", "fp32"):
        generator.save(tmp_path / dtype, dtype=dtype)
    sizes = [(tmp_path / dtype / DECODER_FILE).stat().st_size for dtype in ("int8", "fp32")]
    assert sizes[0] < 0.4 * sizes[1]  # names weigh much in so small a network
    with pytest.raises(ConfigError, match="dtype is 'int4', expected one of int8, bf16, fp32"):
        generator.save(tmp_path / "int4", dtype="int4")


def test_saving_replaces_a_generator_but_nothing_else(
    generator: QueryGenerator, tmp_path: Path
) -> None:
    generator.save(tmp_path / "saved", dtype="fp32")
    generator.save(tmp_path / "saved", dtype="int8")
    assert json.loads((tmp_path / "saved" / CONFIG_FILE).read_text())["dtype"] == "int8"
    (tmp_path / "thesis").mkdir()
    (tmp_path / "thesis" / "chapter.tex").write_text("years of work")
    with pytest.raises(ConfigError, match="holds something else than a query generator"):
        generator.save(tmp_path / "thesis")
    assert (tmp_path / "thesis" / "chapter.tex").read_text() == "years of work"


def test_a_trained_encoder_travels_along(tmp_path: Path) -> None:
    generator = make_generator(tmp_path / "base", replace(CONFIG, train_encoder=True))
    with torch.no_grad():
        generator.network.encoder.encoder.layer[0].output.dense.weight.mul_(0.5)  # type: ignore[union-attr,operator]
    expected = generator.score(QUERIES, PASSAGES)
    generator.save(tmp_path / "saved", dtype="fp32")
    (tmp_path / "base").rename(tmp_path / "gone")
    loaded = QueryGenerator.load(str(tmp_path / "saved"), fast=False)
    assert loaded.score(QUERIES, PASSAGES) == pytest.approx(expected, abs=1e-5)


def edit(folder: Path, **changes: Any) -> None:
    content = json.loads((folder / CONFIG_FILE).read_text())
    (folder / CONFIG_FILE).write_text(json.dumps(content | changes))


def test_damaged_weights_are_refused(generator: QueryGenerator, tmp_path: Path) -> None:
    folder = tmp_path / "saved"
    generator.save(folder)
    path = folder / DECODER_FILE
    whole = path.read_bytes()
    path.write_bytes(whole[:-1] + bytes([whole[-1] ^ 1]))
    with pytest.raises(Damaged, match=r"was altered or cut.*copy the folder anew"):
        QueryGenerator.load(str(folder))
    path.write_bytes(whole[: len(whole) // 2])
    with pytest.raises(Damaged, match="was altered or cut"):
        QueryGenerator.load(str(folder))
    path.unlink()
    with pytest.raises(Damaged, match="is missing"):
        QueryGenerator.load(str(folder))


@pytest.mark.parametrize(
    ("changes", "error", "message"),
    [
        ({"format": 99}, ConfigError, "has format 99, this Quoth reads 1"),
        ({"config": {"wings": 2}}, Damaged, "cannot be read"),
        ({"encoder": {"name": "x"}}, Damaged, "cannot be read"),
    ],
)
def test_settings_that_make_no_sense_are_refused(
    generator: QueryGenerator,
    tmp_path: Path,
    changes: dict[str, Any],
    error: type[Exception],
    message: str,
) -> None:
    generator.save(tmp_path / "saved")
    edit(tmp_path / "saved", **changes)
    with pytest.raises(error, match=message):
        QueryGenerator.load(str(tmp_path / "saved"))


def test_weights_of_another_shape_are_refused(generator: QueryGenerator, tmp_path: Path) -> None:
    generator.save(tmp_path / "saved")
    settings = json.loads((tmp_path / "saved" / CONFIG_FILE).read_text())["config"]
    edit(tmp_path / "saved", config=settings | {"num_layers": 1})
    with pytest.raises(Damaged, match=r"does not fit its settings: layers\.1"):
        QueryGenerator.load(str(tmp_path / "saved"))


def test_another_encoder_of_the_same_name_is_refused(tmp_path: Path) -> None:
    generator = make_generator(tmp_path / "base")
    generator.save(tmp_path / "saved")
    with (tmp_path / "base" / "model.safetensors").open("ab") as stream:
        stream.write(b"x")
    with pytest.raises(ConfigError, match="was trained with another"):
        QueryGenerator.load(str(tmp_path / "saved"))


def test_an_encoder_that_reads_too_little_is_explained(tmp_path: Path) -> None:
    save_base(tmp_path / "base")
    with pytest.raises(ConfigError, match="reads 128 subwords at most, 192 were asked for"):
        QueryGenerator.start(str(tmp_path / "base"))


def test_missing_shipped_weights_are_explained(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(pretrained.importlib.util, "find_spec", lambda _name: None)
    with pytest.raises(ConfigError, match=r"pip install quoth-weights, or name a folder"):
        QueryGenerator.load()
    (tmp_path / "package").mkdir()
    spec = type("Spec", (), {"origin": str(tmp_path / "package" / "__init__.py")})
    monkeypatch.setattr(pretrained.importlib.util, "find_spec", lambda _name: spec)
    with pytest.raises(ConfigError, match="hold no 'query-generator'"):
        QueryGenerator.load()


def test_shipped_weights_are_found(
    generator: QueryGenerator, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    generator.save(tmp_path / "package" / "query-generator")
    spec = type("Spec", (), {"origin": str(tmp_path / "package" / "__init__.py")})
    monkeypatch.setattr(pretrained.importlib.util, "find_spec", lambda _name: spec)
    assert pretrained.find_shipped("query-generator") == tmp_path / "package" / "query-generator"
    assert QueryGenerator.load().identity()["name"] == "query-generator"
