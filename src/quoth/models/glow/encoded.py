"""What encoders are to whoever searches: texts in, numpy vectors out, whichever library reads."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from quoth.models.glow.config import GlowConfig
from quoth.models.glow.inputs import Fields, GlowInputs, SubwordSequence
from quoth.models.glow.weights import WordCounts

Vectors = NDArray[np.float32]  # (N, D)


@dataclass(frozen=True, slots=True)
class Encoded:
    """Vectors, and for each text how many subwords were read and how many cut to fit."""

    vectors: Vectors
    lengths: tuple[int, ...]
    cuts: tuple[int, ...]

    @property
    def num_subwords(self) -> int:
        """Subwords that were read, special ones included."""
        return sum(self.lengths)

    @property
    def num_cut(self) -> int:
        """Subwords of the texts that found no room."""
        return sum(self.cuts)


class Encoder(Protocol):
    """Encodes queries and documents with one model."""

    @property
    def name(self) -> str:
        """What it is loaded by."""

    @property
    def config(self) -> GlowConfig:
        """How it reads texts."""

    @property
    def width(self) -> int:
        """Length of a vector."""

    @property
    def inputs(self) -> GlowInputs:
        """How it takes texts apart."""

    def identity(self) -> dict[str, Any]:
        """Describe everything that decides which vectors come out, to be kept with an index."""

    def encode_queries(self, texts: Sequence[str], *, counts: WordCounts | None = None) -> Encoded:
        """Encode queries, in their order."""

    def encode_documents(
        self, documents: Sequence[Fields], *, counts: WordCounts | None = None
    ) -> Encoded:
        """Encode documents or passages, in their order."""

    def look(self, sequence: SubwordSequence, *, is_query: bool) -> Sequence[float] | None:
        """Return the share of each subword in the looks that end in the vector.

        None where the encoder is of a kind whose attention cannot be followed.
        """

    def encode_subwords(self, sequences: Sequence[SubwordSequence]) -> list[Vectors] | None:
        """Return a vector of unit length for each subword of each sequence, special ones included.

        None where the encoder is of a kind whose states have other uses.
        """
