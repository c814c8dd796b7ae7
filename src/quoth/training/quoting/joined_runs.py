"""Plain and mixed answers behind one prompt: a sequence that reads the prompt once.

A prompt is much longer than its answer, and the same with phrases and without. So what follows it
is laid out twice in one sequence: subwords first, then tokens, each seeing the prompt and what
precedes it of its own kind, at the positions it would have alone.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn import functional

from quoth.training.quoting.batches import DynamicBatch

_MULTIPLE = 8  # attention is quick where lengths are multiples of it


class JoinedRuns(NamedTuple):
    """A batch of joined sequences, L long."""

    token_ids: Tensor  # (B, L)
    positions: Tensor  # (B, L)
    seen: Tensor  # (B, 1, L, L) bool: what each place (third axis) sees
    mixed_rows: Tensor  # (N,) places that predict a token, of (B, L) in one line


def join_runs(batch: DynamicBatch) -> JoinedRuns:
    """Put the mixed answers of a batch behind its plain sequences."""
    num_plain, num_mixed = batch.plain_ids.shape[1], batch.mixed_ids.shape[1]
    starts = batch.prompt_lengths[:, None]  # (B, 1)
    longest = max(0, num_mixed - int(starts.min()))
    longest += -(num_plain + longest) % _MULTIPLE
    places = starts + torch.arange(longest, device=starts.device)  # (B, A) of the mixed sequence
    inside = places.clamp_max(num_mixed - 1)
    exists = batch.mixed_mask.gather(1, inside) & (places < num_mixed)
    plain_positions = torch.arange(num_plain, device=starts.device).expand_as(batch.plain_ids)
    token_ids = batch.mixed_ids.gather(1, inside).masked_fill(~exists, 0)
    row, place = batch.mixed_rows // num_mixed, batch.mixed_rows % num_mixed
    behind = place - batch.prompt_lengths[row]
    own = torch.where(behind < 0, place, num_plain + behind)
    return JoinedRuns(
        torch.cat((batch.plain_ids, token_ids), 1),
        torch.cat((plain_positions, places), 1),
        _seen(batch.plain_mask, exists, starts)[:, None],
        row * (num_plain + longest) + own,
    )


def _seen(plain: Tensor, mixed: Tensor, starts: Tensor) -> Tensor:  # (B, L, L)
    """Say what is seen: by plain places plain ones, by mixed places the prompt and mixed ones."""
    num_plain, num_mixed = plain.shape[1], mixed.shape[1]
    before = torch.arange(num_plain, device=plain.device) < starts  # (B, T)
    above = torch.cat((_causal(plain), before[:, None].expand(-1, num_mixed, -1)), 1)
    below = functional.pad(_causal(mixed), (0, 0, num_plain, 0))
    return torch.cat((above, below), 2)


def _causal(mask: Tensor) -> Tensor:  # (B, T, T)
    length = mask.shape[1]
    ordered = torch.ones(length, length, dtype=torch.bool, device=mask.device).tril()
    return ordered & mask[:, None]
