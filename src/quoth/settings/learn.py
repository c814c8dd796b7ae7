"""Settings of `quoth learn`."""

from __future__ import annotations

from dataclasses import dataclass

from quoth.errors import ConfigError

METHODS = ("auto", "rumbart", "distil", "acrobart", "none")


@dataclass(frozen=True, slots=True)
class LearnConfig:
    """Settings of learning without labels."""

    minutes: float = 15.0
    """Time to fit into, roughly: it decides how much is written and trained."""

    device: str = "auto"
    """Where training happens: auto, cpu, cuda or cuda:N."""

    method: str = "auto"
    """What follows the warm-up: rumbart, distil (its frozen variant), acrobart, none; auto takes
    rumbart on a GPU, and on a CPU distil if enough steps fit."""

    generator: str = "query-generator"
    """Query generator: the shipped one, or a folder."""

    queries_per_passage: int = 3
    """Most pseudo-queries written for a passage."""

    max_passages: int = 20_000
    """Most passages that pseudo-queries are written for, spread evenly."""

    temperature: float = 0.7
    """Temperature of writing: lower is plainer, higher more varied."""

    corpus_queries: int = 2
    """Most titles and headings taken from a passage as queries; 0 takes none."""

    warm_up_steps: int = 100
    """Most steps of the warm-up."""

    warm_up_batch: int = 0
    """Queries per step of the warm-up; 0 takes 64 on a CPU, 128 on a GPU."""

    steps: int = 300
    """Most steps of what follows the warm-up."""

    batch_size: int = 0
    """Queries per step of it; 0 takes 8 on a CPU, 32 on a GPU."""

    k: int = 0
    """Passages found per query in it; 0 takes 4 on a CPU, 8 on a GPU."""

    learning_rate: float = 2e-5
    """Highest learning rate of the encoder."""

    share: float = 0.5
    """Share of what was learned in the encoder that is installed; the rest stays as it was before.
    1 takes all of it, as does learning from labelled pairs."""

    max_subwords: int = 0
    """Subwords read of a passage while training; 0 takes 96 on a CPU, 256 on a GPU."""

    held_out: float = 0.15
    """Share of the documents that give no query to train on, only queries to judge by."""

    judged_queries: int = 300
    """Most queries of each kind to judge by."""

    margin: float = 0.005
    """Rise of dense search's RR@10 above which a model is installed, if hybrid does not fall."""

    generative: bool = False
    """Train generative search as well, as the last stage, which takes generative_minutes more."""

    generative_minutes: float = 10.0
    """Time that this last stage is to fit into, roughly."""

    seed: int = 0
    """Decides which queries are made, the split, and the order of training."""

    def __post_init__(self) -> None:
        problems = []
        if self.method not in METHODS:
            problems.append(f"method is {self.method!r}, expected one of {', '.join(METHODS)}")
        least = {"queries_per_passage": 1, "max_passages": 1, "warm_up_steps": 1, "steps": 1}
        least |= {"judged_queries": 2, "corpus_queries": 0}
        for name, number in least.items():
            if getattr(self, name) < number:
                problems.append(f"{name} is {getattr(self, name)}, expected at least {number}")
        for name, number in {
            "warm_up_batch": 2,
            "batch_size": 2,
            "k": 2,
            "max_subwords": 16,
        }.items():
            if getattr(self, name) and getattr(self, name) < number:
                problems.append(f"{name} is {getattr(self, name)}, expected 0 or {number} or more")
        if min(self.minutes, self.temperature, self.learning_rate, self.generative_minutes) <= 0:
            problems.append(
                "minutes, temperature, learning_rate and generative_minutes must be > 0"
            )
        if not 0 < self.held_out < 1 or self.margin < 0:
            problems.append("held_out must be a share above 0 and below 1, margin ≥ 0")
        if not 0 < self.share <= 1:
            problems.append(f"share is {self.share}, expected above 0 and at most 1")
        if problems:
            raise ConfigError("learn: " + "; ".join(problems))
