"""Groups of passages: what is put to a question, and that answers stay where they are."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from tiny_reader import TinyReader, make_reader
from transformers.utils import logging

from quoth.training.reading.groups import GroupBatch, GroupConfig, GroupMaker
from quoth.training.reading.set import (
    ANSWERED,
    PAIR,
    UNANSWERED,
    Ragged,
    ReadingSet,
    join_sets,
    open_reading_set,
    save_reading_set,
)

logging.disable_progress_bar()  # type: ignore[no-untyped-call]
PLAIN = GroupConfig(
    num_passages=3, without_share=0.0, cut_share=0.0, crop_share=0.0, unmarked_share=0.0
)  # as many for questions without an answer
MARK = 9


def make_set(num: int = 6) -> ReadingSet:
    """Passages of 20 subwords, five a sentence; subword 100 + p answers at place 7 of passage p."""
    texts = [[*range(40, 47), 100 + row, *range(48, 60)] for row in range(num)]
    return ReadingSet(
        questions=Ragged.of(([20 + row, MARK] for row in range(num)), "<u2"),
        titles=Ragged.of(([30] if row % 2 else [] for row in range(num)), "<u2"),
        texts=Ragged.of(texts, "<u2"),
        sentences=Ragged.of(([at // 5 for at in range(20)] for _row in range(num)), "|u1"),
        answers=Ragged.of(([7, 7] if row < num - 2 else [] for row in range(num)), "<u2"),
        passage_rows=np.arange(num),
        neighbours=np.array([[(row + 1) % num, (row + 2) % num, -1] for row in range(num)]),
        kinds=np.array([ANSWERED] * (num - 2) + [UNANSWERED, PAIR], dtype=np.uint8),
        source_ids=np.zeros(num, dtype=np.uint8),
        held_out=np.zeros(num, dtype=bool),
        sources=("owls",),
    )


@pytest.fixture(scope="module")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> TinyReader:
    return make_reader(tmp_path_factory.mktemp("groups"))


def make_batch(tiny: TinyReader, config: GroupConfig, *, seed: int = 0) -> GroupBatch:
    maker = GroupMaker(make_set(), tiny.inputs, config, mark_id=MARK)
    return maker.make(np.arange(6), np.random.default_rng(seed))


def answers_of(batch: GroupBatch) -> list[int]:
    """List the subwords that are marked as answers."""
    return sorted(
        subword
        for part in batch.parts
        for subword in part.sequences.subword_ids[part.starts & part.ends].tolist()
    )


def test_a_question_is_put_to_its_passage_and_to_neighbours(tiny: TinyReader) -> None:
    batch = make_batch(tiny, PLAIN)
    assert batch.num_groups == 6
    assert np.bincount(batch.groups.numpy()).tolist() == [3] * 6
    assert answers_of(batch) == [100, 101, 102, 103]
    assert int(batch.is_answered.sum()) == 4
    assert np.sort(batch.groups[batch.is_positive].numpy()).tolist() == [0, 1, 2, 3, 5]
    assert set(batch.groups[~batch.is_read].tolist()) == {5}, "of a pair nothing more is known"
    assert np.sort(batch.groups[batch.is_own].numpy()).tolist() == [*range(6)]


def test_kinds_of_questions_are_put_to_as_many_passages_as_is_said(tiny: TinyReader) -> None:
    config = replace(PLAIN, num_unanswered_passages=2, num_pair_passages=1)
    assert np.bincount(make_batch(tiny, config).groups.numpy()).tolist() == [3, 3, 3, 3, 2, 1]


@pytest.mark.parametrize("seed", range(5))
def test_cropping_keeps_an_answer(tiny: TinyReader, seed: int) -> None:
    config = replace(PLAIN, crop_share=1.0, least_crop=6)
    batch = make_batch(tiny, config, seed=seed)
    assert answers_of(batch) == [100, 101, 102, 103]
    lengths = [int(each) for part in batch.parts for each in part.text_mask.sum(1)]
    assert min(lengths) >= 6 and min(lengths) < 20


def test_without_its_passage_nothing_answers(tiny: TinyReader) -> None:
    batch = make_batch(tiny, replace(PLAIN, without_share=1.0))
    assert answers_of(batch) == []
    assert np.bincount(batch.groups.numpy()).tolist() == [2, 2, 2, 2, 3, 3]


def test_what_answers_is_cut_out_by_whole_sentences(tiny: TinyReader) -> None:
    batch = make_batch(tiny, replace(PLAIN, cut_share=1.0))
    assert answers_of(batch) == []
    assert np.sort(batch.groups[batch.is_positive].numpy()).tolist() == [5]
    lengths = sorted(int(each) for part in batch.parts for each in part.text_mask.sum(1))
    assert lengths == [15] * 4 + [20] * 14


def test_question_marks_and_titles_come_and_go(tiny: TinyReader) -> None:
    for unmarked, untitled in ((0.0, 0.0), (1.0, 1.0)):
        config = replace(PLAIN, unmarked_share=unmarked, untitled_share=untitled)
        ids = {
            subword
            for part in make_batch(tiny, config).parts
            for subword in part.sequences.subword_ids.flatten().tolist()
        }
        assert (MARK in ids) == (unmarked == 0.0)
        assert (30 in ids) == (untitled == 0.0)


def test_sets_are_saved_and_joined(tmp_path: Path) -> None:
    own = make_set()
    save_reading_set(tmp_path / "set.bin", own)
    both = join_sets(open_reading_set(tmp_path / "set.bin"), own)
    assert len(both) == 12 and both.sources == ("owls", "owls")
    assert both.texts[9].tolist() == own.texts[3].tolist()
    assert both.passage_rows[9] == 9 and both.neighbours[9].tolist() == [10, 11, -1]
    assert both.source_ids.tolist() == [0] * 6 + [1] * 6
