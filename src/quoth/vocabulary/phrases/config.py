"""Settings of a phrase vocabulary, saved with it."""

from __future__ import annotations

from dataclasses import dataclass

from quoth.errors import ConfigError

NUM_BYTES = 256
"""The first ids of every phrase vocabulary are the single bytes, so that any text can be cut."""

CUTTERS = ("best_cover", "look_ahead", "longest")
"""Ways to cut a text into phrases; a vocabulary is pruned with the one it is used with."""


@dataclass(frozen=True, slots=True)
class PhraseConfig:
    """How a phrase vocabulary is trained and how it cuts texts."""

    size: int = 100_000
    """Most phrases of the vocabulary, the 256 single bytes included."""

    min_count: int = 2
    """Occurrences in the texts that make a word or a sequence of words a candidate."""

    min_use: int = 2
    """Least times that a phrase is used once the texts are cut; rarer ones are dropped."""

    max_length: int = 40
    """Longest phrase, in characters, its leading space included."""

    max_words: int = 8
    """Longest phrase, in words."""

    piece_length: int = 16
    """Longest part of a word that is not itself a word, in characters."""

    piece_count: int = 5
    """Distinct words that must share a part of a word to make it a candidate."""

    pool: int = 4
    """Candidates that pruning starts from, in sizes of the vocabulary: best count · length."""

    drop: float = 0.1
    """Share of the phrases dropped per round; a fifth of it when nearly at the size."""

    sample: float = 0.5
    """Share of the texts that is cut in the rounds far from the size (more than twice it)."""

    lowercase: bool = True
    """Lower-case texts before they are cut."""

    cutter: str = "best_cover"
    """best_cover (fewest phrases), look_ahead (greedy, one step ahead) or longest (greedy)."""

    seed: int = 0
    """Chooses the sample of texts."""

    def __post_init__(self) -> None:
        """Report every setting that makes no sense."""
        at_least = {
            "size": NUM_BYTES,
            "min_count": 1,
            "min_use": 1,
            "max_length": 2,
            "max_words": 1,
            "piece_length": 1,
            "piece_count": 1,
            "pool": 1,
        }
        problems = [
            f"{name} is {getattr(self, name)}, expected at least {least}"
            for name, least in at_least.items()
            if getattr(self, name) < least
        ]
        problems += [
            f"{name} is {getattr(self, name)}, expected a share above 0 and at most {most}"
            for name, most in (("drop", 0.5), ("sample", 1.0))
            if not 0.0 < getattr(self, name) <= most
        ]
        if self.cutter not in CUTTERS:
            problems.append(f"cutter is {self.cutter!r}, expected one of {', '.join(CUTTERS)}")
        if problems:
            raise ConfigError("phrases: " + "; ".join(problems))
