"""Settings of `quoth train pixar`."""

from __future__ import annotations

from dataclasses import dataclass

from quoth.errors import ConfigError
from quoth.vocabulary.phrases.config import CUTTERS, NUM_BYTES


@dataclass(frozen=True, slots=True)
class PixarBuildConfig:
    """Settings of training generative search for a collection."""

    minutes: float = 10.0
    """Time to fit into, roughly: it decides how much is written and trained."""

    device: str = "auto"
    """Where training happens: auto, cpu, cuda or cuda:N."""

    temperature: float = 0.8
    """Temperature of writing: lower is plainer, higher more varied."""

    size: int = 0
    """Most phrases of the vocabulary; 0 takes as many as there are identifiers, within limits."""

    min_count: int = 2
    """Occurrences that make a word or a sequence of words a candidate for a phrase."""

    cutter: str = "best_cover"
    """How texts are cut into phrases: best_cover, look_ahead or longest."""

    slots: int = 0
    """Phrases of the longest identifier that slots can name; 0 takes what nearly all fit in."""

    steps: int = 0
    """Steps of training; 0 takes what fits into the time."""

    batch_size: int = 0
    """Queries per step; 0 takes 64 on a CPU, 512 on a GPU."""

    targets: int = 4
    """Identifiers that a query is taught at a step."""

    learning_rate: float = 3e-4
    """Highest learning rate of the slots."""

    encoder_learning_rate: float = 3e-5
    """Highest learning rate of the encoder."""

    head_learning_rate: float = 1e-3
    """Highest learning rate of the phrases' rows."""

    bag_weight: float = 1.0
    """Share of the loss by which whole identifiers compete as bags of phrases, which is how they
    are searched for by default; training on a cluster goes without."""

    judged_queries: int = 300
    """Most queries that are kept from training, to judge by."""

    looks: int = 5
    """Times at which training is judged by queries kept back for this alone; the best state is the
    one that is kept. 0 keeps the last."""

    look_queries: int = 100
    """Most queries of each kind that are kept back for looks."""

    patience: int = 0
    """Looks without improvement after which training stops; 0 never stops early."""

    checkpoint_every: int = 50
    """Steps between two checkpoints: what an interruption may lose."""

    seed: int = 0
    """Decides what is written, the split, and the order of training."""

    def __post_init__(self) -> None:
        least = {
            "size": 0,
            "min_count": 1,
            "slots": 0,
            "steps": 0,
            "batch_size": 0,
            "targets": 1,
            "bag_weight": 0,
            "judged_queries": 0,
            "looks": 0,
            "look_queries": 0,
            "patience": 0,
            "checkpoint_every": 1,
        }
        problems = [
            f"{name} is {getattr(self, name)}, expected at least {number}"
            for name, number in least.items()
            if getattr(self, name) < number
        ]
        if 0 < self.size < NUM_BYTES:
            problems.append(f"size is {self.size}, expected 0, or {NUM_BYTES} or more")
        if self.cutter not in CUTTERS:
            problems.append(f"cutter is {self.cutter!r}, expected one of {', '.join(CUTTERS)}")
        rates = (self.learning_rate, self.encoder_learning_rate, self.head_learning_rate)
        if min(self.minutes, self.temperature, *rates) <= 0:
            problems.append("minutes, temperature and learning rates must be > 0")
        if problems:
            raise ConfigError("pixar: " + "; ".join(problems))
