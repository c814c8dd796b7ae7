"""The reader's network: a question and a passage as one sequence in, scores out.

A BERT-like encoder reads both together. Every subword gets three scores: as the first of an answer,
as the last of one, and as part of a sentence that holds one. The first state, [CLS], gets the same
scores, which stand for "not here", and one more: how relevant the passage is.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from torch import Tensor, nn
from torch.nn import functional

from quoth.models.kernels import steady_kernels


class SequenceBatch(NamedTuple):
    """Padded sequences of subwords."""

    subword_ids: Tensor  # (B, T) int64
    field_ids: Tensor  # (B, T) int64, 0 for the question
    mask: Tensor  # (B, T) bool, False where padded


class ReaderScores(NamedTuple):
    """What the network says of each subword, and of each sequence as a whole."""

    starts: Tensor  # (B, T)
    ends: Tensor  # (B, T)
    evidence: Tensor  # (B, T)
    relevance: Tensor  # (B,)


class ReaderNetwork(nn.Module):
    """An encoder in the Hugging Face layout with the reader's heads, to be trained."""

    def __init__(self, encoder: nn.Module) -> None:
        super().__init__()
        self.encoder = encoder
        width = int(encoder.config.hidden_size)  # type: ignore[union-attr,arg-type]
        self.places = nn.Linear(width, 3)
        self.relevance = nn.Linear(width, 1)

    def forward(self, batch: SequenceBatch) -> ReaderScores:
        """Read sequences."""
        with steady_kernels(batch.mask.device):
            states = self.encoder(
                input_ids=batch.subword_ids,
                token_type_ids=batch.field_ids,
                attention_mask=batch.mask,
            ).last_hidden_state
        return score_states(states, dict(self.named_parameters()))


def score_states(states: Tensor, heads: Mapping[str, Tensor]) -> ReaderScores:  # (B, T, D)
    """Turn states into scores."""
    places = functional.linear(states, heads["places.weight"], heads["places.bias"])
    relevance = functional.linear(states[:, 0], heads["relevance.weight"], heads["relevance.bias"])
    starts, ends, evidence = places.float().unbind(-1)
    return ReaderScores(starts, ends, evidence, relevance.float().squeeze(-1))
