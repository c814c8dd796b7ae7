"""What a dynamic language model is: its base, how it is tuned, how phrases are read."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from quoth.constraints import (
    AtLeastOne,
    AtLeastZero,
    CheckedConfig,
    OneOf,
    Positive,
    Range,
    ShareBelowOne,
    not_empty,
)


@dataclass(frozen=True, slots=True)
class DynamicLMConfig(CheckedConfig, title="model"):
    """Settings of a dynamic language model; they are saved with it."""

    base: Annotated[str, not_empty("the name or folder of a causal model")] = (
        "SmolLM2-135M-Instruct"
    )
    """Causal language model to start from: the bundled one by name, a folder, or owner/name on a
    hub."""

    tuning: Annotated[str, OneOf("lora", "full")] = "lora"
    """What is trained: adapters over frozen weights (lora), or all weights (full)."""

    lora_rank: AtLeastOne = 8
    """Rank of the adapters; the language model and the phrase encoder have separate ones."""

    lora_alpha: Positive = 32.0
    """Adapters are scaled by alpha / rank."""

    lora_dropout: ShareBelowOne = 0.1
    """Dropout rate of an adapter's inputs."""

    encoder_layers: AtLeastZero = 0
    """Layers of the phrase encoder, the lowest of the language model; 0 takes all of them."""

    encoder_dropout: ShareBelowOne = 0.1
    """Dropout rate of a phrase's last state, before its projection."""

    vectors: Annotated[str, OneOf("separate", "shared")] = "separate"
    """separate gives a phrase one output vector and one input vector, initialised from its first
    and its last subword; shared uses one vector for both, as in the paper, initialised from the
    mean of its subwords."""

    phrase_input: Annotated[str, OneOf("vector", "unfold")] = "vector"
    """What the model reads after it has chosen a phrase: the phrase's vector at one position
    (vector), or its subwords (unfold, an ablation in which phrases only extend the output
    table)."""

    marker: Annotated[str, OneOf("none", "text")] = "none"
    """Encode a phrase alone (none) or followed by the number of its passage (text)."""

    reach: Positive = 3.0
    """How far the encoder moves a phrase: its projection is scaled by reach / width.

    3 is about the norm of the language models' own embeddings."""

    max_phrase_subwords: Annotated[int, Range(2)] = 8
    """Maximum subwords per candidate phrase."""

    max_prompt_subwords: Annotated[int, Range(64)] = 1536
    """Maximum subwords per prompt; passages are truncated evenly to fit, the question to a
    quarter."""

    template: Annotated[str, OneOf("chat", "plain")] = "chat"
    """Prompt format: <|im_start|>user … (chat), or plain text (plain)."""
