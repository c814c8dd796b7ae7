"""Scanning: the best rows of each vector, against sorting all scores."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from quoth.models.pixar.shortlist.rows import Rows
from quoth.models.pixar.shortlist.scan import top_rows


@settings(max_examples=40, deadline=None)
@given(num_rows=st.integers(1, 60), depth=st.integers(1, 70), seed=st.integers(0, 2**32 - 1))
def test_top_rows_are_those_of_sorting_with_ties_by_place(
    num_rows: int, depth: int, seed: int
) -> None:
    chance = np.random.default_rng(seed)
    head = chance.integers(-2, 3, (num_rows, 3)).astype(np.float32)  # whole: many ties
    vectors = chance.integers(-2, 3, (5, 3)).astype(np.float32)
    rows = Rows.store(torch.from_numpy(head), torch.zeros(num_rows), storage="float32", threads=2)
    expected = np.argsort(-(vectors @ head.T), axis=1, kind="stable")[:, :depth]
    assert np.array_equal(top_rows(rows, vectors, depth=depth), expected)


@pytest.mark.parametrize("threads", [1, 2])
def test_top_rows_over_several_blocks(threads: int) -> None:
    chance = np.random.default_rng(3)
    head = chance.standard_normal((10_000, 8), dtype=np.float32)
    vectors = chance.standard_normal((4, 8), dtype=np.float32)
    rows = Rows.store(
        torch.from_numpy(head), torch.zeros(10_000), storage="float32", threads=threads
    )
    scores = vectors @ head.T
    found = np.take_along_axis(scores, top_rows(rows, vectors, depth=50), axis=1)
    assert found == pytest.approx(-np.sort(-scores, axis=1)[:, :50])
