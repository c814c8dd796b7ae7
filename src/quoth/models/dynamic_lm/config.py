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
    """The causal model it starts from: embedded by name, a folder, or a hub's as owner/name."""

    tuning: Annotated[str, OneOf("lora", "full")] = "lora"
    """What is trained: adapters over frozen weights (lora), or all weights (full)."""

    lora_rank: AtLeastOne = 8
    """Rank of the adapters; the language model and the phrase encoder have their own."""

    lora_alpha: Positive = 32.0
    """Adapters are multiplied by alpha / rank."""

    lora_dropout: ShareBelowOne = 0.1
    """Share of an adapter's inputs that is dropped in training."""

    encoder_layers: AtLeastZero = 0
    """Layers of the phrase encoder, the first of the language model; 0 takes all of them."""

    encoder_dropout: ShareBelowOne = 0.1
    """Share of a phrase's last state that is dropped in training, before its projection."""

    vectors: Annotated[str, OneOf("separate", "shared")] = "separate"
    """Whether a phrase has a vector to be written by and one to be read by (separate), which start
    at its first and at its last subword, or one for both (shared, as in the paper), which starts at
    the mean of its subwords."""

    phrase_input: Annotated[str, OneOf("vector", "unfold")] = "vector"
    """What follows a chosen phrase reads: its vector, one position (vector), or its subwords
    (unfold; phrases then only extend the output table, an ablation)."""

    marker: Annotated[str, OneOf("none", "text")] = "none"
    """Whether a phrase is encoded bare (none) or with its passage's number behind it (text)."""

    reach: Positive = 3.0
    """How far the encoder moves a phrase: what its projection says is multiplied by reach / width.
    3 is about the length of the language models' own rows."""

    max_phrase_subwords: Annotated[int, Range(2)] = 8
    """Most subwords of a phrase that is offered."""

    max_prompt_subwords: Annotated[int, Range(64)] = 1536
    """Most subwords of a prompt; passages are cut evenly to fit, the question to a quarter."""

    template: Annotated[str, OneOf("chat", "plain")] = "chat"
    """How a prompt is written: <|im_start|>user … (chat), or as text (plain)."""
