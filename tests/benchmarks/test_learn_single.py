"""One model and two are watched alike, and what collapses is seen to."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from benchmarks.learn.run_gpu import can_blend
from benchmarks.learn.single import (
    Watch,
    fit_generator,
    mean_cosine,
    per_subword,
    warm_up_layer,
    with_own_encoder,
)
from tests.unit.training.passage_worlds import World, make_network, make_writer

from quoth.selfsupervision.pseudo_pairs import KINDS
from quoth.training.recipes.warm_up import WarmUpRecipe
from quoth.training.retriever.learning import LearningRun
from quoth.training.retriever.passage_set import PassageSet
from quoth.training.retriever.retriever import Retriever

CPU = torch.device("cpu")


class Constant:
    """A retriever that has collapsed: one vector for everything."""

    similarity = "cosine"

    def encode_queries(self, batch: object) -> torch.Tensor:
        return torch.ones(len(batch.subword_ids), 4)  # type: ignore[attr-defined]

    encode_passages = encode_queries


def make_set() -> PassageSet:
    """Queries written for known passages, the label always right."""
    world = World(num_passages=30, per_passage=4, wrong=0.0)
    made = world.passage_set
    made.kinds[:] = KINDS.index("generated")
    made.source_rows[:] = world.truth
    return made


def test_a_collapsed_retriever_is_seen_at_its_loss_and_its_vectors() -> None:
    watch = Watch(make_set(), every=10, scale=20.0)
    watch(Constant())
    watch(Retriever(make_network(), similarity="cosine"))
    collapsed, untrained = watch.looks
    assert collapsed.loss == pytest.approx(math.log(30), abs=1e-3)
    assert collapsed.cosine == pytest.approx(1.0)
    assert collapsed.distinct == pytest.approx(1 / 30, abs=1e-4)
    assert (collapsed.step, untrained.step) == (0, 10)
    assert untrained.cosine < 0.999 and untrained.distinct > collapsed.distinct


def test_the_mean_cosine_is_that_of_all_pairs() -> None:
    vectors = torch.from_numpy(np.random.default_rng(0).normal(size=(5, 3)))
    unit = vectors / vectors.norm(dim=1, keepdim=True)
    pairs = [float(unit[a] @ unit[b]) for a in range(5) for b in range(5) if a != b]
    assert mean_cosine(vectors) == pytest.approx(np.mean(pairs))


def test_the_one_model_learns_to_write_and_its_source_stays() -> None:
    passages, writer = make_set(), make_writer()
    before = {name: each.clone() for name, each in writer.state_dict().items()}
    torch.manual_seed(0)
    own = with_own_encoder(writer)
    words = own.encoder.get_input_embeddings().weight  # type: ignore[operator]
    assert own.train_encoder and not words.requires_grad
    start = per_subword(own, passages)
    fit_generator(own, passages, steps=30, seed=0)
    assert per_subword(own, passages) > start
    assert all(torch.equal(each, before[name]) for name, each in writer.state_dict().items())


def test_a_layer_is_warmed_up_in_a_copy_and_watched_from_the_start() -> None:
    passages, own = make_set(), with_own_encoder(make_writer())
    before = {name: each.clone() for name, each in own.state_dict().items()}
    recipe = WarmUpRecipe(
        similarity="dot", scale=1.0, steps=4, batch_size=8, validate_every=2, patience=0
    )
    watch = Watch(passages, every=2, scale=1.0)
    learned = warm_up_layer(own, 1, passages, recipe, LearningRun(CPU, validate=watch))
    assert [look.step for look in watch.looks] == [0, 2, 4]
    assert learned.report.training.steps == 4
    assert all(torch.equal(each, before[name]) for name, each in own.state_dict().items())
    changed = {
        name.removeprefix("retriever.")
        for name, each in learned.last_state.items()
        if not torch.equal(each, before[name.removeprefix("retriever.")])
    }
    assert changed and all("layer.1." not in name for name in changed)  # above the one that is read


def test_only_what_has_the_same_parameters_is_blended() -> None:
    assert [can_blend(arm) for arm in ("rumbart", "negatives:in_batch:none")] == [True, True]
    assert not can_blend("width:384")
