"""A BERT to search with, in the place of one from transformers.

Importing transformers takes longer than a search. A plain BERT, which is what most collections are
encoded with, needs nothing of it: the same operations stand in `models/bert.py`.
"""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

from torch import Tensor, nn

from quoth.models.attention import attention_shares
from quoth.models.bert import Bert, BertShape, read_shape, read_weights
from quoth.models.glow.config import GlowConfig


class PlainTower(nn.Module):
    """Reads as `BertModel` does, without its pooler; it cannot be trained or saved."""

    def __init__(self, tensors: dict[str, Tensor], shape: BertShape) -> None:
        super().__init__()
        self.config = SimpleNamespace(
            model_type="bert", hidden_size=shape.width, num_hidden_layers=shape.num_layers
        )
        positions = SimpleNamespace(num_embeddings=shape.num_positions, padding_idx=None)
        fields = SimpleNamespace(num_embeddings=shape.num_fields)
        self.embeddings = SimpleNamespace(
            position_embeddings=positions, token_type_embeddings=fields
        )
        self._read = Bert(tensors, shape), _RecordingBert(tensors, shape)

    def forward(
        self,
        input_ids: Tensor,
        token_type_ids: Tensor,
        attention_mask: Tensor,
        record: list[Tensor] | None = None,
    ) -> Any:
        """Return the states; `record` is given the attention of each layer."""
        plain, recording = self._read
        mask = attention_mask.bool()
        if record is None:
            return SimpleNamespace(last_hidden_state=plain.states(input_ids, mask, token_type_ids))
        states = recording.record(input_ids, mask, token_type_ids, record)
        return SimpleNamespace(last_hidden_state=states)


class _RecordingBert(Bert):
    """Keeps how much each subword looks at each other."""

    _shares: list[Tensor]
    _seen: Tensor

    def record(
        self, subword_ids: Tensor, mask: Tensor, field_ids: Tensor, shares: list[Tensor]
    ) -> Tensor:
        """Read sequences, and add the attention of each layer to `shares`."""
        self._shares, self._seen = shares, mask[:, None, None, :]
        return self.states(subword_ids, mask, field_ids)

    def _project_attended(
        self, within: str, states: Tensor, kept: int | None
    ) -> tuple[Tensor, Tensor, Tensor]:
        query, key, value = super()._project_attended(within, states, kept)
        heads = [
            each.view(*each.shape[:2], self.shape.num_heads, -1).transpose(1, 2)
            for each in (query, key)
        ]
        scale = (self.shape.width // self.shape.num_heads) ** -0.5
        self._shares.append(
            attention_shares(*heads, weights=None, mode="none", mask=self._seen, scale=scale)
        )
        return query, key, value


def open_plain_tower(folder: Path, config: GlowConfig) -> PlainTower | None:
    """Open an encoder that is plain BERT, unweighted; None where transformers has to load it."""
    is_plain = (config.weighting, config.towers, config.layout) == ("none", "shared", "joined")
    if not is_plain or config.pooling == "pooler" or config.num_layers:
        return None
    shape = read_shape(folder)
    tensors = None if shape is None else read_weights(folder, shape)
    return None if shape is None or tensors is None else PlainTower(tensors, shape)
