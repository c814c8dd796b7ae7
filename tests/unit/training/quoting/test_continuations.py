"""Continuations are what the language model finds likeliest, one subword after the other."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from tests.unit.training.dynamic_worlds import make_model, make_set

from quoth.models.dynamic_lm.dynamic_lm import DynamicLM
from quoth.training.quoting.batches import BatchMaker
from quoth.training.quoting.continuations import drawn_phrases, make_continuations
from quoth.training.quoting.phrase_negatives import key_ids, phrase_key
from quoth.training.quoting.set import open_dynamic_set, save_dynamic_set
from quoth.training.recipes.dynamic_lm_config import DynamicLMRecipe


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> DynamicLM:
    return make_model(tmp_path_factory.mktemp("continuations"))


def test_continuations_equal_the_language_models_own(model: DynamicLM) -> None:
    phrases = [phrase_key(each) for each in ([20, 30], [40, 50, 60], [41, 51], [40, 50, 61])]
    found = make_continuations(model.network, [*phrases, phrases[0]], length=3, batch_size=2)
    assert len(found.subword_ids) == len(phrases)
    for phrase in phrases:
        ids = key_ids(phrase).tolist()
        for _ in range(3):
            scores = model.network.language_model(torch.tensor([ids])).logits[0, -1]
            ids.append(int(scores.argmax()))
        assert found[phrase] == tuple(ids[-3:])
    assert found[phrase_key([1, 2])] == ()


def test_phrases_of_the_next_batches_are_listed_once(model: DynamicLM) -> None:
    maker = BatchMaker(make_set(model.inputs), DynamicLMRecipe(batch_size=4))
    phrases = drawn_phrases(maker, range(4))
    assert len(phrases) == len(set(phrases)) > 10
    batch = maker[2]
    gold = batch.targets[batch.targets >= model.network.num_subwords] - model.network.num_subwords
    assert {batch.phrases[int(column)] for column in np.unique(gold.numpy())} <= set(phrases)


def test_they_travel_with_the_set(model: DynamicLM, tmp_path: Path) -> None:
    dynamic_set = make_set(model.inputs)
    recipe = DynamicLMRecipe(batch_size=4)
    phrases = drawn_phrases(BatchMaker(dynamic_set, recipe), range(2))
    made = make_continuations(model.network, phrases, length=2)
    save_dynamic_set(tmp_path / "set.bin", replace(dynamic_set, continuations=made))
    with_them = BatchMaker(open_dynamic_set(tmp_path / "set.bin"), recipe)[1]
    extended = {phrase + phrase_key(made[phrase]) for phrase in phrases}
    assert extended & set(with_them.phrases)
    assert len(with_them.phrases) > len(BatchMaker(dynamic_set, recipe)[1].phrases)
