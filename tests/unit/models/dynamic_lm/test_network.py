from __future__ import annotations

from pathlib import Path

import pytest
import torch

from quoth.errors import ConfigError
from quoth.models.dynamic_lm.config import DynamicLMConfig
from quoth.models.dynamic_lm.files import load_language_model
from quoth.models.dynamic_lm.network import DynamicNetwork, first_layers

FAMILIES = ("llama", "gpt2")


def make(base: Path, **settings: object) -> DynamicNetwork:
    config = DynamicLMConfig(**settings)  # type: ignore[arg-type]
    model = load_language_model(base, dtype=torch.float32)
    return DynamicNetwork(model, config, generator=torch.Generator().manual_seed(0))


@pytest.mark.parametrize("family", FAMILIES)
def test_the_encoder_shares_the_frozen_weights_and_nothing_trained(
    bases: dict[str, Path], family: str
) -> None:
    network = make(bases[family])
    model, encoder = network.language_model, network.encoder.backbone
    own = {parameter.data_ptr() for parameter in model.parameters() if not parameter.requires_grad}
    frozen = [each for each in encoder.parameters() if not each.requires_grad]
    assert {each.data_ptr() for each in frozen} <= own
    trained = {id(each) for each in model.parameters() if each.requires_grad}
    assert trained and not trained & {id(each) for each in encoder.parameters()}


@pytest.mark.parametrize("family", FAMILIES)
def test_only_adapters_and_the_projection_are_trained(bases: dict[str, Path], family: str) -> None:
    trained = {name for name, each in make(bases[family]).named_parameters() if each.requires_grad}
    rest = {name for name in trained if name.rpartition(".")[2] not in ("down", "up")}
    linear = [f"encoder.projection.{at}.{kind}" for at in (2, 4) for kind in ("weight", "bias")]
    assert rest == {*linear, "encoder.scale"}
    per_layer = 7 if family == "llama" else 4
    assert len(trained - rest) == 2 * 2 * 2 * per_layer  # down and up, layers, both sides


def test_full_tuning_trains_everything_on_a_copy(bases: dict[str, Path]) -> None:
    network = make(bases["llama"], tuning="full")
    assert all(parameter.requires_grad for parameter in network.parameters())
    own = {parameter.data_ptr() for parameter in network.language_model.parameters()}
    assert not own & {parameter.data_ptr() for parameter in network.encoder.parameters()}


@pytest.mark.parametrize("tuning", ["lora", "full"])
@pytest.mark.parametrize("family", FAMILIES)
def test_a_shallower_encoder_leaves_the_language_model_whole(
    bases: dict[str, Path], family: str, tuning: str
) -> None:
    network = make(bases[family], encoder_layers=1, tuning=tuning)
    name = "h" if family == "gpt2" else "layers"
    assert len(getattr(network.encoder.backbone, name)) == 1
    assert len(getattr(network.language_model.base_model, name)) == 2
    assert network.language_model.config.num_hidden_layers == 2  # type: ignore[union-attr]


def test_an_encoder_cannot_be_deeper_than_its_model(bases: dict[str, Path]) -> None:
    with pytest.raises(ConfigError, match="has 2 layers, encoder_layers is 3"):
        make(bases["llama"], encoder_layers=3)


def test_other_families_are_refused() -> None:
    from transformers import BloomConfig, BloomForCausalLM

    model = BloomForCausalLM(BloomConfig(vocab_size=20, hidden_size=8, n_layer=1, n_head=1))
    with pytest.raises(ConfigError, match="Llama or GPT-2"):
        DynamicNetwork(model, DynamicLMConfig(), generator=torch.Generator())


def test_a_model_whose_layers_are_unknown_cannot_start_an_encoder() -> None:
    with pytest.raises(ConfigError, match="its layers were not found"):
        first_layers(torch.nn.Linear(2, 2), 0, is_shared=True)


def test_moving_keeps_weights_shared(bases: dict[str, Path]) -> None:
    network = make(bases["llama"]).to(torch.float64)
    table = network.language_model.get_input_embeddings().weight  # type: ignore[operator]
    assert table.dtype == torch.float64
    assert table is network.encoder.backbone.get_input_embeddings().weight  # type: ignore[operator]


@pytest.mark.parametrize("vectors", ["separate", "shared"])
@pytest.mark.parametrize("family", FAMILIES)
def test_untrained_phrases_never_beat_the_best_subword(
    bases: dict[str, Path], family: str, vectors: str
) -> None:
    network = make(bases[family], vectors=vectors).eval()
    ids = torch.randint(network.num_subwords, (40, 4), generator=torch.Generator().manual_seed(1))
    mask = torch.ones_like(ids, dtype=torch.bool)
    network.calibrate(ids, mask)
    with torch.no_grad():
        phrases = network.encode_prefixes(ids, mask=mask)[:, 1:].flatten(0, 1)
        states = network.states(network.embed(ids, phrase_vectors=phrases), mask=mask)
        best = network.subword_scores(states).amax(-1, keepdim=True)
        assert (network.phrase_scores(states, phrases) <= best + 1e-4).all()


@pytest.mark.parametrize("family", FAMILIES)
def test_untrained_separate_phrases_are_their_first_and_last_subwords(
    bases: dict[str, Path], family: str
) -> None:
    network = make(bases[family]).eval()
    phrase, text = torch.tensor([[7, 8, 9]]), torch.tensor([[3, 4, 5]])
    mask = torch.ones_like(phrase, dtype=torch.bool)
    with torch.no_grad():
        vectors = network.encode_prefixes(phrase, mask=mask)[:, -1]
        states = network.states(network.embed(text, phrase_vectors=vectors), mask=mask)
        scores = network.subword_scores(states)
        torch.testing.assert_close(network.phrase_scores(states, vectors)[..., 0], scores[..., 7])
        read = network.embed(torch.tensor([[network.num_subwords]]), phrase_vectors=vectors)
        last = network.embed(torch.tensor([[9]]), phrase_vectors=vectors)
    torch.testing.assert_close(read, last)


def test_calibration_shortens_phrases_to_the_output_rows(bases: dict[str, Path]) -> None:
    network = make(bases["llama"], vectors="shared").eval()
    ids = torch.randint(network.num_subwords, (40, 4), generator=torch.Generator().manual_seed(1))
    mask = torch.arange(4) < torch.tensor([2, 3, 4, 4] * 10)[:, None]
    with torch.no_grad():
        network.encoder.projection[4].bias.fill_(9.0)  # type: ignore[operator,union-attr]
        network.calibrate(ids, mask)
        vectors = network.encode_prefixes(ids, mask=mask)[:, 1:][mask[:, 1:]]
    norms = network.norms(vectors)
    table = network.language_model.get_output_embeddings().weight  # type: ignore[operator]
    assert norms.subwords == pytest.approx(float(table.norm(dim=1).mean()))
    assert norms.phrases == pytest.approx(norms.subwords, rel=1e-4)
    assert float(network.encoder.scale.detach()) < 1


def test_gradients_reach_the_encoder_through_both_tables(bases: dict[str, Path]) -> None:
    network = make(bases["llama"]).eval()
    with torch.no_grad():
        network.encoder.projection[4].weight.fill_(0.01)  # type: ignore[operator,union-attr]
    rows, mask = torch.tensor([[5, 6, 7]]), torch.ones(1, 3, dtype=torch.bool)
    last = network.encoder.projection[4].weight
    for through_output in (False, True):
        vectors = network.encode_prefixes(rows, mask=mask)[:, -1]
        tokens = torch.tensor([[1, 2 if through_output else network.num_subwords, 3]])
        states = network.states(network.embed(tokens, phrase_vectors=vectors), mask=mask)
        scores = network.phrase_scores(states, vectors) if through_output else states
        network.zero_grad()
        scores.square().sum().backward()
        assert last.grad is not None and float(last.grad.abs().sum()) > 0  # type: ignore[union-attr]
