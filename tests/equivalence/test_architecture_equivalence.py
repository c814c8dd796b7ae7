"""Encoders other than BERT: the same vectors as transformers, cut, saved, loaded and weighted."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from tiny_encoder import make_tokenizer
from tokenizers import Tokenizer
from tokenizers.models import WordPiece
from tokenizers.normalizers import BertNormalizer
from tokenizers.pre_tokenizers import BertPreTokenizer
from transformers import (
    AutoModel,
    DistilBertConfig,
    DistilBertModel,
    MPNetConfig,
    MPNetModel,
    RobertaConfig,
    RobertaModel,
    XLMRobertaConfig,
    XLMRobertaModel,
)
from transformers.utils import logging

from quoth.errors import ConfigError
from quoth.models.glow.config import NUM_FIELDS, GlowConfig
from quoth.models.glow.encoder import GlowEncoder
from quoth.training.recipes.glow import build_network
from quoth.training.recipes.glow_config import GlowRecipe

logging.disable_progress_bar()  # type: ignore[no-untyped-call]

TEXTS = ["a barn owl", "the hen sleeps at dusk; a mouse!", "owl " * 90, "", "raven"]
POSITIONS = 40
SIZES = {"num_hidden_layers": 3, "num_attention_heads": 4, "hidden_size": 32}
KINDS = ("distilbert", "roberta", "xlm-roberta")
CONFIG = GlowConfig(max_subwords=32, max_query_subwords=32)


def _roberta_tokenizer() -> Tokenizer:
    """The tiny tokenizer under RoBERTa's names for special subwords, in RoBERTa's order."""
    names = {"[CLS]": "<s>", "[PAD]": "<pad>", "[SEP]": "</s>", "[UNK]": "<unk>"}
    vocabulary = make_tokenizer().get_vocab()
    words = [each for each in sorted(vocabulary, key=vocabulary.__getitem__) if each not in names]
    pieces = {each: at for at, each in enumerate([*names.values(), *words])}
    tokenizer = Tokenizer(WordPiece(pieces, unk_token="<unk>"))
    tokenizer.normalizer = BertNormalizer()
    tokenizer.pre_tokenizer = BertPreTokenizer()
    return tokenizer


def _save(kind: str, folder: Path) -> Path:
    """Write a tiny random encoder of a kind."""
    tokenizer = make_tokenizer() if kind == "distilbert" else _roberta_tokenizer()
    sizes = {**SIZES, "vocab_size": tokenizer.get_vocab_size(), "initializer_range": 0.5}
    with torch.random.fork_rng():
        torch.manual_seed(0)
        model: Any
        if kind == "distilbert":
            model = DistilBertModel(
                DistilBertConfig(**sizes, hidden_dim=64, max_position_embeddings=POSITIONS)
            )
        elif kind == "mpnet":
            others = {"intermediate_size": 64, "max_position_embeddings": POSITIONS}
            model = MPNetModel(MPNetConfig(**sizes, **others))
        else:
            config, made = {
                "roberta": (RobertaConfig, RobertaModel),
                "xlm-roberta": (XLMRobertaConfig, XLMRobertaModel),
            }[kind]
            others = {"intermediate_size": 64, "type_vocab_size": 1, "pad_token_id": 1}
            model = made(config(**sizes, **others, max_position_embeddings=POSITIONS))
    model.save_pretrained(str(folder))
    tokenizer.save(str(folder / "tokenizer.json"))
    return folder


def _by_transformers(folder: Path, encoder: GlowEncoder, *, num_layers: int = 3) -> Any:
    """Mean pooling, one text at a time, so that no padding is involved."""
    model = AutoModel.from_pretrained(str(folder), dtype=torch.float32).eval()
    stack = model.transformer if hasattr(model, "transformer") else model.encoder
    stack.layer = stack.layer[:num_layers]
    vectors = []
    for sequence in encoder.inputs.documents([{"text": (text,)} for text in TEXTS], None):
        with torch.inference_mode():
            states = model(input_ids=torch.tensor([sequence.subword_ids])).last_hidden_state
        vectors.append(torch.nn.functional.normalize(states[0].mean(0), dim=0).numpy())
    return np.stack(vectors)


def _vectors(encoder: GlowEncoder, counts: Any = None) -> Any:
    documents = [{"title": (text[::-1],), "text": (text,)} for text in TEXTS]
    if encoder.config.layout == "joined":
        documents = [{"text": (text,)} for text in TEXTS]
    return encoder.encode_documents(documents, counts=counts).vectors


class _Counts:
    num_documents = 10

    def document_frequencies(self, _view: str, terms: Iterable[str]) -> Mapping[str, int]:
        return {term: 1 + len(term) for term in terms}

    def average_lengths(self) -> Mapping[str, float]:
        return {"text": 5.0}


@pytest.mark.parametrize("fast", [False, True])
@pytest.mark.parametrize("kind", [*KINDS, "mpnet"])
def test_vectors_equal_those_of_transformers(tmp_path: Path, kind: str, fast: bool) -> None:
    folder = _save(kind, tmp_path / kind)
    encoder = GlowEncoder.load(str(folder), config=CONFIG, fast=fast)
    expected = _by_transformers(folder, encoder)
    if fast:
        assert (_vectors(encoder) * expected).sum(1).min() > 0.99
    else:
        np.testing.assert_allclose(_vectors(encoder), expected, atol=1e-5)


@pytest.mark.parametrize("kind", KINDS)
def test_layers_are_cut_from_the_top(tmp_path: Path, kind: str) -> None:
    folder = _save(kind, tmp_path / kind)
    encoder = GlowEncoder.load(str(folder), config=replace(CONFIG, num_layers=2), fast=False)
    np.testing.assert_allclose(
        _vectors(encoder), _by_transformers(folder, encoder, num_layers=2), atol=1e-5
    )
    with pytest.raises(ConfigError, match="has 3 layers, 4 were asked for"):
        GlowEncoder.load(str(folder), config=replace(CONFIG, num_layers=4))


@pytest.mark.parametrize("kind", KINDS)
def test_sequences_stay_within_the_positions(tmp_path: Path, kind: str) -> None:
    """RoBERTa's positions start after its padding, so that it reads two subwords fewer."""
    folder = _save(kind, tmp_path / kind)
    encoder = GlowEncoder.load(str(folder), fast=False)
    limit = POSITIONS if kind == "distilbert" else POSITIONS - 2
    assert encoder.config.max_subwords == limit
    assert encoder.encode_documents([{"text": ("owl " * 90,)}]).lengths == (limit,)


@pytest.mark.parametrize("towers", ["shared", "separate"])
@pytest.mark.parametrize("layout", ["joined", "fields"])
@pytest.mark.parametrize("kind", KINDS)
def test_a_saved_encoder_gives_the_same_vectors(
    tmp_path: Path, kind: str, layout: str, towers: str
) -> None:
    config = replace(CONFIG, layout=layout, towers=towers, num_layers=2, fields=("title", "text"))
    encoder = GlowEncoder.load(str(_save(kind, tmp_path / kind)), config=config, fast=False)
    chance = torch.Generator().manual_seed(1)
    with torch.no_grad():
        for parameter in encoder.network.parameters():
            parameter.add_(torch.randn(parameter.shape, generator=chance) * 0.05)
    encoder.save(tmp_path / "saved")
    loaded = GlowEncoder.load(str(tmp_path / "saved"), fast=False)
    assert loaded.config == config
    np.testing.assert_allclose(_vectors(loaded), _vectors(encoder), atol=1e-6)


@pytest.mark.parametrize("kind", KINDS)
def test_field_embeddings_change_nothing_until_they_are_trained(tmp_path: Path, kind: str) -> None:
    folder = str(_save(kind, tmp_path / kind))
    config = replace(CONFIG, layout="fields", fields=("title", "text"))
    encoder = GlowEncoder.load(folder, config=config, fast=False)
    one = GlowEncoder.load(folder, config=replace(config, field_embeddings="one"), fast=False)
    np.testing.assert_allclose(_vectors(encoder), _vectors(one), atol=1e-6)
    table: Any = encoder.network.query_encoder
    weight = table.embeddings.token_type_embeddings.weight
    assert weight.shape[0] == NUM_FIELDS
    with torch.no_grad():
        weight[1, ::2] += 1.0  # not all of it: the norm that follows would undo that
    assert np.abs(_vectors(encoder) - _vectors(one)).max() > 1e-2


@pytest.mark.parametrize("mode", ["row", "column", "add_log", "merge"])
@pytest.mark.parametrize("kind", KINDS)
def test_weights_act_and_weights_of_one_do_not(tmp_path: Path, kind: str, mode: str) -> None:
    folder = str(_save(kind, tmp_path / kind))
    plain = _vectors(GlowEncoder.load(folder, config=CONFIG, fast=False))
    for strength, least, most in ((0.0, 0.0, 1e-5), (1.0, 1e-3, 2.0)):
        config = replace(CONFIG, weighting=mode, strength=strength)
        encoder = GlowEncoder.load(folder, config=config, fast=False)
        if mode == "merge" and strength:
            with torch.no_grad():
                encoder.network.merge.outer.weight += 0.5  # type: ignore[union-attr]
        assert least <= np.abs(_vectors(encoder, _Counts()) - plain).max() <= most


@pytest.mark.parametrize("kind", KINDS)
def test_layers_can_be_trained_from_scratch(tmp_path: Path, kind: str) -> None:
    encoder = GlowEncoder.load(str(_save(kind, tmp_path / kind)), config=CONFIG, fast=False)
    base = encoder.network.query_encoder
    network: Any = build_network(base, GlowRecipe(start="random", num_layers=2, layout="fields"))
    stack = network.query_encoder.transformer if kind == "distilbert" else None
    layers = (stack or network.query_encoder.encoder).layer
    first = next(module for module in layers[0].modules() if isinstance(module, torch.nn.Linear))
    assert len(layers) == 2 and torch.equal(first.bias, torch.zeros_like(first.bias))


def test_what_an_architecture_cannot_do_is_said(tmp_path: Path) -> None:
    mpnet = str(_save("mpnet", tmp_path / "mpnet"))
    with pytest.raises(ConfigError, match=r"cannot be weighted in .* 'mpnet', only in bert, dist"):
        GlowEncoder.load(mpnet, config=replace(CONFIG, weighting="row"))
    with pytest.raises(ConfigError, match="'mpnet' has no table for fields; set layout to joined"):
        GlowEncoder.load(mpnet, config=replace(CONFIG, layout="fields"))
    distilbert = str(_save("distilbert", tmp_path / "distilbert"))
    with pytest.raises(ConfigError, match="'distilbert' has no pooler; set pooling to mean or cls"):
        GlowEncoder.load(distilbert, config=replace(CONFIG, pooling="pooler"))
