"""What a query generator is: its decoder, the encoder it reads with, and how texts are cut."""

from __future__ import annotations

from dataclasses import dataclass

from quoth.errors import ConfigError

MEMORIES = ("layers", "last")


@dataclass(frozen=True, slots=True)
class QueryGeneratorConfig:
    """Settings of a query generator; they are saved with it."""

    num_layers: int = 6
    """Layers of the decoder; each starts as a layer of the encoder."""

    max_passage_subwords: int = 192
    """Most subwords of a passage, special ones included; the rest is cut."""

    max_query_subwords: int = 32
    """Most subwords of a query, the end symbol included; the rest is cut."""

    memory: str = "layers"
    """What the decoder reads of a passage: the encoder's last states alone (last), or with what
    a trained mix takes from its embeddings and middle layer (layers), where words are clearer."""

    train_encoder: bool = False
    """Train the encoder too; it is then saved with the decoder instead of being named."""

    def __post_init__(self) -> None:
        problems = []
        if self.memory not in MEMORIES:
            problems.append(f"memory is {self.memory!r}, expected one of {', '.join(MEMORIES)}")
        if self.num_layers < 1:
            problems.append(f"num_layers is {self.num_layers}, expected ≥ 1")
        if self.max_passage_subwords < 8:
            problems.append(f"max_passage_subwords is {self.max_passage_subwords}, expected ≥ 8")
        if self.max_query_subwords < 4:
            problems.append(f"max_query_subwords is {self.max_query_subwords}, expected ≥ 4")
        if problems:
            raise ConfigError("query generator: " + "; ".join(problems))
