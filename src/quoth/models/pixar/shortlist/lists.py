"""Lists of phrases, one per centroid or cell, and the union of some of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from quoth.models.pixar.shortlist import kernel
from quoth.models.pixar.shortlist.rows import to_floats
from quoth.models.pixar.shortlist.scan import offer

Floats = NDArray[np.float32]
Places = NDArray[np.int32]

_SCORES_AT_ONCE = 1 << 26
_LISTS_AT_ONCE = 256


class Lists:
    """Ragged lists of places in one flat array; the best of each come first."""

    def __init__(self, members: Places, bounds: NDArray[np.int64]) -> None:
        self.members = members
        self.bounds = bounds

    @classmethod
    def of(cls, lists: Sequence[Places]) -> Lists:
        """Put lists one behind the other."""
        bounds = np.cumsum([0, *(len(each) for each in lists)], dtype=np.int64)
        empty = np.empty(0, dtype=np.int32)
        return cls(np.concatenate((empty, *lists)).astype(np.int32), bounds)

    def __len__(self) -> int:
        return len(self.bounds) - 1

    def lengths(self) -> NDArray[np.int64]:
        """Return how many places each list holds."""
        return np.diff(self.bounds)

    def arrays(self) -> Mapping[str, NDArray[Any]]:
        """Return what the lists consist of, by name."""
        return {"members": self.members, "bounds": self.bounds}

    def join(self, chosen: Sequence[int], *, num_rows: int, length: int) -> Places:
        """Return the places on some lists, ascending; only the first `length` of each count."""
        words = np.zeros((num_rows >> 6) + 1, dtype=np.uint64)
        for at in chosen:
            start, stop = self.bounds[at], self.bounds[at + 1]
            kernel.mark(self.members[start : min(stop, start + length)], words)
        places: Places = kernel.list_marked(words)
        return places

    def follow(self, order: Places) -> Lists:
        """Return the same lists for rows that were put in an order."""
        return Lists(invert(order)[self.members], self.bounds)


def invert(order: Places) -> Places:
    """Return the place of each phrase, from the phrase of each place.

    >>> invert(np.array([2, 0, 1], dtype=np.int32)).tolist()
    [1, 2, 0]
    """
    places = np.empty_like(order)
    places[order] = np.arange(len(order), dtype=order.dtype)
    return places


def top_lists(head: Tensor, bias: Tensor, vectors: Tensor, *, length: int) -> Places:
    """Find the phrases with the highest vector · row + bias, (N, length), best first.

    Products are computed in the head's type, on its device. On a processor the head is read once
    for 256 vectors, whatever the length of lists.
    """
    length = min(length, len(head))
    select = _select_there if head.is_cuda else _select_here
    parts = [
        select(head, bias.float(), some.to(head), length)
        for some in torch.split(vectors, _LISTS_AT_ONCE)
    ]
    return np.concatenate(parts) if parts else np.empty((0, length), dtype=np.int32)


def _blocks(head: Tensor, count: int) -> list[tuple[int, int]]:
    size = max(1, _SCORES_AT_ONCE // count)
    return list(pairwise([*range(0, len(head), size), len(head)]))


def _select_here(head: Tensor, bias: Tensor, vectors: Tensor, length: int) -> Places:
    best = np.full((len(vectors), length), -np.inf, dtype=np.float32)
    places = np.full((len(vectors), length), len(head), dtype=np.int32)
    for start, stop in _blocks(head, len(vectors)):
        scores = (vectors @ head[start:stop].T).float() + bias[start:stop]
        offer(to_floats(scores).T, start, best, places)
    order = np.lexsort((places, -best), axis=1)
    return np.take_along_axis(places, order, axis=1)


def _select_there(head: Tensor, bias: Tensor, vectors: Tensor, length: int) -> Places:
    best = torch.full((len(vectors), 0), -torch.inf, device=head.device)
    places = torch.zeros((len(vectors), 0), dtype=torch.int64, device=head.device)
    for start, stop in _blocks(head, len(vectors)):
        scores = (vectors @ head[start:stop].T).float() + bias[start:stop]
        own = torch.arange(start, stop, device=head.device).expand_as(scores)
        best, chosen = torch.topk(
            torch.cat((best, scores), dim=1), min(length, best.shape[1] + stop - start), dim=1
        )
        places = torch.cat((places, own), dim=1).gather(1, chosen)
    numbers: Places = places.int().cpu().numpy()
    return numbers
