"""The network against Hugging Face's own decoder, itself step by step, and what a bias means."""

from __future__ import annotations

import copy
from typing import Any

import pytest
import torch
from tiny_generator import make_batch
from torch import Tensor, nn
from transformers import BertConfig, BertModel

from quoth.errors import ConfigError
from quoth.models.query_generator.generator import QueryGenerator
from quoth.models.query_generator.network import (
    HEAD_SCALE,
    Memory,
    QueryGeneratorNetwork,
    TextBatch,
    spread,
)


@pytest.fixture
def network(generator: QueryGenerator) -> QueryGeneratorNetwork:
    assert isinstance(generator.network, QueryGeneratorNetwork)
    return generator.network


@pytest.fixture
def passages(network: QueryGeneratorNetwork) -> TextBatch:
    return make_batch(3, 9, vocabulary=100)


@pytest.fixture
def targets() -> TextBatch:
    return make_batch(3, 8, vocabulary=100, seed=1)


def random_states(rows: int, length: int, width: int = 32) -> Tensor:
    return torch.randn(rows, length, width, generator=torch.Generator().manual_seed(3))


def as_bert_decoder(network: QueryGeneratorNetwork) -> Any:
    """Copy the decoder into Hugging Face's BERT with cross-attention."""
    encoder: Any = network.encoder
    settings = {**encoder.config.to_dict(), "is_decoder": True, "add_cross_attention": True}
    settings["num_hidden_layers"] = network.num_decoder_layers
    other = BertModel(BertConfig(**settings), add_pooling_layer=False).eval()
    table = other.embeddings
    with torch.no_grad():
        table.word_embeddings.weight.copy_(encoder.embeddings.word_embeddings.weight)
        table.token_type_embeddings.weight.zero_()
        table.position_embeddings.weight[: network.positions.num_embeddings].copy_(
            network.positions.weight
        )
    table.LayerNorm.load_state_dict(network.embedding_norm.state_dict())
    for own, layer in zip(network.layers, other.encoder.layer, strict=True):
        for mine, theirs in (
            (own.attention, layer.attention),
            (own.cross_attention, layer.crossattention),
        ):
            for name in ("query", "key", "value"):
                getattr(theirs.self, name).load_state_dict(getattr(mine, name).state_dict())
            theirs.output.dense.load_state_dict(mine.output.state_dict())
        layer.attention.output.LayerNorm.load_state_dict(own.attention_norm.state_dict())
        layer.crossattention.output.LayerNorm.load_state_dict(own.cross_norm.state_dict())
        layer.intermediate.dense.load_state_dict(own.expand.state_dict())
        layer.output.dense.load_state_dict(own.contract.state_dict())
        layer.output.LayerNorm.load_state_dict(own.output_norm.state_dict())
    return other


def test_the_decoder_equals_the_one_of_transformers(
    network: QueryGeneratorNetwork, passages: TextBatch, targets: TextBatch
) -> None:
    states = random_states(3, 9)
    with torch.inference_mode():
        expected = as_bert_decoder(network)(
            input_ids=targets.subword_ids,
            encoder_hidden_states=states,
            encoder_attention_mask=passages.mask.long(),
        ).last_hidden_state
        found = network._hidden(targets.subword_ids, states, passages.mask, None)
        torch.testing.assert_close(found, expected, atol=1e-5, rtol=1e-5)
        words = network.encoder.get_input_embeddings().weight  # type: ignore[operator]
        logits = network.head_norm(expected) @ words.T + network.head_bias
        decoded = network.decode(targets.subword_ids, states, passages.mask)
    torch.testing.assert_close(decoded, logits, atol=1e-4, rtol=1e-5)


def test_a_fresh_decoder_is_made_of_the_encoder(network: QueryGeneratorNetwork) -> None:
    encoder: Any = copy.deepcopy(network.encoder)
    fresh = QueryGeneratorNetwork(encoder, num_layers=2, max_query_subwords=8, start_id=2)
    for own, layer in zip(fresh.layers, encoder.encoder.layer, strict=True):
        for attention in (own.attention, own.cross_attention):
            assert torch.equal(attention.query.weight, layer.attention.self.query.weight)
            assert torch.equal(attention.output.weight, layer.attention.output.dense.weight)
        assert torch.equal(own.contract.weight, layer.output.dense.weight)
    table = encoder.embeddings
    expected = table.position_embeddings.weight[:8] + table.token_type_embeddings.weight[0]
    assert torch.equal(fresh.positions.weight, expected)
    assert (fresh.head_norm.weight == HEAD_SCALE).all()
    with pytest.raises(ConfigError, match=r"2 layers, a decoder of 3.*lower num_layers"):
        QueryGeneratorNetwork(encoder, num_layers=3, max_query_subwords=8, start_id=2)


def test_log_probs_are_those_of_decode(
    network: QueryGeneratorNetwork, passages: TextBatch, targets: TextBatch
) -> None:
    with torch.inference_mode():
        states = network.encode(passages)
        inputs = torch.cat((torch.full((3, 1), 2), targets.subword_ids[:, :-1]), dim=1)
        whole = network.decode(inputs, states, passages.mask).log_softmax(-1)
        expected = whole.gather(2, targets.subword_ids[:, :, None])[:, :, 0]
        found = network.log_probs(targets, states, passages.mask)
    assert network.prefix == (2,)  # [CLS]
    torch.testing.assert_close(found[targets.mask], expected[targets.mask])
    assert (found[~targets.mask] == 0).all()


def test_what_comes_later_and_what_is_padded_changes_nothing(
    network: QueryGeneratorNetwork, passages: TextBatch, targets: TextBatch
) -> None:
    with torch.inference_mode():
        states = network.encode(passages)
        found = network.log_probs(targets, states, passages.mask)
        longer = TextBatch(*(nn.functional.pad(each, (0, 3)) for each in targets))
        states = nn.functional.pad(states, (0, 0, 0, 2), value=7.0)
        mask = nn.functional.pad(passages.mask, (0, 2))
        padded = network.log_probs(longer, states, mask)
    torch.testing.assert_close(padded[:, :8], found)


def test_steps_equal_the_full_pass(network: QueryGeneratorNetwork, passages: TextBatch) -> None:
    inputs = make_batch(6, 7, vocabulary=100, seed=5).subword_ids
    with torch.inference_mode():
        states = network.encode(passages)
        whole = network.decode(
            inputs, states.repeat_interleave(2, 0), passages.mask.repeat_interleave(2, 0)
        )
        shared = network.decode(inputs, states, passages.mask)
        step = network.begin(states, passages.mask, per_passage=2)
        stepped = torch.stack([step(inputs[:, at]) for at in range(7)], dim=1)
    close = {"atol": 5e-5, "rtol": 1e-5}  # products of other shapes are added in another order
    torch.testing.assert_close(shared, whole, **close)
    torch.testing.assert_close(stepped, whole, **close)


def test_rows_can_go_on_from_others(network: QueryGeneratorNetwork, passages: TextBatch) -> None:
    inputs = make_batch(6, 4, vocabulary=100, seed=5).subword_ids
    parents = torch.tensor([1, 0, 3, 3, 4, 4])
    with torch.inference_mode():
        states = network.encode(passages)
        step = network.begin(states, passages.mask, per_passage=2)
        for at in range(3):
            step(inputs[:, at])
        found = step(inputs[:, 3], parents)
        rows = torch.cat((inputs[parents, :3], inputs[:, 3:]), dim=1)
        expected = network.decode(rows, states, passages.mask)[:, -1]
    torch.testing.assert_close(found, expected, atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("shape", [(1, 1, 1, 1), (2, 1, 1, 12), (2, 3, 4, 12), (1, 3, 1, 12)])
def test_a_zero_bias_is_none(
    network: QueryGeneratorNetwork, targets: TextBatch, shape: tuple[int, ...]
) -> None:
    states, mask = random_states(3, 12), torch.ones(3, 12, dtype=torch.bool)
    mask[1, 9:] = False
    with torch.inference_mode():
        expected = network.log_probs(targets, states, mask)
        found = network.log_probs(targets, states, mask, bias=torch.zeros(shape))
    torch.testing.assert_close(found, expected, atol=1e-5, rtol=1e-5)


def test_a_passage_that_is_biased_away_is_left_out(
    network: QueryGeneratorNetwork, targets: TextBatch
) -> None:
    states, mask = random_states(3, 12), torch.ones(3, 12, dtype=torch.bool)
    bias = torch.zeros(1, 1, 1, 12)
    bias[..., 5:] = float("-inf")
    with torch.inference_mode():
        expected = network.log_probs(targets, states[:, :5], mask[:, :5])
        found = network.log_probs(targets, states, mask, bias=bias)
    torch.testing.assert_close(found, expected, atol=1e-5, rtol=1e-5)


def test_a_bias_of_log_two_reads_a_state_twice(
    network: QueryGeneratorNetwork, targets: TextBatch
) -> None:
    states, mask = random_states(3, 6), torch.ones(3, 6, dtype=torch.bool)
    bias = torch.zeros(1, 1, 1, 6)
    bias[..., :2] = torch.tensor(2.0).log()
    twice = torch.cat((states, states[:, :2]), dim=1)
    with torch.inference_mode():
        expected = network.log_probs(targets, twice, torch.ones(3, 8, dtype=torch.bool))
        found = network.log_probs(targets, states, mask, bias=bias)
    torch.testing.assert_close(found, expected, atol=1e-5, rtol=1e-5)


def test_a_bias_belongs_to_its_layer_and_head(
    network: QueryGeneratorNetwork, targets: TextBatch
) -> None:
    states, mask = random_states(3, 6), torch.ones(3, 6, dtype=torch.bool)
    bias = torch.zeros(2, 3, 4, 6, requires_grad=True)
    network.log_probs(targets, states, mask, bias=bias).sum().backward()
    assert bias.grad is not None and bias.grad.abs().amin((1, 3)).shape == (2, 4)
    assert (bias.grad.abs().sum((1, 3)) > 0).all()
    small, eps = torch.zeros(2, 3, 4, 6), 1e-2
    small[1, 2, 3, 4] = eps
    with torch.no_grad():
        up = network.log_probs(targets, states, mask, bias=small).sum()
        down = network.log_probs(targets, states, mask, bias=-small).sum()
    slope = float((up - down) / (2 * eps))
    assert slope == pytest.approx(float(bias.grad[1, 2, 3, 4]), rel=0.05, abs=1e-3)


def test_a_frozen_encoder_gets_no_gradient_and_no_dropout(
    generator: QueryGenerator, passages: TextBatch, targets: TextBatch
) -> None:
    network: Any = copy.deepcopy(generator.network).train()
    assert not network.encoder.training and network.layers.training
    network.log_probs(targets, network.encode(passages), passages.mask).sum().backward()
    assert all(each.grad is None for each in network.encoder.parameters())
    named = dict(network.named_parameters())
    trained = [each for name, each in named.items() if not name.startswith("encoder.")]
    assert len(trained) > 20 and all(each.grad is not None for each in trained)


def test_a_trained_encoder_gets_gradient_but_its_words_stay(
    network: QueryGeneratorNetwork, passages: TextBatch, targets: TextBatch
) -> None:
    encoder: Any = copy.deepcopy(network.encoder)
    other = QueryGeneratorNetwork(
        encoder, num_layers=1, max_query_subwords=8, start_id=2, train_encoder=True
    ).train()
    assert encoder.training
    other.log_probs(targets, other.encode(passages), passages.mask).sum().backward()
    assert encoder.encoder.layer[0].attention.self.query.weight.grad is not None
    assert encoder.embeddings.word_embeddings.weight.grad is None


def test_label_smoothing_spreads_probability(
    network: QueryGeneratorNetwork, passages: TextBatch, targets: TextBatch
) -> None:
    with torch.inference_mode():
        states = network.encode(passages)
        inputs = torch.cat((torch.full((3, 1), 2), targets.subword_ids[:, :-1]), dim=1)
        whole = network.decode(inputs, states, passages.mask).log_softmax(-1)
        plain = -network.log_probs(targets, states, passages.mask)
        found = network.target_losses(targets, states, passages.mask, label_smoothing=0.1)
    expected = 0.9 * plain + 0.1 * spread(-whole.mean(-1)[targets.mask], targets.mask)
    torch.testing.assert_close(found, expected, atol=1e-4, rtol=1e-4)


def test_too_long_a_query_is_an_error(network: QueryGeneratorNetwork) -> None:
    with pytest.raises(ConfigError, match=r"query of 13 subwords.*knows 12"):
        network.decode(
            torch.ones(1, 13, dtype=torch.int64),
            random_states(1, 4),
            torch.ones(1, 4, dtype=torch.bool),
        )


def test_memory_starts_as_the_last_states() -> None:
    states = [
        random_states(3, 9),
        random_states(3, 8)[:, :1].expand(3, 9, 32),
        torch.ones(3, 9, 32),
    ]
    torch.testing.assert_close(Memory(32)(states), states[-1])


def test_memory_reads_the_embeddings_and_the_middle_layer(
    network: QueryGeneratorNetwork, passages: TextBatch
) -> None:
    encoder: Any = network.encoder
    states = encoder(
        input_ids=passages.subword_ids,
        attention_mask=passages.mask.long(),
        output_hidden_states=True,
    ).hidden_states
    assert network.memory is not None
    with torch.no_grad():
        network.memory.mix.weight.copy_(torch.cat((torch.eye(32), 2 * torch.eye(32)), dim=1))
        network.memory.mix.bias.zero_()
    expected = states[-1] + states[0] + 2 * states[len(states) // 2]
    torch.testing.assert_close(network.encode(passages), expected)


def test_the_mix_learns_though_the_encoder_is_frozen(
    network: QueryGeneratorNetwork, passages: TextBatch, targets: TextBatch
) -> None:
    assert network.memory is not None
    network.target_losses(targets, network.encode(passages), passages.mask).sum().backward()
    assert network.memory.mix.weight.grad is not None
    assert network.memory.mix.weight.grad.abs().sum() > 0
    assert all(each.grad is None for each in network.encoder.parameters())
