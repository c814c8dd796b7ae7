"""Sequences of subwords end to end, from which padded batches are cut on the device."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from quoth.models.glow.network import TokenBatch


@dataclass(frozen=True, slots=True)
class SequenceTable:
    """Sequences end to end; `batch` cuts out and pads those asked for, on the table's device."""

    subword_ids: Tensor  # (all,) int32, or int16 that holds an unsigned one
    field_ids: Tensor  # (all,) uint8
    weights: Tensor | None  # (all,) float16; None where all are one
    offsets: Tensor  # (N + 1,) int64
    lengths: NDArray[np.int64]  # (N,) always on the CPU
    pad: int = 0

    @classmethod
    def join(cls, sequences: Sequence[Sequence[int]], *, pad: int = 0) -> SequenceTable:
        """Lay sequences end to end."""
        flat = np.array([each for own in sequences for each in own], dtype=np.int64)
        return cls.from_lengths(flat, [len(own) for own in sequences], pad=pad)

    @classmethod
    def from_lengths(
        cls, subword_ids: NDArray[Any], lengths: Sequence[int] | NDArray[Any], *, pad: int = 0
    ) -> SequenceTable:
        """Make a table without fields and weights; 16 bits per subword where they suffice."""
        return cls.from_arrays(
            narrow_ids(subword_ids),
            find_offsets(lengths),
            field_ids=np.zeros(len(subword_ids), dtype=np.uint8),
            weights=None,
            pad=pad,
        )

    @classmethod
    def from_arrays(
        cls,
        subword_ids: NDArray[Any],
        offsets: NDArray[np.int64],
        *,
        field_ids: NDArray[np.uint8],
        weights: NDArray[Any] | None,
        pad: int = 0,
    ) -> SequenceTable:
        """Wrap arrays without copying them; they may be memory-mapped."""
        signed = np.int16 if subword_ids.dtype == np.uint16 else np.int32
        return cls(
            torch.from_numpy(subword_ids.view(signed)),
            torch.from_numpy(field_ids),
            None if weights is None else torch.from_numpy(weights),
            torch.from_numpy(offsets),
            np.diff(offsets),
            pad,
        )

    def __len__(self) -> int:
        return len(self.lengths)

    @property
    def stored_ids(self) -> NDArray[Any]:
        """The subwords as they are written: unsigned where they have 16 bits."""
        ids = self.subword_ids.cpu().numpy()
        return ids.view(np.uint16) if ids.dtype == np.int16 else ids

    def to(self, device: torch.device) -> SequenceTable:
        """Move the sequences to a device, whole."""
        return replace(
            self,
            subword_ids=self.subword_ids.to(device),
            field_ids=self.field_ids.to(device),
            weights=None if self.weights is None else self.weights.to(device),
            offsets=self.offsets.to(device),
        )

    def batch(self, rows: NDArray[np.int64]) -> TokenBatch:
        """Pad the sequences of some rows to the longest of them."""
        device = self.offsets.device
        at = torch.from_numpy(rows).to(device, non_blocking=True)
        start, end = self.offsets[at], self.offsets[at + 1]
        span = torch.arange(int(self.lengths[rows].max()), device=device)
        places = start[:, None] + span[None, :]  # (B, T)
        mask = places < end[:, None]
        places = places.clamp_max(len(self.subword_ids) - 1)
        ids = self.subword_ids[places].long()
        if self.subword_ids.dtype == torch.int16:
            ids = ids & 0xFFFF  # the sign bit was the highest of an unsigned number
        weights = torch.ones(mask.shape, device=device)
        if self.weights is not None:
            weights = self.weights[places].float().masked_fill(~mask, 1.0)
        field_ids = self.field_ids[places].long().masked_fill(~mask, 0)
        return TokenBatch(ids.masked_fill(~mask, self.pad), mask, weights, field_ids)


def narrow_ids(ids: NDArray[Any]) -> NDArray[Any]:
    """Store subwords in 16 bits where the vocabulary allows it."""
    highest = int(ids.max(initial=0))
    return ids.astype(np.uint16 if highest <= np.iinfo(np.uint16).max else np.int32)


def find_offsets(lengths: Sequence[int] | NDArray[Any]) -> NDArray[np.int64]:  # (N + 1,)
    """Return where each of some sequences begins, and the end.

    >>> find_offsets([2, 0, 3]).tolist()
    [0, 2, 2, 5]
    """
    return np.concatenate((np.zeros(1, dtype=np.int64), np.cumsum(lengths, dtype=np.int64)))
