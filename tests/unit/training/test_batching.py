"""Batches: complete, seeded, and without accidental positives."""

from __future__ import annotations

import numpy as np
import pytest

from quoth.errors import ConfigError
from quoth.training.batching import Batches, distinct_batches


def repeated(chance: np.random.Generator, count: int = 300) -> tuple[np.ndarray, np.ndarray]:
    return chance.integers(0, 120, count), chance.integers(0, 150, count)


def test_no_batch_holds_a_document_or_a_query_twice(chance: np.random.Generator) -> None:
    documents, queries = repeated(chance)
    batches = Batches(documents, queries, batch_size=16, seed=3)
    for number in range(60):
        rows = batches[number]
        assert len(rows) == 16
        assert len(set(documents[rows])) == len(set(queries[rows])) == 16


def test_every_epoch_uses_each_pair_at_most_once(chance: np.random.Generator) -> None:
    documents, queries = repeated(chance)
    order = chance.permutation(len(documents))
    batches = distinct_batches(order, (documents, queries), size=8)
    rows = np.concatenate(batches)
    assert len(rows) == len(set(rows.tolist()))
    assert len(rows) > 0.9 * len(documents)


def test_distinct_pairs_keep_their_order() -> None:
    order = np.array([3, 1, 0, 2, 4])
    batches = distinct_batches(order, [np.arange(5)], size=2)
    assert [rows.tolist() for rows in batches] == [[3, 1], [0, 2]]


def test_a_batch_is_the_same_whatever_was_read_before(chance: np.random.Generator) -> None:
    documents, queries = repeated(chance)
    through = Batches(documents, queries, batch_size=16, seed=3)
    read = [through[number] for number in range(50)]
    jumping = Batches(documents, queries, batch_size=16, seed=3)
    for number in (49, 2, 30, 0):
        assert jumping[number].tolist() == read[number].tolist()


def test_epochs_and_seeds_differ() -> None:
    rows = np.arange(64)
    batches = Batches(rows, rows, batch_size=64, seed=0)
    assert batches[0].tolist() != batches[1].tolist()
    assert sorted(batches[0]) == sorted(batches[1]) == rows.tolist()
    assert Batches(rows, rows, batch_size=64, seed=1)[0].tolist() != batches[0].tolist()


def test_grouping_by_length_pads_less(chance: np.random.Generator) -> None:
    rows, lengths = np.arange(512), chance.integers(4, 128, 512)
    plain = Batches(rows, rows, batch_size=16, seed=0)
    grouped = Batches(rows, rows, batch_size=16, seed=0, lengths=lengths)

    def padded(batches: Batches) -> int:
        return sum(16 * lengths[batches[number]].max() for number in range(32))

    assert padded(grouped) < 0.7 * padded(plain)
    assert sorted(np.concatenate([grouped[number] for number in range(32)])) == rows.tolist()


def test_too_few_pairs_are_an_error() -> None:
    with pytest.raises(ConfigError, match="lower the batch size"):
        Batches(np.zeros(9), np.arange(9), batch_size=2, seed=0)
