"""The model in use: vectors of texts, the head's start, what is saved and comes back, damage."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from half_precision import needs_bf16
from safetensors.torch import load_file

from quoth.errors import ConfigError, Damaged
from quoth.models.pixar import pixar as module
from quoth.models.pixar.config import PixarConfig
from quoth.models.pixar.files import BIAS_FILE, HEAD_FILE, NETWORK_FILE, ROWS_FILE
from quoth.models.pixar.head import HeadVectors, start_head
from quoth.models.pixar.inputs import PixarInputs
from quoth.models.pixar.pixar import Pixar

Start = Callable[..., Pixar]
CONFIG = PixarConfig(num_slots=4, slot_layers=1, max_query_subwords=16)
FROZEN = replace(CONFIG, train_encoder=False)
TEXTS = ["owl at night", "a raven watches one hen among many other birds", "mouse", "x"]


def test_vectors_keep_the_order_of_texts(start: Start) -> None:
    model = start(CONFIG)
    found = model.encode_queries(TEXTS)
    assert found.pooled.shape == (4, 32) and found.slots.shape == (4, 4, 32)
    assert found.pooled.dtype == found.slots.dtype == np.float32
    for at, text in enumerate(TEXTS):
        alone = model.encode_queries([text])
        np.testing.assert_allclose(alone.pooled[0], found.pooled[at], atol=1e-4)
        np.testing.assert_allclose(alone.slots[0], found.slots[at], atol=1e-4)
    assert not np.allclose(found.pooled[0], found.pooled[1], atol=1e-2)
    assert model.encode_queries([]).slots.shape == (0, 4, 32)


def test_rows_start_at_the_vectors_of_the_phrases(start: Start, base: Path) -> None:
    model = start(CONFIG)
    texts = ("barn owl", "mouse")
    expected = model.encode_queries(texts).pooled / 10
    np.testing.assert_allclose(model.head.rows[[0, 5]], expected, atol=1e-5)
    np.testing.assert_allclose(np.linalg.norm(model.head.rows, axis=1), 1, atol=1e-5)
    assert (model.head.num_phrases, model.eos_id, model.head.pad_id) == (6, 6, 7)
    np.testing.assert_allclose(np.exp(model.head.bias), np.arange(1, 9) / 36, rtol=1e-5)
    random = Pixar.start(
        str(base), num_phrases=3, config=replace(CONFIG, rows="random", bias="uniform")
    )
    assert random.head.rows.shape == (5, 32)
    np.testing.assert_allclose(np.exp(random.head.bias), 1 / 5, rtol=1e-5)


def test_a_narrow_head_keeps_the_most_of_what_tells_phrases_apart(start: Start) -> None:
    whole, narrow = start(CONFIG), start(replace(CONFIG, head_width=6))
    assert narrow.head.rows.shape == (8, 6)
    expected = whole.head.rows[:6] @ whole.head.rows[:6].T
    found = narrow.head.rows[:6] @ narrow.head.rows[:6].T
    np.testing.assert_allclose(found, expected, atol=1e-4)  # six phrases span six directions
    query = narrow.encode_queries(["mouse"]).pooled
    np.testing.assert_allclose(query[0] / 10, narrow.head.rows[5], atol=1e-4)


def test_equal_seeds_give_equal_models(base: Path) -> None:
    def rows(seed: int) -> np.ndarray:
        config = replace(CONFIG, rows="random", bias="zero")
        model = Pixar.start(str(base), num_phrases=3, config=config, seed=seed)
        assert model.network.decoder is not None
        questions = model.network.decoder.questions.detach().numpy()
        return np.concatenate((model.head.rows.ravel(), questions.ravel()))

    assert np.array_equal(rows(1), rows(1)) and not np.array_equal(rows(1), rows(2))


@pytest.mark.parametrize("slots", ["decoder", "mask", "input"])
@pytest.mark.parametrize("trains", [True, False])
def test_what_is_saved_comes_back(start: Start, tmp_path: Path, slots: str, trains: bool) -> None:
    model = start(replace(CONFIG, slots=slots, train_encoder=trains))
    model.save(tmp_path / "model", dtype="fp32")
    assert (tmp_path / "model" / "encoder").is_dir() is trains
    again = Pixar.load(tmp_path / "model", fast=False)
    assert again.config == model.config
    for one, other in zip(model.encode_queries(TEXTS), again.encode_queries(TEXTS), strict=True):
        assert np.array_equal(one, other)
    assert np.array_equal(again.head.rows, model.head.rows)
    assert np.array_equal(again.head.bias, model.head.bias)
    model.save(tmp_path / "model", dtype="fp32")  # over the older one
    assert Pixar.load(tmp_path / "model").identity()["name"] == "model"


@pytest.mark.parametrize(("dtype", "error"), [("bf16", 2**-8), ("fp16", 2**-11), ("int8", 1 / 127)])
def test_rows_are_stored_small(start: Start, tmp_path: Path, dtype: str, error: float) -> None:
    model = start(FROZEN)
    model.save(tmp_path / "model", dtype=dtype, mapped="none")
    rows = Pixar.load(tmp_path / "model", fast=False).head.rows
    assert rows.dtype == np.float32
    np.testing.assert_allclose(rows, model.head.rows, atol=error)
    stored = load_file(tmp_path / "model" / HEAD_FILE)
    assert stored["rows"].element_size() == (1 if dtype == "int8" else 2)


@needs_bf16
def test_a_model_for_searching_maps_its_head(
    start: Start, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "has_fast_bf16", lambda: True)
    model = start(CONFIG)
    model.save(tmp_path / "model")
    fast = Pixar.load(tmp_path / "model")
    assert isinstance(fast.head.rows, np.memmap) and fast.head.rows.dtype == np.float16
    np.testing.assert_allclose(fast.head.rows, model.head.rows, atol=1e-3)
    exact, rounded = model.encode_queries(TEXTS), fast.encode_queries(TEXTS)
    np.testing.assert_allclose(np.linalg.norm(rounded.pooled, axis=1), 10, atol=1e-3)
    alike = (exact.pooled * rounded.pooled).sum(1) / 100
    assert alike.min() > 0.99
    with pytest.raises(ConfigError, match="cannot be saved; load with fast=False"):
        fast.save(tmp_path / "other")


def test_models_are_told_apart(start: Start, tmp_path: Path) -> None:
    digests = set()
    for seed in range(2):
        start(CONFIG, seed=seed).save(tmp_path / "model")
        digests.add(Pixar.load(tmp_path / "model").identity()["digest"])
    start(CONFIG, seed=1).save(tmp_path / "model")
    digests.add(Pixar.load(tmp_path / "model").identity()["digest"])
    assert len(digests) == 2


@pytest.mark.parametrize(
    "name", [NETWORK_FILE, HEAD_FILE, BIAS_FILE, ROWS_FILE, "encoder/model.safetensors"]
)
def test_damaged_files_are_named(start: Start, tmp_path: Path, name: str) -> None:
    folder = tmp_path / "model"
    start(CONFIG).save(folder)
    path = folder / name
    path.write_bytes(path.read_bytes()[:-3])
    with pytest.raises(Damaged, match=rf"{Path(name).name} was altered or cut"):
        Pixar.load(folder, fast=name not in (HEAD_FILE,))
    path.unlink()
    with pytest.raises(Damaged, match=rf"{Path(name).name} is missing"):
        Pixar.load(folder, fast=name not in (HEAD_FILE,))


def test_other_folders_are_refused(start: Start, tmp_path: Path, base: Path) -> None:
    model = start(FROZEN)
    with pytest.raises(ConfigError, match="holds no PIXAR model"):
        Pixar.load(base)
    with pytest.raises(ConfigError, match="holds no PIXAR model"):
        model.save(base)
    with pytest.raises(ConfigError, match=r"config\.json cannot be read"):
        Pixar.load(tmp_path)
    with pytest.raises(ConfigError, match=r"dtype is 'int4'.*mapped is 'bf16'"):
        model.save(tmp_path / "model", dtype="int4", mapped="bf16")
    model.save(tmp_path / "model")
    path = tmp_path / "model" / "config.json"
    content = json.loads(path.read_text())
    path.write_text(json.dumps(content | {"encoder": {"name": str(base), "digest": "0"}}))
    with pytest.raises(ConfigError, match="was trained with another"):
        Pixar.load(tmp_path / "model")
    path.write_text(json.dumps(content | {"format": 0}))
    with pytest.raises(ConfigError, match="has format 0"):
        Pixar.load(tmp_path / "model")
    path.write_text(json.dumps(content | {"config": {"unknown": 1}}))
    with pytest.raises(Damaged, match="cannot be read"):
        Pixar.load(tmp_path / "model")


def test_a_head_needs_what_it_starts_from(base: Path) -> None:
    with pytest.raises(ConfigError, match="give the texts of all 3 phrases"):
        Pixar.start(str(base), num_phrases=3, config=CONFIG, counts=np.ones(5))
    with pytest.raises(ConfigError, match=r"give vectors for encoder.*none counts.*expected 5"):
        start_head(CONFIG, num_phrases=3, width=8, seed=0)
    with pytest.raises(ConfigError, match=r"rows \(3, 2\) and biases \(2,\)"):
        HeadVectors(np.zeros((3, 2)), np.zeros(2, dtype=np.float32))


def test_long_queries_are_cut(start: Start) -> None:
    inputs = start(CONFIG).inputs
    (ids,) = inputs.queries(["owl " * 40])
    vocabulary = inputs.tokenizer.get_vocab()
    assert ids == [vocabulary["[CLS]"], *[vocabulary["owl"]] * 14, vocabulary["[SEP]"]]
    batch = inputs.pad([[1, 2, 3], [4]])
    assert batch.subword_ids.tolist() == [[1, 2, 3], [4, inputs.pad_id, inputs.pad_id]]
    assert batch.mask.tolist() == [[True] * 3, [True, False, False]]


def test_a_tokenizer_without_masks_is_an_error() -> None:
    from tokenizers import Tokenizer
    from tokenizers.models import WordLevel

    with pytest.raises(ConfigError, match="name an encoder of the BERT kind"):
        PixarInputs(Tokenizer(WordLevel({"[UNK]": 0}, unk_token="[UNK]")), CONFIG)
