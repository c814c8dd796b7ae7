"""A dynamic language model against the plain one, with tables that really are extended."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor, nn
from transformers import (
    DynamicCache,
    GPT2Config,
    GPT2LMHeadModel,
    LlamaConfig,
    LlamaForCausalLM,
)

from quoth.models.dynamic_lm.config import DynamicLMConfig
from quoth.models.dynamic_lm.network import DynamicNetwork

pytestmark = pytest.mark.usefixtures("one_thread")

V, D = 50, 32
FAMILIES = ("llama", "llama-untied", "gpt2")


def make_base(family: str, *, size: int = V) -> nn.Module:
    with torch.random.fork_rng():
        torch.manual_seed(11)
        if family == "gpt2":
            config = GPT2Config(
                vocab_size=size, n_embd=D, n_layer=3, n_head=4, n_positions=64,
                initializer_range=0.3,
            )  # fmt: skip
            return GPT2LMHeadModel(config).eval()
        return LlamaForCausalLM(
            LlamaConfig(
                vocab_size=size,
                hidden_size=D,
                intermediate_size=48,
                num_hidden_layers=3,
                num_attention_heads=4,
                num_key_value_heads=2,
                max_position_embeddings=64,
                tie_word_embeddings=family == "llama",
                initializer_range=0.3,
            )
        ).eval()


def make_network(family: str, **settings: object) -> DynamicNetwork:
    """Make one that differs from its base as a trained one would."""
    config = DynamicLMConfig(**settings)  # type: ignore[arg-type]
    network = DynamicNetwork(
        make_base(family), config, generator=torch.Generator().manual_seed(1)
    ).eval()
    chance = torch.Generator().manual_seed(2)
    with torch.no_grad():
        for parameter in network.parameters():
            if parameter.requires_grad:
                parameter += 0.1 * torch.randn(parameter.shape, generator=chance)
    return network.requires_grad_(False)


def draw(*shape: int, seed: int = 4) -> Tensor:
    return torch.randint(V, shape, generator=torch.Generator().manual_seed(seed))


def draw_tokens(*shape: int) -> Tensor:
    """Draw subwords, with a phrase of row 0 to 3 at every third place."""
    tokens = draw(*shape)
    tokens[:, 1::3] = V + tokens[:, 1::3] % 4
    return tokens


def close(found: Tensor, expected: Tensor) -> None:
    """Check equality up to the rounding of sums, which differs between processors."""
    torch.testing.assert_close(found, expected, atol=5e-5, rtol=1e-4)


@pytest.mark.parametrize("tuning", ["lora", "full"])
@pytest.mark.parametrize("family", FAMILIES)
def test_a_fresh_one_without_phrases_is_the_base(family: str, tuning: str) -> None:
    ids = draw(2, 9)
    with torch.no_grad():
        expected = make_base(family)(input_ids=ids).logits
        network = DynamicNetwork(
            make_base(family), DynamicLMConfig(tuning=tuning), generator=torch.Generator()
        ).eval()
        embedded = network.embed(ids, phrase_vectors=torch.empty(0, D))
        states = network.states(embedded, mask=torch.ones_like(ids, dtype=torch.bool))
        close(network.subword_scores(states), expected)


@pytest.mark.parametrize("kind", ["separate", "shared"])
@pytest.mark.parametrize("family", FAMILIES)
def test_phrases_score_and_feed_as_rows_of_extended_tables(family: str, kind: str) -> None:
    network, ids = make_network(family, vectors=kind), draw_tokens(2, 9)
    phrases = draw(4, 3, seed=9)
    vectors = network.encode_prefixes(phrases, mask=torch.ones(4, 3, dtype=torch.bool))[:, -1]
    states = network.states(
        network.embed(ids, phrase_vectors=vectors), mask=torch.ones(2, 9, dtype=torch.bool)
    )
    found = torch.cat(
        (network.subword_scores(states), network.phrase_scores(states, vectors)), dim=-1
    )
    larger: Any = make_base(family)
    _add_by_hand(larger.base_model, network.language_model.base_model)  # type: ignore[arg-type]
    tables = (larger.get_input_embeddings(), larger.get_output_embeddings())
    halves = (vectors[:, -D:], vectors[:, :D])
    rows = [
        torch.cat((table.weight.detach(), own)) for table, own in zip(tables, halves, strict=True)
    ]
    larger.set_input_embeddings(nn.Embedding.from_pretrained(rows[0]))
    larger.get_output_embeddings().weight = nn.Parameter(rows[1])
    with torch.no_grad():
        close(found, larger(input_ids=ids).logits)


@pytest.mark.parametrize("layers", [0, 1])
@pytest.mark.parametrize("family", FAMILIES)
def test_prefixes_of_one_pass_are_those_encoded_by_themselves(family: str, layers: int) -> None:
    network = make_network(family, encoder_layers=layers)
    rows, lengths = draw(5, 7), [7, 2, 5, 1, 4]
    mask = torch.arange(7) < torch.tensor(lengths)[:, None]
    found = network.encode_prefixes(rows, mask=mask)
    for row, length in enumerate(lengths):
        for size in range(1, length + 1):
            alone = network.encode_prefixes(
                rows[row : row + 1, :size], mask=torch.ones(1, size, dtype=torch.bool)
            )
            close(found[row, size - 1], alone[0, -1])


@pytest.mark.parametrize("kind", ["separate", "shared"])
@pytest.mark.parametrize("family", FAMILIES)
def test_the_encoder_is_the_first_layers_with_adapters_of_its_own(family: str, kind: str) -> None:
    network = make_network(family, encoder_layers=2, vectors=kind)
    rows = draw(3, 4)
    mask = torch.ones(3, 4, dtype=torch.bool)
    base = make_base(family)
    backbone = base.base_model
    name = "h" if family == "gpt2" else "layers"
    setattr(backbone, name, getattr(backbone, name)[:2])
    backbone.config.num_hidden_layers = 2  # type: ignore[union-attr]
    _add_by_hand(backbone, network.encoder.backbone)  # type: ignore[arg-type]
    with torch.no_grad():
        states = backbone(input_ids=rows).last_hidden_state  # type: ignore[operator]
        embedded = base.get_input_embeddings()(rows)  # type: ignore[operator]
        moved = network.encoder.projection(states) * (3 / D)
        if kind == "shared":
            means = torch.stack([embedded[:, : t + 1].mean(1) for t in range(4)], dim=1)
            expected = network.encoder.scale * (means + moved)
        else:
            first = base.get_output_embeddings().weight[rows[:, 0]]  # type: ignore[operator]
            written = network.encoder.scale[0] * (first[:, None] + moved[..., :D])
            read = network.encoder.scale[1] * (embedded + moved[..., D:])
            expected = torch.cat((written, read), dim=-1)
    close(network.encode_prefixes(rows, mask=mask), expected)


@pytest.mark.parametrize("side", ["left", "right"])
@pytest.mark.parametrize("family", FAMILIES)
def test_a_padded_batch_gives_what_each_gives_alone(family: str, side: str) -> None:
    network, lengths = make_network(family), (8, 3, 5)
    vectors = torch.randn(4, D, generator=torch.Generator().manual_seed(3))
    ids = draw_tokens(3, 8)
    mask = torch.arange(8) < torch.tensor(lengths)[:, None]
    mask = mask.flip(1) if side == "left" else mask
    found = network.states(network.embed(ids, phrase_vectors=vectors), mask=mask)
    assert found.isfinite().all()
    for row, length in enumerate(lengths):
        alone = network.states(
            network.embed(ids[row][mask[row]][None], phrase_vectors=vectors),
            mask=torch.ones(1, length, dtype=torch.bool),
        )
        close(found[row][mask[row]], alone[0])


@pytest.mark.parametrize("steps", [(5, 1, 1, 1), (1, 3, 4)])
@pytest.mark.parametrize("family", FAMILIES)
def test_a_cache_changes_nothing(family: str, steps: tuple[int, ...]) -> None:
    network = make_network(family)
    vectors = torch.randn(4, D, generator=torch.Generator().manual_seed(3))
    ids, mask = draw_tokens(2, 8), torch.ones(2, 8, dtype=torch.bool)
    mask[1, :2] = False  # padding on the left
    embedded = network.embed(ids, phrase_vectors=vectors)
    whole = network.states(embedded, mask=mask)
    cache, at, parts = DynamicCache(), 0, []
    for step in steps:
        parts.append(
            network.states(embedded[:, at : at + step], mask=mask[:, : at + step], cache=cache)
        )
        at += step
    close(torch.cat(parts, dim=1)[mask], whole[mask])


@pytest.mark.parametrize("family", FAMILIES)
def test_merged_adapters_do_the_same(family: str) -> None:
    network, ids = make_network(family, encoder_layers=2), draw(2, 6)
    mask = torch.ones_like(ids, dtype=torch.bool)

    def both() -> tuple[Tensor, Tensor]:
        embedded = network.embed(ids, phrase_vectors=torch.empty(0, D))
        states = network.states(embedded, mask=mask)
        return network.subword_scores(states), network.encode_prefixes(ids, mask=mask)

    before = both()
    network.merge()
    for found, expected in zip(both(), before, strict=True):
        close(found, expected)


def _add_by_hand(plain: nn.Module, adapted: nn.Module) -> None:
    """Add (alpha / rank) · up · down to the weights of a plain model."""
    for name, layer in adapted.named_modules():
        if type(layer).__name__ == "AdaptedLinear":
            target = plain.get_submodule(name)
            change = (32.0 / 8) * (layer.up @ layer.down)  # type: ignore[operator]
            with torch.no_grad():
                is_conv = type(target).__name__ == "Conv1D"
                target.weight += change.T if is_conv else change  # type: ignore[operator]
