"""Another's model behind our interface: the same numbers as it gives by itself."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from tiny_encoder import WORDS
from tiny_generator import PASSAGES, make_batch, make_foreign, save_foreign
from transformers import BertConfig, BertForMaskedLM

from quoth.errors import ConfigError
from quoth.models.query_generator.foreign import ForeignNetwork
from quoth.models.query_generator.generator import QueryGenerator
from quoth.models.query_generator.network import TextBatch

SIZE = len(WORDS) + 4


@pytest.fixture(scope="module", params=["bart", "t5"])
def network(request: pytest.FixtureRequest) -> ForeignNetwork:
    return ForeignNetwork(make_foreign(request.param)).eval()


@pytest.fixture
def passages() -> TextBatch:
    return make_batch(3, 9, vocabulary=SIZE)


@pytest.fixture
def targets() -> TextBatch:
    return make_batch(3, 7, vocabulary=SIZE, seed=1)


def test_log_probs_are_the_models_own_loss(
    network: ForeignNetwork, passages: TextBatch, targets: TextBatch
) -> None:
    labels = targets.subword_ids.masked_fill(~targets.mask, -100)
    inputs = None
    if len(network.prefix) == 2:  # what BART writes first is given here, and not judged
        labels = torch.cat((torch.full((3, 1), -100), labels), dim=1)
        start = torch.tensor([network.prefix]).expand(3, -1)
        inputs = torch.cat((start, targets.subword_ids[:, :-1]), dim=1)
    with torch.inference_mode():
        expected = network.model(
            input_ids=passages.subword_ids,
            attention_mask=passages.mask.long(),
            decoder_input_ids=inputs,
            labels=labels,
        ).loss
        states = network.encode(passages)
        found = network.log_probs(targets, states, passages.mask)
    assert float(-found.sum() / targets.mask.sum()) == pytest.approx(float(expected), abs=1e-5)
    assert (found[~targets.mask] == 0).all()


def test_a_bias_weighs_states_in_each_layer_and_head(
    network: ForeignNetwork, passages: TextBatch, targets: TextBatch
) -> None:
    with torch.inference_mode():
        states, mask = network.encode(passages), passages.mask
        plain = network.log_probs(targets, states, mask)
        zero = network.log_probs(targets, states, mask, bias=torch.zeros(2, 3, 4, 9))
        torch.testing.assert_close(zero, plain, atol=1e-5, rtol=1e-5)
        away = torch.zeros(1, 1, 1, 9)
        away[..., 4:] = float("-inf")
        without = network.log_probs(targets, states, mask, bias=away)
        expected = network.log_probs(targets, states[:, :4], mask[:, :4])
        torch.testing.assert_close(without, expected, atol=1e-5, rtol=1e-5)
        after = network.log_probs(targets, states, mask)
    torch.testing.assert_close(after, plain)  # nothing stays behind
    bias = torch.zeros(2, 3, 4, 9, requires_grad=True)
    network.log_probs(targets, states.clone(), mask, bias=bias).sum().backward()
    assert bias.grad is not None and (bias.grad.abs().sum((1, 3)) > 0).all()


def test_steps_equal_the_full_pass(network: ForeignNetwork, passages: TextBatch) -> None:
    inputs = make_batch(6, 6, vocabulary=SIZE, seed=5).subword_ids
    parents = torch.tensor([1, 0, 3, 3, 4, 4])
    with torch.inference_mode():
        states = network.encode(passages)
        whole = network.decode(inputs, states, passages.mask)
        step = network.begin(states, passages.mask, per_passage=2)
        stepped = torch.stack([step(inputs[:, at]) for at in range(5)], dim=1)
        last = step(inputs[:, 5], parents)
        moved = torch.cat((inputs[parents, :5], inputs[:, 5:]), dim=1)
        expected = network.decode(moved, states, passages.mask)[:, -1]
    torch.testing.assert_close(stepped, whole[:, :5], atol=1e-4, rtol=1e-4)
    torch.testing.assert_close(last, expected, atol=1e-4, rtol=1e-4)


@pytest.mark.parametrize("kind", ["bart", "t5"])
def test_a_folder_is_loaded_used_and_saved(kind: str, tmp_path: Path) -> None:
    folder = save_foreign(tmp_path / kind, kind)
    generator = QueryGenerator.load(str(folder))
    assert isinstance(generator.network, ForeignNetwork)
    greedy = generator.generate(PASSAGES, method="greedy")
    assert all(own[0] and "<" not in own[0] for own in greedy)
    assert all(
        len(own) == 3 for own in generator.generate(PASSAGES, per_passage=3, temperature=5.0)
    )
    scores = generator.score([own[0] for own in greedy], PASSAGES)
    generator.save(tmp_path / "copy")
    again = QueryGenerator.load(str(tmp_path / "copy"))
    assert again.generate(PASSAGES, method="greedy") == greedy
    assert again.score([own[0] for own in greedy], PASSAGES).tolist() == scores.tolist()
    with pytest.raises(ConfigError, match="is not empty; name a new folder"):
        generator.save(tmp_path / "copy")


def test_other_kinds_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="there is no query generator '/nowhere'"):
        QueryGenerator.load("/nowhere")
    (tmp_path / "empty").mkdir()
    with pytest.raises(ConfigError, match="neither one that Quoth wrote nor a BART or T5"):
        QueryGenerator.load(str(tmp_path / "empty"))
    small = {"hidden_size": 8, "num_hidden_layers": 1, "num_attention_heads": 1}
    model = BertForMaskedLM(BertConfig(vocab_size=9, intermediate_size=8, **small))
    model.save_pretrained(str(tmp_path / "bert"))
    with pytest.raises(ConfigError, match="is no query generator"):
        QueryGenerator.load(str(tmp_path / "bert"))
