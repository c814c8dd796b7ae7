"""The recipe learns: a tiny model quotes eight answers by heart; an interrupted run goes on."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from tests.unit.training.dynamic_worlds import CONFIG, PASSAGES, make_model, make_set
from torch import Tensor

from quoth.errors import ConfigError
from quoth.models.dynamic_lm.dynamic_lm import DynamicLM
from quoth.training.quoting.batches import BatchMaker
from quoth.training.quoting.losses import divergences, mixed_terms, plain_losses
from quoth.training.quoting.negatives_config import NegativesConfig
from quoth.training.quoting.quote_writer import QuoteRecord, QuoteWriter
from quoth.training.quoting.quoting_config import QuotingConfig
from quoth.training.quoting.set import DynamicSet, make_quotations
from quoth.training.recipes.dynamic_lm import (
    DynamicLMReport,
    DynamicModule,
    DynamicProgress,
    plain_loss,
    train_dynamic_lm,
)
from quoth.training.recipes.dynamic_lm_config import DynamicLMRecipe

CPU = torch.device("cpu")
FULL = replace(CONFIG, tuning="full")
RECIPE = DynamicLMRecipe(
    steps=4, batch_size=4, quote_batch_size=4, report_every=2, choice_weight=0.0, seed=1
)
RECORDS = [
    QuoteRecord("When was it named?", ("1769",), PASSAGES[0], PASSAGES[1:2]),
    QuoteRecord("When does the owl hunt?", ("at night",), PASSAGES[0], PASSAGES[1:2]),
    QuoteRecord("Whom does a raven watch?", ("one hen",), PASSAGES[1], PASSAGES[:1]),
    QuoteRecord("Where do ravens sleep?", ("in tall old trees",), PASSAGES[1], PASSAGES[2:3]),
    QuoteRecord("Where do swifts sleep?", ("on the wing",), PASSAGES[2], PASSAGES[3:]),
    QuoteRecord("What do swifts eat?", ("small flies",), PASSAGES[2], PASSAGES[3:]),
    QuoteRecord("What do hens eat?", ("grain",), PASSAGES[3], PASSAGES[:1]),
    QuoteRecord("Where does a hen sleep?", ("on a perch",), PASSAGES[3], PASSAGES[:1]),
]


@pytest.fixture(scope="module")
def start(tmp_path_factory: pytest.TempPathFactory) -> DynamicLM:
    return make_model(tmp_path_factory.mktemp("recipe") / "llama", config=FULL)


@pytest.fixture(scope="module")
def dynamic_set(start: DynamicLM) -> DynamicSet:
    config = QuotingConfig(num_passages=2, unanswerable_share=0, short_share=0, joined_share=0)
    quotations = tuple(QuoteWriter(start.inputs, config).answer(RECORDS))
    assert len(quotations) == 8
    return make_set(start.inputs, quotations=quotations)


def run(
    model: DynamicLM, dynamic_set: DynamicSet, recipe: DynamicLMRecipe, **settings: object
) -> tuple[DynamicLM, DynamicLMReport]:
    return train_dynamic_lm(model, dynamic_set, config=recipe, device=CPU, **settings)  # type: ignore[arg-type]


def state(model: DynamicLM) -> dict[str, torch.Tensor]:
    return dict(model.network.state_dict())


def greedy_tokens(model: DynamicLM, dynamic_set: DynamicSet, row: int) -> tuple[str, int]:
    """Write an answer greedily over subwords and the phrases of the batch; also counts phrases."""
    recipe = DynamicLMRecipe(quote_share=1.0, quote_batch_size=1, candidate_budget=0)
    one = replace(dynamic_set, quotations=make_quotations([dynamic_set.quotations[row]]))
    batch = BatchMaker(one, recipe)[0]
    network = model.network
    with torch.inference_mode():
        vectors = DynamicModule(network, recipe)._encode(batch)
        tokens = dynamic_set.quotations[row].prompt_ids.tolist()
        first = len(tokens)
        while len(tokens) - first < 40 and tokens[-1] != model.inputs.end_id:
            ids = torch.tensor([tokens])
            states = network.states(
                network.embed(ids, phrase_vectors=vectors), mask=torch.ones_like(ids).bool()
            )[0, -1]
            scores = torch.cat(
                (network.subword_scores(states), network.phrase_scores(states, vectors))
            )
            tokens.append(int(scores.argmax()))
    written: list[int] = []
    for token in tokens[first:]:
        phrase = token - network.num_subwords
        written += (
            [token] if phrase < 0 else np.frombuffer(batch.phrases[phrase], np.int32).tolist()
        )
    return model.inputs.text(written), sum(t >= network.num_subwords for t in tokens[first:])


def test_eight_answers_are_learnt_by_heart_and_quoted(
    start: DynamicLM, dynamic_set: DynamicSet
) -> None:
    recipe = replace(
        RECIPE,
        steps=60,
        quote_batch_size=8,
        quote_share=1.0,
        learning_rate=1e-2,
        candidate_budget=0,
        plain_weight=0.0,
        kl_weight=0.0,
    )
    before = {name: tensor.clone() for name, tensor in state(start).items()}
    tuned, report = run(start, dynamic_set, recipe)
    assert all(torch.equal(tensor, before[name]) for name, tensor in state(start).items())
    assert report.curve[-1].phrase_recall > 0.95 and report.curve[-1].phrase_precision > 0.95
    for row in range(8):
        answer = dynamic_set.quotations[row].target_ids.tolist()
        text, phrases = greedy_tokens(tuned, dynamic_set, row)
        assert text == start.inputs.text(answer)
        assert phrases == len(dynamic_set.quotations[row].phrases)


@pytest.mark.parametrize("family", ["llama", "gpt2"])
def test_texts_are_learnt_with_phrases_and_without(family: str, tmp_path: Path) -> None:
    model = make_model(tmp_path / family, config=FULL, family=family)
    dynamic_set = make_set(model.inputs, num_texts=4)
    recipe = replace(RECIPE, steps=30, learning_rate=1e-2, report_every=5)
    tuned, report = run(model, dynamic_set, recipe)
    first, last = report.curve[0], report.curve[-1]
    assert last.mixed < 0.5 * first.mixed and last.plain < 0.5 * first.plain
    before = plain_loss(model.network, dynamic_set.texts)
    assert plain_loss(tuned.network, dynamic_set.texts, batch_size=3) < 0.5 * before


def states_of(module: DynamicModule, ids: Tensor, mask: Tensor, vectors: Tensor) -> Tensor:
    embedded = module.network.embed(ids, phrase_vectors=vectors)
    return module.network.states(embedded, mask=mask).flatten(0, 1)


def test_losses_are_added_with_their_weights(start: DynamicLM, dynamic_set: DynamicSet) -> None:
    """The module's loss is that of the parts, each computed by itself."""
    batch = BatchMaker(dynamic_set, RECIPE)[0]
    network = start.network
    module = DynamicModule(network, RECIPE).eval()
    vectors = module._encode(batch)
    plain = states_of(module, batch.plain_ids, batch.plain_mask, vectors[:0])
    mixed = states_of(module, batch.mixed_ids, batch.mixed_mask, vectors)[batch.mixed_rows]
    is_plain = batch.targets < network.num_subwords
    parts = {
        "mixed": mixed_terms(network, mixed, batch.targets, phrase_vectors=vectors).losses,
        "plain": plain_losses(network, plain[batch.plain_rows], batch.plain_targets),
        "after": divergences(network, mixed[is_plain], plain[batch.after_rows][is_plain]),
        "literal": divergences(network, mixed, plain[batch.literal_rows]),
    }
    mean = {name: float(losses.mean().detach()) for name, losses in parts.items()}
    cases = [
        (RECIPE, mean["mixed"] + mean["plain"] + mean["after"]),
        (replace(RECIPE, kl_weight=0.0, plain_weight=2.0), mean["mixed"] + 2 * mean["plain"]),
        (replace(RECIPE, kl_weight=0.0, plain_weight=0.0), mean["mixed"]),
        (RECIPE.without_phrases(), mean["plain"]),
        (
            replace(RECIPE, plain_weight=0.0, kl_align="literal", kl_skip_phrases=False),
            mean["mixed"] + mean["literal"],
        ),
    ]
    for recipe, expected in cases:
        loss = DynamicModule(network, recipe).eval()(batch)
        assert float(loss.detach()) == pytest.approx(expected, rel=1e-4)


@pytest.mark.parametrize("family", ["llama", "gpt2"])
def test_a_prompt_is_read_once_for_both_runs(family: str, tmp_path: Path) -> None:
    """States are those of plain and mixed sequences run by themselves."""
    model = make_model(tmp_path / family, config=FULL, family=family)
    quotations = tuple(QuoteWriter(model.inputs, QuotingConfig()).answer(RECORDS))
    batch = BatchMaker(
        make_set(model.inputs, quotations=quotations), replace(RECIPE, quote_share=1.0)
    )[0]
    module = DynamicModule(model.network, RECIPE).eval()
    vectors = module._encode(batch)
    plain, mixed = module._run(batch, vectors)
    assert plain is not None and mixed is not None
    alone = states_of(module, batch.plain_ids, batch.plain_mask, vectors[:0])
    exists = batch.plain_mask.flatten()
    assert torch.allclose(plain[exists], alone[exists], atol=1e-4)
    alone = states_of(module, batch.mixed_ids, batch.mixed_mask, vectors)[batch.mixed_rows]
    assert torch.allclose(mixed, alone, atol=1e-4)


def test_the_sentence_that_answers_is_told_from_its_rivals(
    start: DynamicLM, dynamic_set: DynamicSet
) -> None:
    """The loss is −log of the share of the phrases that begin in the right sentence."""
    recipe = replace(RECIPE, quote_share=1.0, plain_weight=0.0, kl_weight=0.0)
    batch = BatchMaker(dynamic_set, recipe)[0]
    module = DynamicModule(start.network, recipe).eval()
    vectors = module._encode(batch)
    mixed = states_of(module, batch.mixed_ids, batch.mixed_mask, vectors)[batch.mixed_rows]
    assert len(batch.sentence_places) == 4
    expected = []
    for row, place in enumerate(batch.sentence_places.tolist()):
        assert int(batch.targets[place]) >= start.network.num_subwords
        own = batch.sentence_columns[batch.sentence_columns[:, 0] == row]
        shares = start.network.phrase_scores(mixed[place], vectors)[own[:, 2]].exp()
        expected.append(-(shares[own[:, 1] == 0].sum() / shares.sum()).log())
    with_loss, without = (
        float(DynamicModule(start.network, each).eval()(batch).detach())
        for each in (recipe, replace(recipe, sentence_weight=0.0))
    )
    mean = float(torch.stack(expected).mean().detach())
    assert mean > 0.0 and with_loss - without == pytest.approx(mean, rel=1e-4)


def test_unfolded_phrases_are_read_as_subwords(start: DynamicLM, dynamic_set: DynamicSet) -> None:
    batch = BatchMaker(dynamic_set, RECIPE)[0]
    recipe = replace(RECIPE, plain_weight=0.0, kl_weight=0.0)
    module = DynamicModule(start.network, recipe, unfolds=True).eval()
    vectors = module._encode(batch)
    plain = states_of(module, batch.plain_ids, batch.plain_mask, vectors[:0])[batch.after_rows]
    expected = mixed_terms(start.network, plain, batch.targets, phrase_vectors=vectors).losses
    assert float(module(batch).detach()) == pytest.approx(float(expected.mean().detach()), rel=1e-5)


def test_detaching_the_plain_run_changes_what_kl_moves(
    start: DynamicLM, dynamic_set: DynamicSet
) -> None:
    batch = BatchMaker(dynamic_set, RECIPE)[0]
    gradients = []
    for detach in (True, False):
        recipe = replace(RECIPE, plain_weight=0.0, kl_weight=1.0, kl_detach=detach)
        module = DynamicModule(start.network, recipe).eval()
        module.zero_grad()
        module(batch).backward()
        weight = next(each for each in module.parameters() if each.grad is not None)
        assert weight.grad is not None
        gradients.append(weight.grad.clone())
        module.zero_grad()
    assert not torch.allclose(gradients[0], gradients[1])


def test_columns_of_the_batch_before_are_negatives(
    start: DynamicLM, dynamic_set: DynamicSet
) -> None:
    recipe = replace(
        RECIPE,
        plain_weight=0.0,
        kl_weight=0.0,
        negatives=NegativesConfig(pre_batch=9, self_retrieval=False, generation=False),
    )
    maker = BatchMaker(dynamic_set, recipe)
    first, second = maker[0], maker[1]
    module = DynamicModule(start.network, recipe).train()
    alone = float(module(second).detach())
    module = DynamicModule(start.network, recipe).train()
    module(first)
    kept = set(first.phrases[:9]) - set(second.phrases)
    vectors = module._encode(second)
    joined = module.eval()._with_columns_before(second, vectors)
    assert len(joined) - len(vectors) == len(kept) > 0
    assert float(module(second).detach()) > alone


def test_a_run_ends_where_a_reason_is_given_and_keeps_what_it_learnt(tmp_path: Path) -> None:
    model = make_model(tmp_path / "base", config=CONFIG)
    trained, report = run(
        model,
        make_set(model.inputs),
        RECIPE,
        before_step=lambda step: "out of time" if step > 2 else "",
    )
    assert (report.training.steps, report.training.stopped_because) == (2, "out of time")
    assert any(not torch.equal(own, state(model)[name]) for name, own in state(trained).items())


@pytest.mark.parametrize("tuning", ["lora", "full"])
def test_an_interrupted_run_goes_on_as_if_it_had_not_been(tuning: str, tmp_path: Path) -> None:
    config = replace(CONFIG, tuning=tuning, lora_dropout=0.1, encoder_dropout=0.1)
    model = make_model(tmp_path / "base", config=config)
    dynamic_set = make_set(
        model.inputs,
        quotations=tuple(QuoteWriter(model.inputs, QuotingConfig(num_passages=2)).answer(RECORDS)),
    )
    recipe = replace(
        RECIPE,
        steps=6,
        quote_share=0.5,
        quote_batch_size=2,
        accumulate=2,
        negatives=NegativesConfig(pre_batch=64),
    )
    whole, _ = run(model, dynamic_set, recipe)
    run(model, dynamic_set, recipe, checkpoint=tmp_path / "steps", until=3)
    resumed, report = run(model, dynamic_set, recipe, checkpoint=tmp_path / "steps")
    assert report.training.steps == 6
    changed = [
        name for name, tensor in state(whole).items() if not torch.equal(tensor, state(model)[name])
    ]
    assert changed
    for name, tensor in state(whole).items():
        assert torch.equal(tensor, state(resumed)[name]), name
    if tuning == "lora":
        assert not any("embed_tokens" in name for name in changed)


def test_the_plain_baseline_learns_without_phrases(
    start: DynamicLM, dynamic_set: DynamicSet
) -> None:
    told: list[DynamicProgress] = []
    recipe = RECIPE.without_phrases()
    _, report = run(start, dynamic_set, recipe, progress=told.append)
    assert [each.step for each in told] == [2, 4] and tuple(told) == report.curve
    assert all(each.mixed == each.columns == each.phrase_share == 0 for each in told)
    assert all(each.plain > 0 for each in told)


def test_all_problems_are_told_at_once() -> None:
    with pytest.raises(ConfigError, match=r"quote_share is 2.*kl_weight.*kl_align literal"):
        DynamicLMRecipe(mixed_weight=0.0, kl_align="literal", quote_share=2)
    with pytest.raises(ConfigError, match=r"kl_align is 'x'.*batch_size is 0.*one of them above 0"):
        DynamicLMRecipe(
            mixed_weight=0.0,
            plain_weight=0.0,
            kl_weight=0.0,
            choice_weight=0.0,
            sentence_weight=0.0,
            kl_align="x",  # type: ignore[arg-type]
            batch_size=0,
        )
