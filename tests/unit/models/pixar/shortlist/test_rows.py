"""Rows: the products of every storage, against products of what was stored."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from quoth.models.pixar.shortlist import kernel
from quoth.models.pixar.shortlist.rows import STORAGES, Rows, encode, to_bfloat16


def _decode(codes: NDArray[Any], scales: NDArray[np.float32], storage: str) -> NDArray[np.float64]:
    if storage == "bfloat16":
        return (codes.astype(np.uint32) << 16).view(np.float32).astype(np.float64)
    if storage == "int4":
        low = (codes << 4).view(np.int8) >> 4
        codes = np.concatenate((low, codes.view(np.int8) >> 4), axis=1)
    return codes.astype(np.float64) * scales[:, None]


@pytest.mark.parametrize("storage", STORAGES)
@settings(max_examples=25, deadline=None)
@given(
    num_rows=st.integers(1, 40),
    width=st.integers(1, 130),
    num_vectors=st.integers(1, 9),
    seed=st.integers(0, 2**32 - 1),
)
def test_scores_are_products_of_what_is_stored(
    storage: str, num_rows: int, width: int, num_vectors: int, seed: int
) -> None:
    chance = np.random.default_rng(seed)
    head = chance.standard_normal((num_rows, width), dtype=np.float32)
    bias = chance.standard_normal(num_rows, dtype=np.float32)
    vectors = chance.standard_normal((num_vectors, width), dtype=np.float32)
    order = chance.permutation(num_rows).astype(np.int32)
    places = np.flatnonzero(chance.random(num_rows) < 0.6).astype(np.int32)
    rows = Rows.store(torch.from_numpy(head), torch.from_numpy(bias), storage=storage, order=order)

    phrase_ids, scores = rows.score(places, vectors)

    stored = _decode(*encode(head, storage), storage)[:, :width]
    assert phrase_ids.tolist() == sorted(order[places].tolist())
    expected = vectors @ stored[phrase_ids].T + bias[phrase_ids]
    # whole numbers are multiplied with vectors rounded to 1/limit of their largest number
    limit = min((2**31 - 1) // (127 * rows.codes.shape[1] * 2), 2**15 - 1)
    slack = np.abs(stored[phrase_ids]).sum(axis=1) * np.abs(vectors).max() / limit
    assert np.all(np.abs(scores - expected) <= slack + 1e-4)


@pytest.mark.parametrize("storage", STORAGES)
def test_threads_change_nothing(storage: str) -> None:
    chance = np.random.default_rng(1)
    head = torch.from_numpy(chance.standard_normal((7001, 24), dtype=np.float32))
    vectors = chance.standard_normal((3, 24), dtype=np.float32)
    places = np.arange(1, 7001, dtype=np.int32)
    alone, together = (
        Rows.store(head, torch.zeros(7001), storage=storage, threads=threads) for threads in (1, 3)
    )
    assert np.array_equal(alone.score(places, vectors)[1], together.score(places, vectors)[1])


def test_whole_numbers_never_overflow() -> None:
    width = 4096
    head, vectors = torch.ones(2, width), np.ones((1, width), dtype=np.float32)
    rows = Rows.store(head, torch.zeros(2), storage="int8")
    scores = rows.score(np.array([0, 1], dtype=np.int32), vectors)[1]
    assert scores == pytest.approx(width, rel=1e-3)


@pytest.mark.parametrize("storage", STORAGES)
def test_zero_rows_and_vectors_score_their_bias(storage: str) -> None:
    rows = Rows.store(torch.zeros(2, 5), torch.tensor([1.5, -2.0]), storage=storage)
    scores = rows.score(np.array([0, 1], dtype=np.int32), np.zeros((2, 5), dtype=np.float32))[1]
    assert scores.tolist() == [[1.5, -2.0], [1.5, -2.0]]


def test_bfloat16_is_rounded_as_torch_rounds() -> None:
    numbers = np.random.default_rng(2).standard_normal(1000, dtype=np.float32)
    expected = torch.from_numpy(numbers).bfloat16().view(torch.int16).numpy().view(np.uint16)
    assert np.array_equal(to_bfloat16(numbers), expected)


@settings(max_examples=50, deadline=None)
@given(st.lists(st.integers(0, 700), unique=True, max_size=200))
def test_ranks_are_those_of_sorting(numbers: list[int]) -> None:
    ids = np.array(numbers, dtype=np.int32)
    ordered, positions = kernel.find_ranks(ids, 701)
    assert ordered.tolist() == sorted(numbers)
    assert ordered[positions].tolist() == numbers
