"""The dual encoder: token batches in, unit vectors out. No strings, no files, no devices chosen.

The base is any Hugging Face encoder of the BERT kind, made with the attention implementation
`attention.IMPLEMENTATION`. Field embeddings live in its token-type table, grown to `NUM_FIELDS`
rows that start equal, so a pretrained encoder is unchanged until it is trained.
"""

from __future__ import annotations

import copy
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional

from quoth.errors import ConfigError
from quoth.models.attention import Merge

NUM_FIELDS = 16


class TokenBatch(NamedTuple):
    """Padded sequences of subwords."""

    subword_ids: Tensor  # (B, T) int64
    mask: Tensor  # (B, T) bool, False where padded
    weights: Tensor  # (B, T) float, 1 where padded
    field_ids: Tensor  # (B, T) int64

    def to(self, device: torch.device) -> TokenBatch:
        """Move all tensors."""
        return TokenBatch(*(tensor.to(device, non_blocking=True) for tensor in self))


class GlowNetwork(nn.Module):
    """One or two encoders, and how their states become vectors."""

    def __init__(
        self, base: nn.Module, *, pooling: str, weighting: str, separate: bool, num_layers: int = 0
    ) -> None:
        super().__init__()
        if num_layers:
            keep_layers(base, num_layers)
        self.query_encoder = base
        self.document_encoder = copy.deepcopy(base) if separate else base
        if separate:  # tied: one table of words for both
            words = base.get_input_embeddings()  # type: ignore[operator]
            self.document_encoder.set_input_embeddings(words)  # type: ignore[operator]
        self.merge = Merge() if weighting == "merge" else None
        self.pooling = pooling
        self.weighting = weighting

    def encode_queries(self, batch: TokenBatch) -> Tensor:  # (B, D)
        """Give the unit vectors of queries."""
        return self._encode(self.query_encoder, batch)

    def encode_documents(self, batch: TokenBatch) -> Tensor:  # (B, D)
        """Give the unit vectors of documents."""
        return self._encode(self.document_encoder, batch)

    def states(self, encoder: nn.Module, batch: TokenBatch) -> Any:
        """Run an encoder; its output holds the token states (B, T, D) and maybe a pooled one."""
        extra: dict[str, Any] = {}
        if self.weighting != "none":
            extra = {"token_weights": batch.weights, "weighting": self.weighting}
        if self.merge is not None:
            extra["merge"] = self.merge
        return encoder(
            input_ids=batch.subword_ids,
            attention_mask=batch.mask.long(),
            token_type_ids=batch.field_ids,
            **extra,
        )

    def _encode(self, encoder: nn.Module, batch: TokenBatch) -> Tensor:
        output = self.states(encoder, batch)
        return functional.normalize(pool(output, batch.mask, how=self.pooling).float(), dim=-1)


def pool(output: Any, mask: Tensor, *, how: str) -> Tensor:  # (B, D)
    """Turn token states into one vector per sequence."""
    states = output.last_hidden_state  # (B, T, D)
    if how == "cls":
        return states[:, 0]  # type: ignore[no-any-return]
    if how == "pooler":
        return output.pooler_output  # type: ignore[no-any-return]
    kept = states.masked_fill(~mask[..., None], 0.0)
    return kept.sum(1) / mask.sum(1, keepdim=True).clamp_min(1)  # type: ignore[no-any-return]


def keep_layers(base: Any, count: int) -> None:
    """Keep the lowest layers of an encoder."""
    layers = base.encoder.layer
    if count > len(layers):
        raise ConfigError(f"the encoder has {len(layers)} layers, {count} were asked for")
    base.encoder.layer = layers[:count]
    base.config.num_hidden_layers = count


def grow_field_table(base: Any, count: int = NUM_FIELDS) -> None:
    """Give the encoder a token-type embedding per field, all equal to its first one."""
    old = base.embeddings.token_type_embeddings
    if old.num_embeddings >= count:
        return
    grown = nn.Embedding(count, old.embedding_dim, dtype=old.weight.dtype)
    with torch.no_grad():
        grown.weight.copy_(old.weight[:1].expand(count, -1))
        grown.weight[: old.num_embeddings].copy_(old.weight)
        grown.weight[1 : old.num_embeddings].copy_(old.weight[:1])
    base.embeddings.token_type_embeddings = grown
    base.config.type_vocab_size = count
