"""ACROBArT: the retriever learns through the bias of attention alone, and it does learn."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch
from tests.unit.training.passage_worlds import CopyGenerator, World, make_network, make_writer
from tiny_generator import make_foreign

from quoth.errors import ConfigError
from quoth.models.glow.network import TokenBatch
from quoth.models.query_generator.foreign import ForeignNetwork
from quoth.training.recipes.acrobart import (
    AcrobartModule,
    AcrobartRecipe,
    passage_signal,
    train_acrobart,
)
from quoth.training.retriever.learning import LearningRun
from quoth.training.retriever.monitors import NO_BOUNDS, Bounds
from quoth.training.retriever.refresh import PassageIndex, encode_passages
from quoth.training.retriever.retriever import LayerRetriever, Retriever
from quoth.training.retriever.validation import held_out_mrr

RUN = LearningRun(torch.device("cpu"), bounds=NO_BOUNDS)
RECIPE = AcrobartRecipe(k=3, contrastive=0.0)
ROWS = np.array([1, 8, 9])


@pytest.fixture(scope="module")
def world() -> World:
    return World()


def make_module(world: World, recipe: AcrobartRecipe) -> AcrobartModule:
    retriever = Retriever(make_network().eval(), similarity="cosine")
    index = PassageIndex(30, 32)
    index.vectors.copy_(encode_passages(retriever, world.passage_set))
    return AcrobartModule(
        retriever, make_writer().eval(), world.passage_set, recipe, index=index
    ).eval()


def retriever_gradient(module: AcrobartModule) -> float:
    module(ROWS, generator=torch.Generator()).backward()
    found = [p.grad.abs().max() for p in module.retriever.parameters() if p.grad is not None]
    return float(torch.stack(found).max()) if found else 0.0


@pytest.mark.parametrize("bias", ["prob", "score", "logprob"])
@pytest.mark.parametrize("beta", ["global", "per_layer", "per_head"])
def test_the_gradient_reaches_the_retriever_through_the_bias(
    world: World, bias: str, beta: str
) -> None:
    module = make_module(world, replace(RECIPE, bias=bias, beta=beta))
    assert retriever_gradient(module) > 0
    assert module.beta.shape == {"global": (1, 1), "per_layer": (2, 1), "per_head": (2, 4)}[beta]
    assert module.beta.grad is not None and bool((module.beta.grad != 0).all())


@pytest.mark.parametrize("bias", ["prob", "score", "logprob"])
def test_there_is_no_other_way_to_the_retriever(world: World, bias: str) -> None:
    module = make_module(world, replace(RECIPE, bias=bias, beta_start=0.0))
    assert retriever_gradient(module) == 0.0
    assert module.beta.grad is not None and bool(module.beta.grad.any())  # it can leave zero


def test_the_gradient_is_that_of_differences(world: World) -> None:
    """Move one weight of the retriever a little, and see the loss move as the gradient says."""
    module = make_module(world, replace(RECIPE, bias="logprob"))
    module.query_generator = CopyGenerator()  # type: ignore[assignment]
    module = module.double()
    weight = module.retriever.network.query_encoder.encoder.layer[1].output.dense.weight  # type: ignore[union-attr,index]

    def loss() -> torch.Tensor:
        return module(ROWS, generator=torch.Generator())

    loss().backward()
    assert weight.grad is not None
    place = int(weight.grad.abs().argmax())
    with torch.no_grad():
        step = 1e-5
        weight.view(-1)[place] += step
        above = loss()
        weight.view(-1)[place] -= 2 * step
        below = loss()
    slope = float(above - below) / (2 * step)
    assert slope == pytest.approx(float(weight.grad.view(-1)[place]), rel=1e-4)


def test_log_probabilities_weigh_attention_by_the_prior() -> None:
    """softmax(a + log p) = p · e^a / Σ: attention to a passage is multiplied by its prior."""
    scores, logits = torch.tensor([[1.0, 0.3]]), torch.tensor([[0.2, 0.9]])
    biased = (logits + passage_signal(scores, scale=2.0, kind="logprob")).softmax(-1)
    weighed = (2.0 * scores).softmax(-1) * logits.exp()
    torch.testing.assert_close(biased, weighed / weighed.sum())


def test_it_learns_from_partly_wrong_labels(world: World) -> None:
    judge = held_out_mrr(world.passage_set, targets=world.truth)
    recipe = AcrobartRecipe(
        steps=60,
        batch_size=16,
        k=6,
        learning_rate=1e-3,
        refresh_every=10,
        dropout=0.0,
        contrastive=0.0,
    )
    before = judge(Retriever(make_network().eval(), similarity="cosine"))
    learned = train_acrobart(make_network(), CopyGenerator(), world.passage_set, recipe, RUN)  # type: ignore[arg-type]
    assert judge(learned.retriever) > before + 0.2


def test_a_single_model_retrieves_with_a_layer_of_its_encoder(world: World) -> None:
    recipe = replace(RECIPE, layer=1, steps=3, batch_size=8, learning_rate=1e-3, pooling="cls")
    writer = make_writer(train_encoder=True)
    learned = train_acrobart(None, writer, world.passage_set, recipe, RUN)
    assert learned.query_generator is not None
    assert learned.retriever.encoder is learned.query_generator.encoder  # type: ignore[union-attr]
    batch = world.passage_set.query_batch(ROWS)
    output = learned.query_generator.encoder(
        input_ids=batch.subword_ids, attention_mask=batch.mask, output_hidden_states=True
    )
    expected = torch.nn.functional.normalize(output.hidden_states[1][:, 0], dim=-1)
    torch.testing.assert_close(learned.retriever.encode_queries(batch), expected)
    before = writer.encoder.encoder.layer[0].output.dense.weight  # type: ignore[union-attr,index]
    after = learned.query_generator.encoder.encoder.layer[0].output.dense.weight  # type: ignore[union-attr,index]
    assert not torch.equal(before, after)
    with pytest.raises(ConfigError, match="no dual encoder"):
        _ = learned.network


@pytest.mark.parametrize("kind", ["bart", "t5"])
def test_a_layer_of_anothers_encoder_retrieves_as_well(kind: str) -> None:
    network = ForeignNetwork(make_foreign(kind))
    retriever = LayerRetriever(network, layer=2, pooling="mean", similarity="cosine")
    ids = torch.tensor([[5, 6, 7], [8, 9, 1]])
    mask = torch.tensor([[True, True, True], [True, True, False]])
    batch = TokenBatch(ids, mask, mask.float(), torch.zeros_like(ids))
    states = network.encoder(ids, mask.long(), output_hidden_states=True).hidden_states[2]
    expected = torch.nn.functional.normalize(states[0].mean(0), dim=-1)
    torch.testing.assert_close(retriever.encode_passages(batch)[0], expected)
    with pytest.raises(ConfigError, match="a layer from 1 to 2"):
        LayerRetriever(network, layer=3, pooling="mean", similarity="cosine")


def test_a_single_model_that_collapses_is_stopped(world: World) -> None:
    writer = make_writer(train_encoder=True)
    with torch.no_grad():
        writer.encoder.embeddings.LayerNorm.weight.zero_()  # type: ignore[union-attr]
        writer.encoder.embeddings.LayerNorm.bias.zero_()  # type: ignore[union-attr]
    recipe = replace(RECIPE, layer=2, steps=20, batch_size=16, learning_rate=1e-9)
    run = replace(RUN, bounds=Bounds(window=32))
    learned = train_acrobart(None, writer, world.passage_set, recipe, run)
    assert "collapse" in learned.report.stopped_because
    assert learned.report.training.steps == 2


def test_impossible_recipes_are_errors(world: World) -> None:
    with pytest.raises(ConfigError, match=r"acrobart recipe: bias is 'log'.*beta is 'none'"):
        AcrobartRecipe(bias="log", beta="none")
    with pytest.raises(ConfigError, match="train_encoder"):
        train_acrobart(None, make_writer(), world.passage_set, replace(RECIPE, layer=1), RUN)
