"""Self-attention that takes a weight per token (GLOW, Eq. 2 and 4).

Modes, for the logit a_ij of token i looking at token j with weights w:
    row      w_i · a_ij     Eq. 4 and the authors' released code: each token's own sharpness
    column   w_j · a_ij     Eq. 2: the weight of what is looked at
    add_log  a_ij + ln w_j  attention in proportion to w_j, monotone in it
    none     a_ij
All are exact with the stock kernel: scale the queries, scale the keys, or add a bias; the mask is
applied after weighting. The weights are the same in all layers and heads and carry no gradient.
`merge` is the paper's ablation GLOW_wt, a small trained network over (a_ij, w_j).

Any Hugging Face encoder that lets its attention be replaced takes this one, once it is registered
under the name `IMPLEMENTATION`; the weights travel as a keyword argument of its forward pass.
"""

from __future__ import annotations

import functools
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

IMPLEMENTATION = "quoth_weighted"
MODES = ("row", "column", "add_log", "merge", "none")


def attend(
    query: Tensor,  # (B, H, T, D)
    key: Tensor,
    value: Tensor,
    *,
    weights: Tensor | None,  # (B, T)
    mode: str,
    mask: Tensor | None = None,  # (B, 1, T or 1, T), True where it may look
    scale: float | None = None,
    dropout: float = 0.0,
) -> Tensor:
    """Attend with weighted logits; without weights this is the stock attention."""
    bias = mask
    if weights is not None and mode != "none":
        fixed = weights.detach().float()  # the product is rounded to the encoder's type, once
        if mode == "row":
            query = (query * fixed[:, None, :, None]).to(query.dtype)
        elif mode == "column":
            key = (key * fixed[:, None, :, None]).to(key.dtype)
        elif mode == "add_log":
            logs = fixed.clamp_min(torch.finfo(fixed.dtype).tiny).log()
            bias = _join_bias(logs.to(query.dtype), mask)
        else:
            raise ValueError(f"there is no weighting mode {mode!r}")
    return functional.scaled_dot_product_attention(
        query, key, value, attn_mask=bias, dropout_p=dropout, scale=scale
    )


class Merge(nn.Module):
    """A small network that turns a logit and a weight into a logit (ablation GLOW_wt).

    It starts as the identity on the logit, so training decides how much the weight matters.
    """

    def __init__(self, width: int = 8) -> None:
        super().__init__()
        self.inner = nn.Linear(2, width)
        self.outer = nn.Linear(width, 1)
        nn.init.zeros_(self.outer.weight)
        nn.init.zeros_(self.outer.bias)

    def forward(self, logits: Tensor, weights: Tensor) -> Tensor:  # (B, H, T, T), (B, T)
        """Merge each logit with the weight of the token that is looked at."""
        columns = weights[:, None, None, :].expand_as(logits)
        hidden = torch.tanh(self.inner(torch.stack((logits, columns), dim=-1)))
        merged: Tensor = self.outer(hidden).squeeze(-1)
        return logits + merged


def attend_merged(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    *,
    weights: Tensor,
    merge: Merge,
    mask: Tensor | None,
    scale: float,
    dropout: float,
) -> Tensor:
    """Attend with logits merged by a trained network; holds all logits in memory."""
    logits = merge(query @ key.transpose(-1, -2) * scale, weights.detach().to(query.dtype))
    if mask is not None:
        logits = logits.masked_fill(~mask, float("-inf"))
    return functional.dropout(logits.softmax(-1), dropout, training=dropout > 0) @ value


def attention_shares(
    query: Tensor,  # (B, H, T, D)
    key: Tensor,
    *,
    weights: Tensor | None,  # (B, T)
    mode: str,
    mask: Tensor | None,  # (B, 1, T or 1, T), True where it may look
    scale: float,
    merge: Merge | None = None,
) -> Tensor:  # (B, H, T, T)
    """Return how much each token looks at each other, which `attend` computes but does not keep."""
    logits = query.float() @ key.float().transpose(-1, -2) * scale
    if weights is not None and mode != "none":
        fixed = weights.detach().float()
        if mode == "row":
            logits = fixed[:, None, :, None] * logits
        elif mode == "column":
            logits = fixed[:, None, None, :] * logits
        elif mode == "add_log":
            logits = logits + fixed.clamp_min(torch.finfo(fixed.dtype).tiny).log()[:, None, None, :]
        elif merge is not None:
            logits = merge(logits.to(query.dtype), fixed.to(query.dtype)).float()
    if mask is not None:
        logits = logits.masked_fill(~mask, float("-inf"))
    return logits.softmax(-1)


def _join_bias(bias: Tensor, mask: Tensor | None) -> Tensor:
    columns = bias[:, None, None, :]
    if mask is None:
        return columns
    return columns.expand(mask.shape).masked_fill(~mask, float("-inf"))


def _attend_in_encoder(
    module: nn.Module,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attention_mask: Tensor | None,
    *,
    scaling: float,
    dropout: float = 0.0,
    token_weights: Tensor | None = None,
    weighting: str = "none",
    merge: Merge | None = None,
    record: list[Tensor] | None = None,
    **_others: Any,
) -> tuple[Tensor, None]:
    """Meet the interface that Hugging Face encoders call; `record` is given each layer's shares."""
    if record is not None:
        shares = attention_shares(
            query,
            key,
            weights=token_weights,
            mode=weighting,
            mask=attention_mask,
            scale=scaling,
            merge=merge,
        )
        record.append(shares)
    if weighting == "merge" and token_weights is not None and merge is not None:
        out = attend_merged(
            query,
            key,
            value,
            weights=token_weights,
            merge=merge,
            mask=attention_mask,
            scale=scaling,
            dropout=dropout,
        )
    else:
        out = attend(
            query,
            key,
            value,
            weights=token_weights,
            mode=weighting,
            mask=attention_mask,
            scale=scaling,
            dropout=dropout,
        )
    return out.transpose(1, 2).contiguous(), None


@functools.cache
def register_attention() -> str:
    """Let Hugging Face encoders take this attention, and return the name that they know it by."""
    from transformers.masking_utils import ALL_MASK_ATTENTION_FUNCTIONS
    from transformers.modeling_utils import ALL_ATTENTION_FUNCTIONS

    ALL_ATTENTION_FUNCTIONS.register(IMPLEMENTATION, _attend_in_encoder)
    ALL_MASK_ATTENTION_FUNCTIONS.register(IMPLEMENTATION, ALL_MASK_ATTENTION_FUNCTIONS["sdpa"])
    return IMPLEMENTATION
