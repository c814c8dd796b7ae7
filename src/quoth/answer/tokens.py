"""What a generated text is made of."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Token:
    """One step of a text: a subword, or a phrase by its row with all its subwords."""

    subword_ids: tuple[int, ...]
    row: int | None
    log_probability: float = 0.0
