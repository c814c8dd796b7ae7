"""What an encoder looks at: the same attention as transformers' own, shifted as weights say."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from tiny_encoder import save_tiny_encoder
from torch import Tensor
from transformers import AutoModel
from transformers.utils import logging

from quoth.models.attention import Merge, attend, attend_merged, attention_shares
from quoth.models.glow.attention_report import report_attention
from quoth.models.glow.config import GlowConfig
from quoth.models.glow.encoder import GlowEncoder
from quoth.models.glow.inputs import SurfaceWords
from quoth.models.glow.network import pooled_shares
from quoth.models.glow.plain import open_encoder

logging.disable_progress_bar()  # type: ignore[no-untyped-call]

DOCUMENTS = [
    {"title": ("Barn owl",), "text": ("The owl, at dusk; zyx hunts a mouse. OWL!",)},
    {"text": ("A hen sleeps.",)},
    {"text": ("owl " * 90,)},
]
CONFIG = GlowConfig(max_subwords=48, fields=("title", "text"))


class _Counts:
    num_documents = 100

    def document_frequencies(self, _view: str, terms: Iterable[str]) -> Mapping[str, int]:
        known = {"the": 90, "at": 60, "a": 80, "owl": 3, "mous": 2, "barn": 9}
        return {term: known[term] for term in terms if term in known}

    def average_lengths(self) -> Mapping[str, float]:
        return {"text": 8.0, "title": 2.0}


@pytest.fixture(scope="module")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save_tiny_encoder(tmp_path_factory.mktemp("encoder") / "tiny")


def _layers(encoder: GlowEncoder, counts: Any = None) -> tuple[list[Tensor], Any]:
    batch = encoder.inputs.pad(encoder.inputs.documents(DOCUMENTS, counts))
    layers: list[Tensor] = []
    with torch.inference_mode():
        encoder.network.states(encoder.network.document_encoder, batch, record=layers)
    return layers, batch


@pytest.mark.parametrize("mode", ["none", "row", "column", "add_log", "merge"])
def test_every_row_of_attention_adds_up_to_one(tiny: Path, mode: str) -> None:
    encoder = GlowEncoder.load(str(tiny), config=replace(CONFIG, weighting=mode), fast=False)
    layers, batch = _layers(encoder, _Counts())
    assert len(layers) == 2
    for layer in layers:
        assert layer.shape == (3, 4, *batch.mask.shape[1:] * 2)
        torch.testing.assert_close(layer.sum(-1), torch.ones(layer.shape[:-1]))
        assert float(layer.masked_fill(batch.mask[:, None, None, :], 0.0).sum()) == 0.0
    for how in ("mean", "cls"):
        shares = pooled_shares(layers[-1], batch.mask, how=how)
        torch.testing.assert_close(shares.sum(1), torch.ones(3))


def test_attention_equals_that_of_transformers(tiny: Path) -> None:
    encoder = GlowEncoder.load(str(tiny), config=CONFIG, fast=False)
    layers, batch = _layers(encoder)
    model = AutoModel.from_pretrained(str(tiny), attn_implementation="eager", dtype=torch.float32)
    with torch.inference_mode():
        expected = model(
            input_ids=batch.subword_ids,
            attention_mask=batch.mask.long(),
            token_type_ids=batch.field_ids,
            output_attentions=True,
        ).attentions
    for found, wanted in zip(layers, expected, strict=True):
        rows = batch.mask[:, None, :, None]
        torch.testing.assert_close(found * rows, wanted * rows, atol=1e-5, rtol=0)


@pytest.mark.parametrize("mode", ["none", "row", "column", "add_log", "merge"])
def test_shares_times_values_are_what_attention_gives(mode: str) -> None:
    chance = torch.Generator().manual_seed(0)
    query, key, value = (torch.randn(2, 3, 5, 8, generator=chance) for _ in range(3))
    weights = torch.rand(2, 5, generator=chance) * 4 + 0.2
    mask = torch.ones(2, 1, 1, 5, dtype=torch.bool)
    mask[1, ..., 3:] = False
    merge = Merge()
    with torch.no_grad():
        merge.outer.weight += 0.3
        shares = attention_shares(
            query, key, weights=weights, mode=mode, mask=mask, scale=0.3, merge=merge
        )
        if mode == "merge":
            expected = attend_merged(
                *(query, key, value),
                weights=weights,
                merge=merge,
                mask=mask,
                scale=0.3,
                dropout=0.0,
            )
        else:
            expected = attend(query, key, value, weights=weights, mode=mode, mask=mask, scale=0.3)
    torch.testing.assert_close(shares @ value, expected, atol=1e-5, rtol=1e-5)


def test_weighted_rows_shift_as_the_formula_says() -> None:
    """Log-odds of two tokens, seen from a third, under each mode."""
    chance = torch.Generator().manual_seed(1)
    query, key = (torch.randn(1, 1, 4, 8, generator=chance) for _ in range(2))
    weights = torch.tensor([[1.0, 2.5, 0.5, 3.0]])
    logits = (query @ key.transpose(-1, -2) * 0.35)[0, 0]

    def odds(mode: str) -> Tensor:
        shares = attention_shares(query, key, weights=weights, mode=mode, mask=None, scale=0.35)
        return (shares[0, 0, :, 1] / shares[0, 0, :, 2]).log()

    w = weights[0]
    torch.testing.assert_close(odds("none"), logits[:, 1] - logits[:, 2])
    torch.testing.assert_close(odds("row"), w * (logits[:, 1] - logits[:, 2]))
    torch.testing.assert_close(odds("column"), w[1] * logits[:, 1] - w[2] * logits[:, 2])
    expected = logits[:, 1] - logits[:, 2] + (w[1] / w[2]).log()
    torch.testing.assert_close(odds("add_log"), expected)


def test_subwords_are_joined_to_written_words(tiny: Path) -> None:
    inputs = GlowEncoder.load(str(tiny), config=CONFIG, fast=False).inputs
    found = inputs.document_words({"text": ("Owl, zyx!",)})
    assert found == SurfaceWords(("Owl", ",", "zyx", "!"), (-1, 0, 1, 2, 2, 2, 3, -1))
    assert inputs.query_words("zy") == SurfaceWords(("zy",), (-1, 0, 0, -1))
    for fields, sequence in zip(DOCUMENTS, inputs.documents(DOCUMENTS, None), strict=True):
        assert len(inputs.document_words(fields).word_of) == len(sequence.subword_ids)
    config = replace(CONFIG, layout="fields", field_caps={"title": 1})
    inputs = GlowEncoder.load(str(tiny), config=config, fast=False).inputs
    found = inputs.document_words({"title": ("barn owl",), "text": ("hen",)})
    assert found == SurfaceWords(("barn", "hen"), (-1, 0, -1, 1, -1))


@pytest.mark.parametrize("pooling", ["mean", "cls"])
def test_the_report_is_the_last_layer_as_it_is_pooled(tiny: Path, pooling: str) -> None:
    encoder = GlowEncoder.load(str(tiny), config=replace(CONFIG, pooling=pooling), fast=False)
    report = report_attention(encoder, "barn owl owl", DOCUMENTS[:2], counts=None)
    layers, batch = _layers(encoder)
    last = layers[-1][1].mean(0).numpy()  # "A hen sleeps.": [CLS] a hen sleep… . [SEP]
    length = int(batch.mask[1].sum())
    looks = last[0] if pooling == "cls" else last[:length].mean(0)
    words = encoder.inputs.document_words(DOCUMENTS[1])
    assert report[1] is not None and report[0] is not None
    shares = {each.word: each.share for each in report[1].document}
    assert set(shares) == {"a", "hen", "sleeps"}
    for at, word in enumerate(words.words):
        own = np.array(words.word_of) == at
        if word != ".":
            assert shares[word.lower()] == pytest.approx(looks[:length][own].sum(), abs=1e-6)
    assert report[0].query == report[1].query
    assert {each.word for each in report[0].query} == {"barn", "owl"}
    ranked = [each.share for each in report[0].document]
    assert ranked == sorted(ranked, reverse=True) and sum(ranked) < 1


def test_weights_move_attention_towards_rare_words(tiny: Path) -> None:
    """With add_log attention grows with the weight of a word, other things equal."""
    shares = {}
    for mode in ("none", "add_log"):
        config = replace(CONFIG, weighting=mode, num_layers=1)
        encoder = GlowEncoder.load(str(tiny), config=config, fast=False)
        (report,) = report_attention(encoder, "owl", DOCUMENTS[:1], counts=_Counts())
        assert report is not None
        shares[mode] = {each.word: each.share for each in report.document}
    moved = {word: shares["add_log"][word] / shares["none"][word] for word in ("owl", "the")}
    assert moved["owl"] > moved["the"]


@pytest.mark.parametrize("pooling", ["mean", "cls"])
def test_encoders_to_search_with_look_at_the_same_words(
    tiny: Path, tmp_path: Path, pooling: str
) -> None:
    exact = GlowEncoder.load(str(tiny), config=replace(CONFIG, pooling=pooling), fast=False)
    exact.save(tmp_path / "saved")
    quick = open_encoder(str(tmp_path / "saved"))
    assert not isinstance(quick, GlowEncoder)
    reports = [
        report_attention(encoder, "owl", DOCUMENTS, counts=None) for encoder in (exact, quick)
    ]
    for slow, quick in zip(*reports, strict=True):
        assert slow is not None and quick is not None
        expected = {each.word: each.share for each in slow.document}
        found = {each.word: each.share for each in quick.document}
        assert found == pytest.approx(expected, abs=1e-5)
