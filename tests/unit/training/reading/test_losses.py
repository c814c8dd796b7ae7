"""The losses of a reader, against the same sums written out by hand."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from quoth.models.reader.network import ReaderScores, SequenceBatch
from quoth.training.reading.groups import GroupBatch, RowBatch
from quoth.training.reading.losses import reading_losses, sum_rows

WIDTH = 7


def rows_of(starts: list[int], texts: list[tuple[int, int]]) -> RowBatch:
    """Rows whose text stands from one place to another; an answer of one subword, or -1."""
    count = len(texts)
    mask = torch.zeros(count, WIDTH, dtype=torch.bool)
    gold = torch.zeros_like(mask)
    sentences = torch.zeros(count, WIDTH, dtype=torch.long)
    for at, (low, high) in enumerate(texts):
        mask[at, low:high] = True
        sentences[at, low:high] = torch.arange(high - low) // 2
        if starts[at] >= 0:
            gold[at, starts[at]] = True
    ids = torch.zeros(count, WIDTH, dtype=torch.long)
    return RowBatch(SequenceBatch(ids, ids, mask), mask, gold, gold.clone(), sentences, 3)


def scores_of(count: int, seed: int) -> ReaderScores:
    chance = torch.Generator().manual_seed(seed)
    places = (torch.randn(count, WIDTH, generator=chance) for _part in range(3))
    return ReaderScores(*places, torch.randn(count, generator=chance))


def log_share(right: list[float], every: list[float]) -> float:
    return float(-np.log(np.exp(right).sum() / np.exp(every).sum()))


def test_losses_are_those_of_the_formulas() -> None:
    # group 0: rows 0 (answered at 3) and 1; group 1: row 2, put to neighbours; group 2: a pair
    rows = rows_of([3, -1, -1, -1, -1], [(2, 6), (1, 5), (2, 5), (1, 4), (2, 6)])
    scores = scores_of(5, seed=1)
    batch = GroupBatch(
        (rows,),
        groups=torch.tensor([0, 0, 1, 2, 2]),
        is_read=torch.tensor([True, True, True, False, False]),
        is_answered=torch.tensor([True, False, False, False, False]),
        is_positive=torch.tensor([True, False, False, False, True]),
        is_own=torch.tensor([True, False, False, False, True]),
        num_groups=3,
    )
    losses = reading_losses([sum_rows(scores, rows)], batch)
    starts, ends, evidence = (each.double().numpy() for each in scores[:3])
    relevance = scores.relevance.double().tolist()
    own = []
    for values in (starts, ends):
        own += [
            log_share([values[0, 3]], [values[0, 0], *values[0, 2:6]]),
            log_share([values[1, 0]], [values[1, 0], *values[1, 1:5]]),
            log_share([values[2, 0]], [values[2, 0], *values[2, 2:5]]),
        ]
    counted_twice = np.average(own, weights=[2.0, 1.0, 1.0] * 2)
    assert float(losses.own) == pytest.approx(counted_twice, abs=1e-5)
    shared = [
        log_share([values[0, 3]], [*values[0, 2:6], *values[1, 1:5]]) for values in (starts, ends)
    ]
    assert float(losses.shared) == pytest.approx(np.mean(shared), abs=1e-5)
    means = [evidence[row, at : at + 2].mean() for row, at in ((0, 2), (0, 4), (1, 1), (1, 3))]
    assert float(losses.evidence) == pytest.approx(log_share(means[:1], means), abs=1e-5)
    listed = [log_share(relevance[:1], relevance[:2]), log_share(relevance[4:], relevance[3:])]
    assert float(losses.relevance) == pytest.approx(np.mean(listed), abs=1e-5)


def test_parts_add_up_to_the_whole() -> None:
    scores = scores_of(4, seed=2)
    texts, starts = [(2, 6), (1, 5), (2, 5), (1, 4)], [3, -1, 4, -1]
    flags = {
        "groups": torch.tensor([0, 0, 1, 1]),
        "is_read": torch.ones(4, dtype=torch.bool),
        "is_answered": torch.tensor([True, False, True, False]),
        "is_positive": torch.tensor([True, False, True, False]),
        "is_own": torch.tensor([True, False, True, False]),
        "num_groups": 2,
    }
    whole = rows_of(starts, texts)
    halves = [rows_of(starts[at : at + 2], texts[at : at + 2]) for at in (0, 2)]
    parts = [ReaderScores(*(each[at : at + 2] for each in scores)) for at in (0, 2)]
    one = reading_losses([sum_rows(scores, whole)], GroupBatch((whole,), **flags))
    two = reading_losses(
        [sum_rows(own, rows) for own, rows in zip(parts, halves, strict=True)],
        GroupBatch(tuple(halves), **flags),
    )
    for first, second in zip(one, two, strict=True):
        assert float(first) == pytest.approx(float(second), abs=1e-6)


def test_where_nothing_is_known_nothing_is_lost() -> None:
    rows = rows_of([-1, -1], [(2, 6), (1, 5)])
    scores = ReaderScores(*(each.requires_grad_() for each in scores_of(2, seed=3)))
    none = torch.zeros(2, dtype=torch.bool)
    empty = 3  # groups, of which two have no rows
    batch = GroupBatch((rows,), torch.zeros(2, dtype=torch.long), none, none, none, none, empty)
    losses = reading_losses([sum_rows(scores, rows)], batch)
    assert [float(each.detach()) for each in losses] == [0.0] * 4
    sum(losses).backward()  # type: ignore[union-attr,no-untyped-call]
    assert all(each.grad is None or bool(torch.isfinite(each.grad).all()) for each in scores)
