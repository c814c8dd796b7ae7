"""The recipe learns: a tiny reader finds the answers of a few questions, and the right passages."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch
from tiny_reader import TinyReader, make_reader
from transformers.utils import logging

from quoth.errors import ConfigError
from quoth.training.reading.groups import GroupConfig
from quoth.training.reading.set import ANSWERED, PAIR, UNANSWERED, Ragged, ReadingSet
from quoth.training.recipes.reader import (
    ReaderRecipe,
    RunningAverage,
    measure_reader,
    train_reader,
)

logging.disable_progress_bar()  # type: ignore[no-untyped-call]
CPU = torch.device("cpu")
MARK = 9
RECIPE = ReaderRecipe(
    steps=150,
    batch_size=12,
    learning_rate=3e-3,
    head_learning_rate=1e-2,
    dropout=0.0,
    groups=GroupConfig(num_passages=3, num_pair_passages=3, crop_share=0.0, num_parts=1),
)


def make_set() -> ReadingSet:
    """Eight questions, each asked with the subword that stands before its answer; two pairs."""
    num = 12
    texts = [[50, 51, 60 + row, 80 + row, 52, 53, 54, 55] for row in range(num)]
    return ReadingSet(
        questions=Ragged.of(([60 + row, MARK] for row in range(num)), "<u2"),
        titles=Ragged.of(([] for _row in range(num)), "<u2"),
        texts=Ragged.of(texts, "<u2"),
        sentences=Ragged.of(([0, 0, 0, 0, 1, 1, 1, 1] for _row in range(num)), "|u1"),
        answers=Ragged.of(([3, 3] if row < 8 else [] for row in range(num)), "<u2"),
        passage_rows=np.array([*range(8), 0, 1, 10, 11]),
        neighbours=np.array([[(row + 1) % num, (row + 5) % num] for row in range(num)]),
        kinds=np.array([ANSWERED] * 8 + [UNANSWERED] * 2 + [PAIR] * 2, dtype=np.uint8),
        source_ids=np.zeros(num, dtype=np.uint8),
        held_out=np.zeros(num, dtype=bool),
        sources=("owls",),
    )


@pytest.fixture(scope="module")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> TinyReader:
    return make_reader(tmp_path_factory.mktemp("recipe"))


def test_a_tiny_reader_learns_where_answers_are(tiny: TinyReader) -> None:
    reading, rows = make_set(), np.arange(12)
    before = {name: each.clone() for name, each in tiny.network.state_dict().items()}
    network, report = train_reader(
        tiny.network, reading, tiny.inputs, RECIPE, device=CPU, mark_id=MARK
    )
    found = measure_reader(network, reading, tiny.inputs, rows, device=CPU, mark_id=MARK)
    assert report.steps == 150 and found.num_questions == 8
    assert min(found.exact, found.sentence, found.evidence, found.passage) >= 0.85
    assert found.silence_area >= 0.9
    after = tiny.network.state_dict()
    assert all(torch.equal(after[name], each) for name, each in before.items()), "a copy is trained"
    table = "encoder.embeddings.word_embeddings.weight"
    assert torch.equal(network.state_dict()[table], before[table]), "words stay as they are"


def test_the_same_seed_gives_the_same_reader(tiny: TinyReader) -> None:
    short = replace(RECIPE, steps=3, groups=replace(RECIPE.groups, crop_share=0.5, least_crop=2))
    states = [
        train_reader(
            tiny.network, make_set(), tiny.inputs, own, device=CPU, mark_id=MARK, workers=workers
        )[0]
        for own, workers in ((short, 0), (short, 1), (replace(short, seed=1), 0))
    ]
    first, second, third = (each.state_dict()["places.weight"] for each in states)
    assert torch.equal(first, second) and not torch.equal(first, third)


def test_a_watcher_ends_a_run_and_what_was_learnt_is_kept(tiny: TinyReader) -> None:
    network, report = train_reader(
        *(tiny.network, make_set(), tiny.inputs, replace(RECIPE, average_decay=0.5)),
        device=CPU,
        mark_id=MARK,
        watch=lambda step, _network: "time is up" if step == 3 else "",
    )
    assert (report.steps, report.stopped_because) == (2, "time is up")
    before, after = (each.state_dict()["places.weight"] for each in (tiny.network, network))
    assert not torch.equal(before, after)


def test_wrong_settings_are_refused() -> None:
    with pytest.raises(ConfigError, match="evidence_weight is -1"):
        ReaderRecipe(evidence_weight=-1.0)


def test_an_average_forgets_what_is_long_ago() -> None:
    model = torch.nn.Linear(1, 1, bias=False)
    average = RunningAverage(model, decay=0.5)
    for step, value in enumerate((4.0, 2.0, 1.0), start=1):
        torch.nn.init.constant_(model.weight, value)
        assert average(step) == ""
    average.put_into(model)
    assert float(model.weight.detach()) == pytest.approx((3.0 + 1.0) / 2)
