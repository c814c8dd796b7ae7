"""What a scorer reads of passages for one query; pure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from quoth.errors import ConfigError

Vectors = NDArray[np.float32]


class Heard(NamedTuple):
    """What was read of some passages for one query."""

    states: list[Vectors]
    """Of each passage, a vector of unit length for each subword (T, D)."""

    log_probs: list[float]
    """log p(query | passage), summed over the query's subwords and its end."""


def cut_where_read(states: Vectors, lengths: Sequence[int]) -> list[Vectors]:  # (B, T, D)
    """Take the states of each sequence, brought to unit length."""
    if len(states) != len(lengths):
        raise ConfigError(f"{len(states)} sequences were read, {len(lengths)} were asked for")
    norms = np.maximum(np.linalg.norm(states, axis=-1, keepdims=True), 1e-12)
    return [each[:length] for each, length in zip(states / norms, lengths, strict=True)]
