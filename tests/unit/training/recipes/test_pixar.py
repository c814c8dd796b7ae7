"""The recipe of PIXAR: its terms are the paper's, eight queries are learnt, runs resume exactly."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from tests.unit.training.test_identifier_pairs import WORDS, segment
from tiny_encoder import make_tokenizer, save_tiny_encoder
from torch import nn
from torch.nn import functional
from transformers.utils import logging

from quoth.errors import ConfigError
from quoth.models.pixar.config import PixarConfig
from quoth.models.pixar.inputs import PixarInputs
from quoth.models.pixar.network import PhraseHead, PixarVectors
from quoth.models.pixar.pixar import Pixar
from quoth.training.identifiers.losses import add_tail, pixar_losses
from quoth.training.identifiers.pairs import (
    NONE,
    IdentifierPairConfig,
    IdentifierPairs,
    TargetBatch,
    make_identifier_pairs,
    phrase_counts,
)
from quoth.training.loop import Progress
from quoth.training.recipes.pixar import (
    PixarPairs,
    as_pixar,
    held_out_losses,
    loop_config,
    train_pixar,
)
from quoth.training.recipes.pixar_config import PixarRecipe

logging.disable_progress_bar()  # type: ignore[no-untyped-call]
CPU = torch.device("cpu")
CONFIG = PixarConfig(num_slots=4, slot_layers=1, max_query_subwords=16)
ANSWERS = {  # what is asked, and the other identifier of the passage
    "owl": "barn night",
    "raven": "hen dusk mouse",
    "hen": "wing",
    "dusk wing": "mouse wing",
}
RECIPE = PixarRecipe(
    steps=100,
    batch_size=8,
    targets_per_input=2,
    learning_rate=1e-2,
    encoder_learning_rate=2e-3,
    head_learning_rate=2e-2,
    scale_learning_rate=1e-2,
    dropout=0.0,
    chunk=3,
)


@pytest.fixture(scope="module")
def pairs() -> IdentifierPairs:
    return make_pairs(held_out_share=0.0)


def make_pairs(*, held_out_share: float) -> IdentifierPairs:
    inputs = PixarInputs(make_tokenizer(), CONFIG)
    return make_identifier_pairs(
        [list(each) for each in ANSWERS.items()],
        tokenise=inputs.queries,
        segment=segment,
        num_phrases=len(WORDS),
        config=IdentifierPairConfig(held_out_share=held_out_share),
    )


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save_tiny_encoder(tmp_path_factory.mktemp("pixar") / "base")


def make_start(base: Path, pairs: IdentifierPairs, config: PixarConfig = CONFIG) -> Pixar:
    return Pixar.start(
        str(base),
        num_phrases=len(WORDS),
        config=config,
        phrase_texts=WORDS if config.rows == "encoder" else None,
        counts=phrase_counts(pairs),
    )


@pytest.fixture(scope="module")
def start(base: Path, pairs: IdentifierPairs) -> Pixar:
    return make_start(base, pairs)


def name_phrases(model: Pixar, query: str) -> str:
    """Take the best phrase of each slot, up to the end."""
    slots = model.encode_queries([query]).slots[0]
    best = (slots @ model.head.rows.T + model.head.bias).argmax(1).tolist()
    stop = best.index(model.eos_id) if model.eos_id in best else len(best)
    return " ".join(WORDS[each] if each < len(WORDS) else "-" for each in best[:stop])


@pytest.mark.parametrize("unit", [True, False])
def test_the_terms_are_those_of_the_paper(unit: bool) -> None:
    """Written out with every logit, one target at a time."""
    chance = torch.Generator().manual_seed(0)
    vectors = PixarVectors(torch.randn(3, 5, generator=chance), torch.randn(3, 4, 5))
    head = PhraseHead(torch.randn(9, 5, generator=chance), torch.randn(9), unit=unit)
    ids = torch.tensor(
        [[[1, 2, 7, NONE], [3, 7, NONE, NONE]], [[4, 5, 6, 0], [NONE] * 4], [[NONE] * 4] * 2]
    )
    found = pixar_losses(vectors, head, wanted=ids, chunk=2)
    rows = functional.normalize(head.rows, dim=1) if unit else head.rows
    sums, total = torch.zeros(3), 0.0
    for query, own in enumerate(ids.tolist()):
        real = [target for target in own if target[0] != NONE]
        for target in real:
            share = 1 / len(real)
            pooled = rows @ vectors.pooled[query] + head.bias
            for slot, phrase in enumerate(target):
                if phrase == NONE:
                    continue
                logits = rows @ vectors.slots[query, slot] + head.bias
                sums[0] += share * (logits.logsumexp(0) - logits[phrase]).detach()
                if phrase < 7:  # the end is not taught to the pooled vector
                    sums[1] += share * (pooled.logsumexp(0) - pooled[phrase]).detach()
                sums[2] += share * logits.logsumexp(0).square().detach()
                total += share
    torch.testing.assert_close(torch.stack(found).detach(), sums / total)


def test_an_identifier_that_fills_all_slots_has_no_end() -> None:
    targets = TargetBatch(
        torch.tensor([[[1, 2], [3, NONE], [NONE, NONE]]]), torch.tensor([[5, 1, 0]])
    )
    assert add_tail(targets, tail="pad", eos_id=8).tolist() == [[[1, 2], [3, 8], [NONE, NONE]]]


@pytest.mark.parametrize(
    "config",
    [
        CONFIG,
        replace(CONFIG, slots="mask", tail="pad"),
        replace(CONFIG, rows="random", unit_rows=False, bias="zero", head_width=16),
    ],
    ids=["decoder", "mask", "narrow"],
)
def test_eight_queries_are_learnt_by_heart(
    base: Path, pairs: IdentifierPairs, config: PixarConfig
) -> None:
    start = make_start(base, pairs, config)
    trained, report = train_pixar(start, pairs, recipe=RECIPE, device=CPU)
    expected = ANSWERS | {answer: query for query, answer in ANSWERS.items()}
    assert len(expected) == 8
    assert {query: name_phrases(trained, query) for query in expected} == expected
    assert name_phrases(start, "raven") != expected["raven"]
    assert report.steps == RECIPE.steps and report.losses[-1][1] < 0.5


def test_bags_of_identifiers_learn_to_lie_near_their_queries(
    start: Pixar, pairs: IdentifierPairs
) -> None:
    def cosine(weight: float) -> float:
        recipe = replace(RECIPE, bag_weight=weight, pooled_weight=0.0, steps=40)
        trained, _ = train_pixar(start, pairs, recipe=recipe, device=CPU)
        queries = torch.from_numpy(trained.encode_queries(list(ANSWERS)).pooled)
        rows = torch.from_numpy(np.array(trained.head.rows))
        bags = torch.stack(
            [
                sum_of([rows[WORDS.index(word)] for word in each.split()])
                for each in ANSWERS.values()
            ]
        )
        return float(torch.cosine_similarity(queries, bags, dim=1).mean())

    def sum_of(parts: list[torch.Tensor]) -> torch.Tensor:
        return torch.stack(parts).sum(0)

    assert cosine(1.0) > cosine(0.0) + 0.05


def test_slots_without_their_loss_name_nothing(start: Pixar, pairs: IdentifierPairs) -> None:
    recipe = replace(RECIPE, slot_weight=0.0)
    trained, _ = train_pixar(start, pairs, recipe=recipe, device=CPU)
    named = {query: name_phrases(trained, query) for query in ANSWERS}
    assert sum(named[query] == answer for query, answer in ANSWERS.items()) < len(ANSWERS) / 2


def test_normalisers_learn_to_be_one(start: Pixar, pairs: IdentifierPairs) -> None:
    def spread(weight: float) -> float:
        recipe = replace(RECIPE, normaliser_weight=weight, steps=40)
        trained, _ = train_pixar(start, pairs, recipe=recipe, device=CPU)
        slots = trained.encode_queries(list(ANSWERS)).slots[:, 0]
        logits = torch.from_numpy(slots @ trained.head.rows.T + trained.head.bias)
        return float(logits.logsumexp(1).abs().mean())

    with_term, without = spread(1.0), spread(0.0)
    assert with_term < 0.3 and with_term < without


@pytest.mark.parametrize("optimiser", ["adamw", "rowwise_adagrad", "sgd"])
def test_an_interrupted_run_goes_on_as_if_it_had_not_been(
    start: Pixar, pairs: IdentifierPairs, tmp_path: Path, optimiser: str
) -> None:
    recipe = replace(
        RECIPE, steps=7, batch_size=3, targets_per_input=1, dropout=0.1, head_optimiser=optimiser
    )

    def run(folder: Path | None, until: int | None = None) -> Pixar:
        trained, _ = train_pixar(
            start, pairs, recipe=recipe, device=CPU, checkpoint=folder, until=until
        )
        return trained

    whole = run(None)
    run(tmp_path, until=4)
    resumed = run(tmp_path)
    assert np.array_equal(whole.head.rows, resumed.head.rows)
    state = resumed.network.state_dict()
    assert all(torch.equal(each, state[name]) for name, each in whole.network.state_dict().items())
    assert whole.identity()["digest"] == resumed.identity()["digest"] != start.identity()["digest"]


@pytest.mark.parametrize(("optimiser", "rate"), [("rowwise_adagrad", 0.1), ("sgd", 1.0)])
def test_the_heads_own_optimisers_learn(
    start: Pixar, pairs: IdentifierPairs, optimiser: str, rate: float
) -> None:
    recipe = replace(RECIPE, steps=40, head_optimiser=optimiser, head_learning_rate=rate)
    trained, report = train_pixar(start, pairs, recipe=recipe, device=CPU)
    assert not np.allclose(trained.head.rows, start.head.rows, atol=1e-2)
    assert report.losses[-1][1] < 1.0
    np.testing.assert_allclose(np.linalg.norm(trained.head.rows, axis=1), 1, atol=1e-5)


def test_the_model_given_stays_as_it_was(start: Pixar, pairs: IdentifierPairs) -> None:
    before = {name: each.clone() for name, each in start.network.state_dict().items()}
    rows, chance = start.head.rows.copy(), torch.get_rng_state()
    train_pixar(start, pairs, recipe=replace(RECIPE, steps=2, dropout=0.1), device=CPU)
    assert np.array_equal(start.head.rows, rows)
    assert all(torch.equal(each, before[name]) for name, each in start.network.state_dict().items())
    assert torch.equal(torch.get_rng_state(), chance)


def test_a_frozen_encoder_stays_and_is_named(
    base: Path, pairs: IdentifierPairs, tmp_path: Path
) -> None:
    start = make_start(base, pairs, replace(CONFIG, train_encoder=False))
    trained, _ = train_pixar(start, pairs, recipe=replace(RECIPE, steps=3), device=CPU)
    state = trained.network.state_dict()
    for name, each in start.network.state_dict().items():
        if name.startswith("encoder."):
            assert torch.equal(each, state[name])
    assert not np.array_equal(trained.head.rows, start.head.rows)
    trained.save(tmp_path / "model", dtype="fp32")
    assert not (tmp_path / "model" / "encoder").exists()
    again = Pixar.load(tmp_path / "model", fast=False)
    assert np.array_equal(
        again.encode_queries(["owl"]).slots, trained.encode_queries(["owl"]).slots
    )


def test_held_out_queries_are_validated_with(base: Path) -> None:
    pairs = make_pairs(held_out_share=0.3)
    assert 0 < len(pairs.held_out_rows) < len(pairs)
    seen: list[Progress] = []
    recipe = replace(RECIPE, steps=4, batch_size=2, validate_every=2)
    start = make_start(base, pairs)
    train_pixar(start, pairs, recipe=recipe, device=CPU, progress=seen.append)
    assert [each.step for each in seen if each.validation is not None] == [2, 4]
    head = PhraseHead(
        torch.from_numpy(start.head.rows), torch.from_numpy(start.head.bias), unit=True
    )
    model = PixarPairs(start.network, head, recipe).eval()
    terms = torch.stack(held_out_losses(model, pairs))
    torch.testing.assert_close(torch.stack(held_out_losses(model, pairs)), terms)
    with torch.autocast("cpu", dtype=torch.bfloat16):  # as on a GPU
        rounded = torch.stack(held_out_losses(model, pairs))
    torch.testing.assert_close(rounded, terms, atol=0.05, rtol=0.05)
    assert not torch.equal(rounded, terms)


def test_a_given_validation_and_hook_are_called(start: Pixar, pairs: IdentifierPairs) -> None:
    steps: list[int] = []

    def before_step(step: int) -> str:
        steps.append(step)
        return "enough" if step == 3 else ""

    def validate(model: nn.Module) -> float:
        assert isinstance(model, PixarPairs)
        return 0.5

    recipe = replace(RECIPE, steps=9, validate_every=1)
    _, report = train_pixar(
        start, pairs, recipe=recipe, device=CPU, validate=validate, before_step=before_step
    )
    assert steps == [1, 2, 3] and report.stopped_because == "enough"
    assert report.validations == ((1, 0.5), (2, 0.5))


@pytest.mark.parametrize("optimiser", ["adamw", "rowwise_adagrad"])
def test_the_best_state_is_given_back_also_over_an_interruption(
    start: Pixar, pairs: IdentifierPairs, tmp_path: Path, optimiser: str
) -> None:
    recipe = replace(
        RECIPE, steps=7, batch_size=3, dropout=0.1, validate_every=2, head_optimiser=optimiser
    )
    passed: dict[float, Pixar] = {}

    def run(folder: Path | None, until: int | None = None, **other: Any) -> tuple[Pixar, Any]:
        scores = {2: 0.1, 4: 0.6, 6: 0.6, 7: 0.2}
        at = 0

        def note(step: int) -> str:
            nonlocal at
            at = step
            return ""

        def validate(model: nn.Module) -> float:
            assert isinstance(model, PixarPairs)
            step = 7 if at == 8 else at
            passed[step] = as_pixar(model, start, name="x")
            return scores[step]

        return train_pixar(
            start,
            pairs,
            recipe=replace(recipe, **other),
            device=CPU,
            checkpoint=folder,
            validate=validate,
            before_step=note,
            until=until,
        )

    whole, report = run(None)
    assert report.validations == ((2, 0.1), (4, 0.6), (6, 0.6), (7, 0.2))  # the last step too
    assert np.array_equal(whole.head.rows, passed[4].head.rows)
    last, _ = run(None, keep_best=False)
    assert np.array_equal(last.head.rows, passed[7].head.rows)
    assert not np.array_equal(last.head.rows, whole.head.rows)
    run(tmp_path, until=5)
    resumed, again = run(tmp_path)
    assert again.validations == report.validations
    assert resumed.identity()["digest"] == whole.identity()["digest"]
    stopped, short = run(None, patience=1)
    assert short.steps == 6 and np.array_equal(stopped.head.rows, whole.head.rows)


def test_the_loop_follows_the_recipe() -> None:
    loop = loop_config(replace(RECIPE, steps=50, normaliser_ramp=0.2))
    assert (loop.steps, loop.ramp_steps) == (50, 10)
    assert loop.learning_rates["head."] == RECIPE.head_learning_rate


def test_other_vocabularies_are_errors(start: Pixar, pairs: IdentifierPairs) -> None:
    other = replace(pairs, num_phrases=9, is_held_out=np.ones(len(pairs), dtype=bool))
    with pytest.raises(ConfigError, match=r"knows 8 phrases.*made of 9.*all queries are held out"):
        train_pixar(start, other, recipe=RECIPE, device=CPU)
    with pytest.raises(ConfigError, match=r"head_optimiser is 'adam'.*dropout is 1.0.*chunk is 0"):
        PixarRecipe(head_optimiser="adam", chunk=0, dropout=1.0)
