"""What a PIXAR model is: its slots, its head and how queries are cut, every open choice a field."""

from __future__ import annotations

from dataclasses import dataclass

from quoth.errors import ConfigError

CHOICES: dict[str, tuple[str, ...]] = {
    "slots": ("decoder", "mask", "input"),
    "pooling": ("mean", "cls"),
    "rows": ("encoder", "random"),
    "bias": ("unigram", "uniform", "zero"),
    "tail": ("eos", "pad", "none"),
}


@dataclass(frozen=True, slots=True)
class PixarConfig:
    """Settings of a PIXAR model; they are saved with it."""

    slots: str = "decoder"
    """Where slot vectors come from: a small decoder that reads the query's states (decoder), mask
    subwords after the query (mask), or the first positions of the query itself (input, as in the
    paper, the query filled up with positions that are read)."""

    num_slots: int = 10
    """Phrases of the longest identifier that can be named; the 99th percentile of the lengths and
    one more is the paper's."""

    slot_layers: int = 2
    """Layers of the slot decoder."""

    pooling: str = "mean"
    """How token states become the pooled vector x₀: mean or cls."""

    residual: bool = True
    """Slot vectors are the pooled vector and something added, which starts at nothing."""

    scale: float = 10.0
    """Where the learned length of the pooled vector starts; 0 leaves it as the encoder gives it."""

    head_width: int = 0
    """Length of the head's rows, by a linear map of all vectors; 0 is the encoder's own."""

    rows: str = "encoder"
    """Where the head's rows start: at the encoder's vectors of the phrases' texts, or at random."""

    unit_rows: bool = True
    """Take the head's rows at unit length."""

    bias: str = "unigram"
    """Where the head's bias starts: log frequency (unigram), −ln of the vocabulary's size for all
    (uniform), which also makes normalisers start near 1, or zero."""

    tail: str = "eos"
    """What slots after an identifier are taught: its end once (eos), the end and then padding
    (pad), or nothing (none)."""

    max_query_subwords: int = 64
    """Most subwords of a query, special ones included; the rest is cut."""

    train_encoder: bool = True
    """Train the encoder too; it is then saved with the model instead of being named."""

    def __post_init__(self) -> None:
        problems = [
            f"{name} is {getattr(self, name)!r}, expected one of {', '.join(allowed)}"
            for name, allowed in CHOICES.items()
            if getattr(self, name) not in allowed
        ]
        if self.num_slots < 1 or self.slot_layers < 1:
            problems.append("num_slots and slot_layers must be ≥ 1")
        if self.scale < 0 or self.head_width < 0:
            problems.append("scale and head_width must be ≥ 0")
        if self.max_query_subwords < 4:
            problems.append(f"max_query_subwords is {self.max_query_subwords}, expected ≥ 4")
        if problems:
            raise ConfigError("pixar: " + "; ".join(problems))
