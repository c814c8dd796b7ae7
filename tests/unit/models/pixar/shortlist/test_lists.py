"""Lists: their unions, and the best phrases of vectors."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from quoth.models.pixar.shortlist import lists as module
from quoth.models.pixar.shortlist.lists import Lists, top_lists


@settings(max_examples=50, deadline=None)
@given(
    contents=st.lists(st.lists(st.integers(0, 199), unique=True), min_size=1, max_size=6),
    length=st.integers(1, 10),
)
def test_a_union_holds_the_beginnings_of_the_lists_once(
    contents: list[list[int]], length: int
) -> None:
    lists = Lists.of([np.array(each, dtype=np.int32) for each in contents])
    chosen = list(range(0, len(contents), 2))
    expected = {place for at in chosen for place in contents[at][:length]}
    assert lists.join(chosen, num_rows=200, length=length).tolist() == sorted(expected)


def test_lists_follow_rows_that_are_put_in_an_order() -> None:
    order = np.array([3, 1, 0, 2], dtype=np.int32)
    lists = Lists.of([np.array([0, 3], dtype=np.int32)]).follow(order)
    assert order[lists.members].tolist() == [0, 3]


def test_top_lists_are_those_of_sorting(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_SCORES_AT_ONCE", 1000)  # several blocks of the head
    chance = torch.Generator().manual_seed(0)
    head = torch.randint(-3, 4, (500, 6), generator=chance).float()
    bias = torch.randint(-2, 3, (500,), generator=chance).float()
    vectors = torch.randint(-3, 4, (7, 6), generator=chance).float()
    found = top_lists(head, bias, vectors, length=40)
    expected = np.argsort(-(vectors @ head.T + bias).numpy(), axis=1, kind="stable")[:, :40]
    assert np.array_equal(found, expected)


def test_lists_are_no_longer_than_the_head() -> None:
    found = top_lists(torch.eye(3), torch.zeros(3), torch.eye(3), length=10)
    assert found.shape == (3, 3)
