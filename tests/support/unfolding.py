"""Tokens written out as subwords: what the plain model would have read for the same text."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple


class Unfolded(NamedTuple):
    """The subwords of some tokens, and where each token ends among them."""

    subword_ids: list[int]
    last: list[int]
    """For each token the place of its last subword: σ of the paper."""


def unfold(
    token_ids: Sequence[int], *, num_subwords: int, phrases: Sequence[Sequence[int]]
) -> Unfolded:
    """Replace every phrase by its subwords; `phrases` are those of row id − num_subwords.

    >>> unfold([7, 10, 8], num_subwords=10, phrases=[(1, 2)])
    Unfolded(subword_ids=[7, 1, 2, 8], last=[0, 2, 3])
    """
    subword_ids: list[int] = []
    last = []
    for token in token_ids:
        subword_ids += [token] if token < num_subwords else phrases[token - num_subwords]
        last.append(len(subword_ids) - 1)
    return Unfolded(subword_ids, last)
