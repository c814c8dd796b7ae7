"""The dual encoder: token batches in, unit vectors out. No strings, no files, no devices chosen.

The base is a Hugging Face encoder of the BERT kind, made with the attention implementation
`attention.IMPLEMENTATION`; attention can be weighted in those of `WEIGHTABLE`, which hand it on to
that implementation. Field embeddings live in its token-type table, grown to `NUM_FIELDS` rows that
start equal, so a pretrained encoder is unchanged until it is trained; DistilBERT, which has none,
is given one that is zero. A projection adds a linear map for each side, without bias or activation,
to vectors of another length (RUMBArt).
"""

from __future__ import annotations

import copy
from typing import Any, NamedTuple

import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn import functional

from quoth.errors import ConfigError
from quoth.models.attention import Merge
from quoth.models.glow.config import NUM_FIELDS
from quoth.models.kernels import steady_kernels

WEIGHTABLE = ("bert", "distilbert", "roberta", "xlm-roberta")
"""Architectures whose attention can be weighted; others would ignore the weights in silence."""


class TokenBatch(NamedTuple):
    """Padded sequences of subwords."""

    subword_ids: Tensor  # (B, T) int64
    mask: Tensor  # (B, T) bool, False where padded
    weights: Tensor  # (B, T) float, 1 where padded
    field_ids: Tensor  # (B, T) int64

    @classmethod
    def of(cls, *arrays: NDArray[Any]) -> TokenBatch:
        """Take over arrays, in the order above."""
        return cls(*map(torch.from_numpy, arrays))

    def to(self, device: torch.device) -> TokenBatch:
        """Move all tensors."""
        return TokenBatch(*(tensor.to(device, non_blocking=True) for tensor in self))


class GlowNetwork(nn.Module):
    """One or two encoders, and how their states become vectors."""

    def __init__(
        self,
        base: nn.Module,
        *,
        pooling: str,
        weighting: str,
        separate: bool,
        num_layers: int = 0,
        projection: int = 0,
    ) -> None:
        super().__init__()
        _require_supported(base, pooling=pooling, weighting=weighting)
        if num_layers:
            keep_layers(base, num_layers)
        self.query_encoder = base
        self.document_encoder = copy.deepcopy(base) if separate else base
        if separate:  # tied: one table of words for both
            words = base.get_input_embeddings()  # type: ignore[operator]
            self.document_encoder.set_input_embeddings(words)  # type: ignore[operator]
        self.merge = Merge() if weighting == "merge" else None
        settings: Any = base.config
        self.projection = Projection(settings.hidden_size, projection) if projection else None
        self.pooling = pooling
        self.weighting = weighting

    def encode_queries(self, batch: TokenBatch) -> Tensor:  # (B, D)
        """Return the unit vectors of queries."""
        return functional.normalize(self.raw_queries(batch).float(), dim=-1)

    def encode_documents(self, batch: TokenBatch) -> Tensor:  # (B, D)
        """Return the unit vectors of documents."""
        return functional.normalize(self.raw_documents(batch).float(), dim=-1)

    def raw_queries(self, batch: TokenBatch) -> Tensor:  # (B, D)
        """Return the vectors of queries before they are brought to unit length."""
        pooled = self._pool(self.query_encoder, batch)
        return pooled if self.projection is None else self.projection.queries(pooled)

    def raw_documents(self, batch: TokenBatch) -> Tensor:  # (B, D)
        """Return the vectors of documents before they are brought to unit length."""
        pooled = self._pool(self.document_encoder, batch)
        return pooled if self.projection is None else self.projection.documents(pooled)

    def states(
        self, encoder: nn.Module, batch: TokenBatch, *, record: list[Tensor] | None = None
    ) -> Any:
        """Run an encoder; its output holds the token states (B, T, D) and maybe a pooled one.

        `record` is given the attention of each layer (B, H, T, T), where it can be weighted.
        """
        extra: dict[str, Any] = {}
        if self.weighting != "none":
            extra = {"token_weights": batch.weights, "weighting": self.weighting}
        if self.merge is not None:
            extra["merge"] = self.merge
        if record is not None:
            extra["record"] = record
        with steady_kernels(batch.mask.device):
            return encoder(
                **_words_and_fields(encoder, batch), attention_mask=batch.mask.long(), **extra
            )

    def _pool(self, encoder: nn.Module, batch: TokenBatch) -> Tensor:
        return pool(self.states(encoder, batch), batch.mask, how=self.pooling)


class Projection(nn.Module):
    """A linear map for each side; both start as one orthogonal map, which keeps what was near near.

    Two independent random maps, as in the thesis, would make the first scores pure chance.
    """

    def __init__(self, width: int, size: int) -> None:
        super().__init__()
        self.queries = nn.Linear(width, size, bias=False)
        self.documents = nn.Linear(width, size, bias=False)
        nn.init.orthogonal_(self.queries.weight)
        with torch.no_grad():
            self.documents.weight.copy_(self.queries.weight)


def pool(output: Any, mask: Tensor, *, how: str) -> Tensor:  # (B, D)
    """Turn token states into one vector per sequence."""
    states = output.last_hidden_state  # (B, T, D)
    if how == "cls":
        return states[:, 0]  # type: ignore[no-any-return]
    if how == "pooler":
        return output.pooler_output  # type: ignore[no-any-return]
    kept = states.masked_fill(~mask[..., None], 0.0)
    return kept.sum(1) / mask.sum(1, keepdim=True).clamp_min(1)  # type: ignore[no-any-return]


def pooled_shares(layer: Tensor, mask: Tensor, *, how: str) -> Tensor:
    """Return the share of each token (B, T) in the looks of one layer (B, H, T, T) that are pooled.

    >>> layer = torch.tensor([[[[0.8, 0.2], [0.4, 0.6]]]])
    >>> mask = torch.ones(1, 2, dtype=torch.bool)
    >>> pooled_shares(layer, mask, how="cls"), pooled_shares(layer, mask, how="mean")
    (tensor([[0.8000, 0.2000]]), tensor([[0.6000, 0.4000]]))
    """
    heads = layer.mean(1)  # (B, T, T)
    if how != "mean":
        return heads[:, 0]
    looks = heads.masked_fill(~mask[..., None], 0.0)
    return looks.sum(1) / mask.sum(1, keepdim=True)


def layer_stack(base: Any) -> Any:
    """Find the part of an encoder that holds its layers: `transformer` in DistilBERT."""
    for name in ("encoder", "transformer"):
        stack = getattr(base, name, None)
        if isinstance(getattr(stack, "layer", None), nn.ModuleList):
            return stack
    raise ConfigError(
        f"the layers of an encoder of the kind {base.config.model_type!r} cannot be cut or renewed;"
        f" set num_layers to 0, or take one of {', '.join(WEIGHTABLE)}"
    )


def keep_layers(base: Any, count: int, *, spread: bool = False) -> None:
    """Keep the lowest layers of an encoder, or as many at even distances from first to last."""
    stack = layer_stack(base)
    if count > len(stack.layer):
        raise ConfigError(f"the encoder has {len(stack.layer)} layers, {count} were asked for")
    kept = spread_places(len(stack.layer), count) if spread else range(count)
    stack.layer = nn.ModuleList([stack.layer[at] for at in kept])
    base.config.num_hidden_layers = count


def spread_places(total: int, count: int) -> list[int]:
    """Choose places at even distances, the first and the last among them where there are two.

    >>> spread_places(6, 3), spread_places(12, 3), spread_places(6, 1)
    ([0, 2, 5], [0, 6, 11], [0])
    """
    step = (total - 1) / max(1, count - 1)
    return [round(at * step) for at in range(count)]


def has_added_fields(base: Any) -> bool:
    """Whether an encoder that knows no token types was given a table of fields."""
    has_table = hasattr(base.embeddings, "token_type_embeddings")
    return bool(base.config.model_type == "distilbert" and has_table)


def grow_field_table(base: Any, count: int = NUM_FIELDS) -> None:
    """Give the encoder a token-type embedding per field, all equal to its first one."""
    if base.config.model_type == "distilbert":
        if not has_added_fields(base):
            words = base.get_input_embeddings()
            added = nn.Embedding(count, words.embedding_dim, dtype=words.weight.dtype)
            nn.init.zeros_(added.weight)
            base.embeddings.token_type_embeddings = added
        return
    old = getattr(base.embeddings, "token_type_embeddings", None)
    if old is None:
        raise ConfigError(
            f"an encoder of the kind {base.config.model_type!r} has no table for fields; set layout"
            f" to joined, or take one of {', '.join(WEIGHTABLE)}"
        )
    if old.num_embeddings >= count:
        return
    grown = nn.Embedding(count, old.embedding_dim, dtype=old.weight.dtype)
    with torch.no_grad():
        grown.weight.copy_(old.weight[:1].expand(count, -1))
        grown.weight[: old.num_embeddings].copy_(old.weight)
        grown.weight[1 : old.num_embeddings].copy_(old.weight[:1])
    base.embeddings.token_type_embeddings = grown
    base.config.type_vocab_size = count


def _words_and_fields(encoder: Any, batch: TokenBatch) -> dict[str, Tensor]:
    """Return the subwords and their fields in the form that an encoder takes them."""
    embeddings = getattr(encoder, "embeddings", None)
    if not hasattr(embeddings, "token_type_embeddings"):
        return {"input_ids": batch.subword_ids}
    if not has_added_fields(encoder):
        return {"input_ids": batch.subword_ids, "token_type_ids": batch.field_ids}
    # DistilBERT adds positions to whatever it is given: words and fields, as BERT would.
    fields = encoder.embeddings.token_type_embeddings(batch.field_ids)
    return {"inputs_embeds": encoder.get_input_embeddings()(batch.subword_ids) + fields}


def _require_supported(base: Any, *, pooling: str, weighting: str) -> None:
    """Refuse what the encoder's architecture cannot do, all at once."""
    kind, problems = base.config.model_type, []
    if weighting != "none" and kind not in WEIGHTABLE:
        problems.append(
            f"attention cannot be weighted in an encoder of the kind {kind!r}, only in"
            f" {', '.join(WEIGHTABLE)}; set weighting to none, or take another encoder"
        )
    if pooling == "pooler" and getattr(base, "pooler", None) is None:
        problems.append(
            f"an encoder of the kind {kind!r} has no pooler; set pooling to mean or cls"
        )
    if problems:
        raise ConfigError("; ".join(problems))
