"""Settings of a phrase vocabulary, saved with it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from quoth.constraints import AtLeastOne, CheckedConfig, OneOf, PositiveShare, Range, Seed

NUM_BYTES = 256
"""The first ids of every phrase vocabulary are the single bytes, so that any text can be cut."""

CUTTERS = ("best_cover", "look_ahead", "longest")
"""Ways to cut a text into phrases; a vocabulary is pruned with the one it is used with."""

Cutter = Annotated[str, OneOf(*CUTTERS)]


@dataclass(frozen=True, slots=True)
class PhraseConfig(CheckedConfig, title="phrases"):
    """How a phrase vocabulary is trained and how it cuts texts."""

    size: Annotated[int, Range(NUM_BYTES)] = 100_000
    """Most phrases of the vocabulary, the 256 single bytes included."""

    min_count: AtLeastOne = 2
    """Occurrences in the texts that make a word or a sequence of words a candidate."""

    min_use: AtLeastOne = 2
    """Least times that a phrase is used once the texts are cut; rarer ones are dropped."""

    max_length: Annotated[int, Range(2)] = 40
    """Longest phrase, in characters, its leading space included."""

    max_words: AtLeastOne = 8
    """Longest phrase, in words."""

    piece_length: AtLeastOne = 16
    """Longest part of a word that is not itself a word, in characters."""

    piece_count: AtLeastOne = 5
    """Distinct words that must share a part of a word to make it a candidate."""

    pool: AtLeastOne = 4
    """Candidates that pruning starts from, in sizes of the vocabulary: best count · length."""

    drop: Annotated[float, Range(above=0, most=0.5)] = 0.1
    """Share of the phrases dropped per round; a fifth of it when nearly at the size."""

    sample: PositiveShare = 0.5
    """Share of the texts that is cut in the rounds far from the size (more than twice it)."""

    lowercase: bool = True
    """Lower-case texts before they are cut."""

    cutter: Cutter = "best_cover"
    """best_cover (fewest phrases), look_ahead (greedy, one step ahead) or longest (greedy)."""

    seed: Seed = 0
    """Chooses the sample of texts."""
