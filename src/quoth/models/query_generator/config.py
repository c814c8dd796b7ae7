"""What a query generator is: its decoder, what it reads with, and how texts are cut."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from quoth.constraints import AtLeastOne, CheckedConfig, OneOf, Positive, Range, not_empty


@dataclass(frozen=True, slots=True)
class QueryGeneratorConfig(CheckedConfig, title="query generator"):
    """Settings of a query generator; they are saved with it."""

    num_layers: AtLeastOne = 6
    """Layers of the decoder; each starts as a layer of the encoder."""

    max_passage_subwords: Annotated[int, Range(8)] = 192
    """Most subwords of a passage, special ones included; the rest is cut."""

    max_query_subwords: Annotated[int, Range(4)] = 32
    """Most subwords of a query, the end symbol included; the rest is cut."""

    memory: Annotated[str, OneOf("layers", "last")] = "layers"
    """What the decoder reads of a passage: the encoder's last states alone (last), or with what
    a trained mix takes from its embeddings and middle layer (layers), where words are clearer."""

    train_encoder: bool = False
    """Train the encoder too; it is then saved with the decoder instead of being named."""


@dataclass(frozen=True, slots=True)
class CausalGeneratorConfig(CheckedConfig, title="causal query generator"):
    """Settings of a query generator over a causal language model; they are saved with it."""

    max_passage_subwords: Annotated[int, Range(8)] = 224
    """Most subwords of a passage, what stands around it included; the rest is cut."""

    max_query_subwords: Annotated[int, Range(4)] = 40
    """Most subwords of a query, the end symbol included; the rest is cut."""

    separator: Annotated[str, not_empty("what stands between passage and query")] = "\nQuery:"
    """What stands between a passage and its query."""

    lower_case: bool = True
    """Read and write queries in lower case, since search tells no case apart; passages keep
    theirs."""

    lora_rank: AtLeastOne = 8
    """Rank of the adapters over the language model."""

    lora_alpha: Positive = 32.0
    """Adapters are scaled by alpha / rank."""
