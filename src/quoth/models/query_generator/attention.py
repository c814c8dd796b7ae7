"""The decoder's attention: to what was written so far, and to the states of passages."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional


class Sources(NamedTuple):
    """What cross-attention reads: passages, projected once for all steps and rows."""

    keys: Tensor  # (B, H, S, D / H)
    values: Tensor  # (B, H, S, D / H)
    mask: Tensor  # (B, 1, 1, S) bool, or where there is a bias (B, H, 1, S) float, −inf if hidden


class Kept:
    """The keys and values of earlier steps of one layer."""

    def __init__(self) -> None:
        self._keys: Tensor | None = None
        self._values: Tensor | None = None

    @property
    def length(self) -> int:
        """Steps that are kept."""
        return 0 if self._keys is None else self._keys.shape[2]

    def add(self, keys: Tensor, values: Tensor) -> tuple[Tensor, Tensor]:
        """Append a step and give all of them."""
        if self._keys is not None and self._values is not None:
            keys = torch.cat((self._keys, keys), dim=2)
            values = torch.cat((self._values, values), dim=2)
        self._keys, self._values = keys, values
        return keys, values

    def reorder(self, parents: Tensor) -> None:
        """Let each row go on from another one."""
        if self._keys is not None and self._values is not None:
            self._keys = self._keys.index_select(0, parents)
            self._values = self._values.index_select(0, parents)


class _Attention(nn.Module):
    """Four projections and a number of heads."""

    def __init__(self, width: int, *, num_heads: int) -> None:
        super().__init__()
        self.query = nn.Linear(width, width)
        self.key = nn.Linear(width, width)
        self.value = nn.Linear(width, width)
        self.output = nn.Linear(width, width)
        self.dropout = nn.Dropout(0.0)  # read for its rate alone: attention drops inside
        self._num_heads = num_heads

    def _heads(self, states: Tensor) -> Tensor:
        """Split the width into heads: (B, T, D) to (B, H, T, D / H)."""
        batch, length, _width = states.shape
        return states.view(batch, length, self._num_heads, -1).transpose(1, 2)

    @property
    def _drop(self) -> float:
        return self.dropout.p if self.training else 0.0


class SelfAttention(_Attention):
    """Attention of each position to itself and those before it."""

    def forward(self, hidden: Tensor, kept: Kept | None) -> Tensor:  # (R, L, D)
        """Attend; with `kept`, hidden is one step that follows those kept."""
        query, key, value = (
            self._heads(project(hidden)) for project in (self.query, self.key, self.value)
        )
        if kept is not None:
            key, value = kept.add(key, value)
        found = functional.scaled_dot_product_attention(
            query, key, value, dropout_p=self._drop, is_causal=kept is None
        )
        output: Tensor = self.output(found.transpose(1, 2).flatten(2))
        return output


class CrossAttention(_Attention):
    """Attention to the states of passages."""

    def sources(self, states: Tensor, mask: Tensor, bias: Tensor | None) -> Sources:
        """Project passages; `bias` (B, H, S) is added to the logits of attention."""
        visible = mask[:, None, None, :]
        if bias is not None:
            visible = bias[:, :, None, :].masked_fill(~visible, float("-inf"))
        return Sources(self._heads(self.key(states)), self._heads(self.value(states)), visible)

    def forward(self, hidden: Tensor, sources: Sources) -> Tensor:  # (R, L, D)
        """Attend; the rows of one passage stand together and share its keys and values."""
        rows, length, width = hidden.shape
        shared = hidden.reshape(len(sources.keys), -1, width)  # (B, rows per passage · L, D)
        found = self._attend(self._heads(self.query(shared)), sources)
        output: Tensor = self.output(found.transpose(1, 2).reshape(rows, length, width))
        return output

    def _attend(self, query: Tensor, sources: Sources) -> Tensor:
        keys, values, mask = sources
        if mask.dtype == torch.bool:
            return functional.scaled_dot_product_attention(
                query, keys, values, attn_mask=mask, dropout_p=self._drop
            )
        with torch.autocast(query.device.type, enabled=False):  # a bias is worth full precision
            found = functional.scaled_dot_product_attention(
                query.float(), keys.float(), values.float(), attn_mask=mask, dropout_p=self._drop
            )
        return found.to(query.dtype)
