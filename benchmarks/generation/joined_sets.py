"""Join training sets: texts of several files, quotations of another."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from quoth.errors import ConfigError
from quoth.training.quoting.set import (
    NO_ROW,
    Continuations,
    DynamicSet,
    make_quotations,
    make_table,
)


def join_sets(sets: Sequence[DynamicSet]) -> DynamicSet:
    """Join sets of one vocabulary."""
    first = sets[0]
    if any(not np.array_equal(each.is_punctuation, first.is_punctuation) for each in sets):
        raise ConfigError("training sets of different vocabularies cannot be joined; pack again")
    texts = [each.texts[row] for each in sets for row in range(len(each.texts))]
    quotations = [each.quotations[row] for each in sets for row in range(len(each.quotations))]
    return replace(
        first,
        texts=make_table(texts),
        support_rows=_join_support(sets),
        quotations=make_quotations(quotations),
        continuations=Continuations(
            {key: own for each in sets for key, own in each.continuations.subword_ids.items()}
        ),
    )


def _join_support(sets: Sequence[DynamicSet]) -> NDArray[np.int64]:
    widest = max(each.support_rows.shape[1] for each in sets)
    pieces, before = [], 0
    for each in sets:
        rows = np.full((len(each.texts), widest), NO_ROW, dtype=np.int64)
        own = each.support_rows
        rows[:, : own.shape[1]] = np.where(own == NO_ROW, NO_ROW, own + before)
        pieces.append(rows)
        before += len(each.texts)
    return np.concatenate(pieces)
