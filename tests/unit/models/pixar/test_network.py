"""The network: what slots start as, what they read, and that batches do not matter."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from tiny_encoder import make_tokenizer
from torch import nn
from torch.nn import functional

from quoth.errors import ConfigError
from quoth.models.attention import IMPLEMENTATION
from quoth.models.glow.encoder import load_base
from quoth.models.glow.network import GlowNetwork, TokenBatch
from quoth.models.pixar.config import PixarConfig
from quoth.models.pixar.files import build_network
from quoth.models.pixar.inputs import PixarInputs
from quoth.models.pixar.network import PhraseHead, PixarNetwork, QueryBatch
from quoth.models.pretrained import load_encoder

CONFIG = PixarConfig(num_slots=5, max_query_subwords=16)
TEXTS = ("owl", "the barn owl hunts at night in the field", "raven on the wing at dusk")
MODES = ("decoder", "mask", "input")


def make(base: Path, config: PixarConfig, *, noise: float = 0.0) -> PixarNetwork:
    torch.manual_seed(0)
    network = build_network(load_encoder(base), config, slot_id=mask_id(config))
    with torch.no_grad():
        network.output.weight += noise * torch.randn(network.output.weight.shape)
    return network


def mask_id(config: PixarConfig) -> int:
    return PixarInputs(make_tokenizer(), config).mask_id


def batch_of(*texts: str, config: PixarConfig = CONFIG) -> QueryBatch:
    inputs = PixarInputs(make_tokenizer(), config)
    return inputs.pad(inputs.queries(texts))


@pytest.mark.parametrize("slots", MODES)
@torch.inference_mode()
def test_every_slot_starts_as_the_pooled_vector(base: Path, slots: str) -> None:
    vectors = make(base, replace(CONFIG, slots=slots))(batch_of(*TEXTS))
    assert vectors.slots.shape == (3, 5, 32)
    torch.testing.assert_close(vectors.slots, vectors.pooled[:, None].expand(3, 5, 32))
    torch.testing.assert_close(vectors.pooled.norm(dim=1), torch.full((3,), 10.0))


@pytest.mark.parametrize("slots", MODES)
@torch.inference_mode()
def test_a_query_does_not_see_what_stands_beside_it(base: Path, slots: str) -> None:
    network = make(base, replace(CONFIG, slots=slots), noise=1.0)
    together = network(batch_of(*TEXTS))
    assert not torch.allclose(together.slots[:, 0], together.slots[:, 1], atol=1e-2)
    for at, text in enumerate(TEXTS):
        alone = network(batch_of(text))
        torch.testing.assert_close(alone.pooled[0], together.pooled[at], atol=1e-4, rtol=1e-4)
        torch.testing.assert_close(alone.slots[0], together.slots[at], atol=1e-4, rtol=1e-4)


@pytest.mark.parametrize("pooling", ["mean", "cls"])
@torch.inference_mode()
def test_input_slots_are_the_encoders_own_positions(base: Path, pooling: str) -> None:
    """As in the paper: no scale, nothing added, position t after the first."""
    config = replace(CONFIG, slots="input", pooling=pooling, scale=0.0, residual=False)
    vectors = make(base, config)(batch_of("owl"))
    encoder: Any = load_encoder(base).eval()
    vocabulary = make_tokenizer().get_vocab()
    symbols = ["[CLS]", "owl", "[SEP]", "[MASK]", "[MASK]", "[MASK]"]
    ids = torch.tensor([[vocabulary[each] for each in symbols]])
    states = encoder(input_ids=ids).last_hidden_state
    pooled = states[:, 0] if pooling == "cls" else states[:, :3].mean(1)
    torch.testing.assert_close(vectors.slots, states[:, 1:6], atol=1e-5, rtol=1e-5)
    torch.testing.assert_close(vectors.pooled, pooled, atol=1e-5, rtol=1e-5)


@torch.inference_mode()
def test_mask_slots_are_states_of_masks_after_the_query(base: Path) -> None:
    config = replace(CONFIG, slots="mask", scale=0.0, residual=False)
    vectors = make(base, config)(batch_of(*TEXTS))
    vocabulary = make_tokenizer().get_vocab()
    symbols = ["[CLS]", "owl", "[SEP]", *["[MASK]"] * 5]
    ids = torch.tensor([[vocabulary[each] for each in symbols]])
    encoder: Any = load_encoder(base).eval()
    states = encoder(input_ids=ids).last_hidden_state
    torch.testing.assert_close(vectors.slots[:1], states[:, 3:], atol=1e-5, rtol=1e-5)
    torch.testing.assert_close(vectors.pooled[:1], states[:, :3].mean(1), atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("slots", MODES)
@torch.inference_mode()
def test_words_have_vectors_where_asked_and_padding_has_none(base: Path, slots: str) -> None:
    assert make(base, replace(CONFIG, slots=slots))(batch_of(*TEXTS)).words is None
    network = make(base, replace(CONFIG, slots=slots, word_vectors=True))
    batch = batch_of(*TEXTS)
    words = network(batch).words
    assert words is not None and words.shape == (*batch.mask.shape, 32)
    assert torch.equal(words.abs().sum(2) > 0, batch.mask)
    alone = network(batch_of(TEXTS[0])).words
    assert alone is not None
    torch.testing.assert_close(words[0, : alone.shape[1]], alone[0])


@torch.inference_mode()
def test_the_pooled_vector_is_the_sentence_vector_at_its_length(base: Path) -> None:
    network, batch = make(base, CONFIG), batch_of(*TEXTS)
    expected = 10 * network.sentence_vectors(batch)
    torch.testing.assert_close(network(batch).pooled, expected)


@torch.inference_mode()
def test_another_width_maps_all_vectors(base: Path) -> None:
    network = make(base, replace(CONFIG, head_width=8), noise=0.5)
    vectors = network(batch_of(*TEXTS))
    assert vectors.pooled.shape == (3, 8) and vectors.slots.shape == (3, 5, 8)
    assert network.projection is not None
    product = network.projection.weight @ network.projection.weight.T
    torch.testing.assert_close(product, torch.eye(8), atol=1e-5, rtol=0)


class GlowStates(nn.Module):
    """GLOW's query encoder, seen as PIXAR sees encoders."""

    def __init__(self, glow: GlowNetwork) -> None:
        super().__init__()
        self.glow = glow

    def forward(self, batch: QueryBatch) -> torch.Tensor:
        assert batch.weights is not None
        fields = torch.zeros_like(batch.subword_ids)
        tokens = TokenBatch(batch.subword_ids, batch.mask, batch.weights, fields)
        return self.glow.states(self.glow.query_encoder, tokens).last_hidden_state  # type: ignore[no-any-return]


@pytest.mark.parametrize("slots", MODES)
@torch.inference_mode()
def test_an_encoder_that_weighs_words_can_be_given(base: Path, slots: str) -> None:
    tower = load_base(str(base))
    assert tower.config._attn_implementation == IMPLEMENTATION  # type: ignore[union-attr]
    glow = GlowNetwork(tower, pooling="mean", weighting="row", separate=False)
    config = replace(CONFIG, slots=slots)
    network = PixarNetwork(
        GlowStates(glow), config, width=32, num_heads=4, slot_id=mask_id(config)
    ).eval()
    batch = batch_of(*TEXTS)
    even, uneven = torch.ones(batch.mask.shape), torch.ones(batch.mask.shape)
    uneven[:, 1] = 4.0
    plain = make(base, config)(batch).pooled
    torch.testing.assert_close(
        network(batch._replace(weights=even)).pooled, plain, atol=1e-4, rtol=1e-4
    )
    moved = (network(batch._replace(weights=uneven)).pooled - plain).norm(dim=1)
    assert bool((moved > 1e-2).all())


def test_a_frozen_encoder_gets_no_gradient_and_never_drops(base: Path) -> None:
    network = make(base, replace(CONFIG, train_encoder=False), noise=0.1).train()
    assert isinstance(network.encoder, nn.Module) and not network.encoder.training
    vectors = network(batch_of(*TEXTS))
    (vectors.slots.sum() + vectors.pooled.sum()).backward()
    named = dict(network.named_parameters())
    assert all(p.grad is None for n, p in named.items() if n.startswith("encoder."))
    assert network.decoder is not None and network.decoder.questions.grad is not None


def test_the_heads_vectors_are_of_unit_length_where_asked() -> None:
    rows = torch.tensor([[3.0, 4.0], [0.0, 2.0]])
    unit = PhraseHead(rows, torch.zeros(2), unit=True).vectors()
    assert unit.tolist() == [[pytest.approx(0.6), pytest.approx(0.8)], [0.0, 1.0]]
    plain = PhraseHead(rows, torch.zeros(2), unit=False).vectors()
    torch.testing.assert_close(plain, rows)
    assert functional.normalize(plain).equal(unit)


def test_slots_that_find_no_positions_are_an_error(base: Path) -> None:
    with pytest.raises(ConfigError, match=r"reads 32 subwords at most.*take 40"):
        make(base, replace(CONFIG, slots="mask", num_slots=24))
    with pytest.raises(ConfigError, match="take 41"):
        make(base, replace(CONFIG, slots="input", num_slots=40))


def test_impossible_settings_are_all_reported() -> None:
    with pytest.raises(ConfigError, match=r"slots is 'all'.*num_slots.*scale.*tail is 'x'"):
        PixarConfig(slots="all", tail="x", num_slots=0, scale=-1.0)
