"""Recall of gold phrases, by hand."""

from __future__ import annotations

import numpy as np

from quoth.models.pixar.shortlist.recall import PADDING, measure_recall


def test_padding_counts_neither_for_nor_against() -> None:
    shortlists = [np.array(each, dtype=np.int32) for each in ([1, 4], [2], [])]
    targets = np.array([[1, 4, PADDING], [2, 3, 9], [5, PADDING, PADDING]])
    found = measure_recall(shortlists, targets)
    assert found.phrases == 3 / 6
    assert found.slots == (2 / 3, 1 / 2, 0.0)
    assert found.identifiers == 1 / 3
    assert found.mean_length == 1.0
