"""What a PIXAR model is: its slots, its head and how queries are cut, every open choice a field."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Annotated

from quoth.constraints import AtLeastOne, AtLeastZero, CheckedConfig, NonNegative, OneOf, Range


@dataclass(frozen=True, slots=True)
class PixarConfig(CheckedConfig, title="pixar model"):
    """Settings of a PIXAR model; they are saved with it."""

    slots: Annotated[str, OneOf("decoder", "mask", "input")] = "decoder"
    """Where slot vectors come from: a small decoder that reads the query's states (decoder), mask
    subwords after the query (mask), or the first positions of the query itself (input, as in the
    paper, the query filled up with positions that are read)."""

    num_slots: AtLeastOne = 10
    """Phrases of the longest identifier that can be named; the 99th percentile of the lengths and
    one more is the paper's."""

    slot_layers: AtLeastOne = 2
    """Layers of the slot decoder."""

    pooling: Annotated[str, OneOf("mean", "cls")] = "mean"
    """How token states become the pooled vector x₀: mean or cls."""

    residual: bool = True
    """Slot vectors are the pooled vector and something added, which starts at nothing."""

    scale: NonNegative = 10.0
    """Where the learned length of the pooled vector starts; 0 leaves it as the encoder gives it."""

    head_width: AtLeastZero = 0
    """Length of the head's rows, by a linear map of all vectors; 0 is the encoder's own."""

    rows: Annotated[str, OneOf("encoder", "random")] = "encoder"
    """Where the head's rows start: at the encoder's vectors of the phrases' texts, or at random."""

    unit_rows: bool = True
    """Take the head's rows at unit length."""

    row_lengths: bool = False
    """Rows that start at the encoder's vectors are as long as the network finds phrases telling,
    which a pretrained network has learned; needs unit_rows = False."""

    word_vectors: bool = False
    """Give every subword of a query a vector beside x₀, so that a phrase may be named by the part
    of the query that knows it best (order = bag_max)."""

    bias: Annotated[str, OneOf("unigram", "uniform", "zero")] = "unigram"
    """Where the head's bias starts: log frequency (unigram), −ln of the vocabulary's size for all
    (uniform), which also makes normalisers start near 1, or zero."""

    tail: Annotated[str, OneOf("eos", "pad", "none")] = "eos"
    """What slots after an identifier are taught: its end once (eos), the end and then padding
    (pad), or nothing (none)."""

    max_query_subwords: Annotated[int, Range(4)] = 64
    """Most subwords of a query, special ones included; the rest is cut."""

    train_encoder: bool = True
    """Train the encoder too; it is then saved with the model instead of being named."""

    def conflicts(self) -> Iterator[str]:
        """Say where rows of learned lengths would lose them."""
        if self.row_lengths and self.unit_rows:
            yield "row_lengths needs unit_rows = False, or all rows are of unit length"
