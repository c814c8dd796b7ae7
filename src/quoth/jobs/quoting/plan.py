"""Plan `quoth train dynamic-lm`: how much is read and made, and how many steps fit into the time.

The other sections of its settings (recipe, sampling, negatives, quoting, model) are those of what
is trained; this one is the command's own.
"""

from __future__ import annotations

from dataclasses import dataclass

from quoth.errors import ConfigError

_USED = 0.9  # of the time; the rest is for judging and saving
_FEWEST_STEPS = 5


@dataclass(frozen=True, slots=True)
class DynamicTrainingConfig:
    """Settings of training a language model on a collection."""

    minutes: float = 10.0
    """Time to fit into, roughly; steps are timed, and as many planned as fit."""

    steps: int = 0
    """Steps of training; 0 takes what fits into the time."""

    most_epochs: int = 8
    """How often a sample may be read, where the time decides: more is learning by heart."""

    device: str = "auto"
    """Where training happens: auto, cpu, cuda or cuda:N."""

    held_out: float = 0.1
    """Share of the documents that nothing is trained on, to judge by; one at least."""

    documents: int = 10_000
    """Most documents that are trained on, evenly spread."""

    text_subwords: int = 512
    """Most subwords of a text; longer passages are cut."""

    least_subwords: int = 16
    """Fewest subwords of a passage that is worth learning."""

    sentences: int = 2000
    """Sentences that are tried to be rebuilt from other passages."""

    distractors: int = 10
    """Most passages that are found beside the right one of a labelled question."""

    continuations: int = 50_000
    """Most phrases that the untouched model goes on from, where negatives.generation is set."""

    judged: int = 0
    """Most held-out samples of each kind that are judged by; 0 takes 12 on a CPU, 64 on a GPU."""

    seed: int = 0
    """Decides the split, what is drawn, and the order of training."""

    def __post_init__(self) -> None:
        least = {
            "steps": 0,
            "most_epochs": 1,
            "documents": 1,
            "text_subwords": 16,
            "least_subwords": 8,
            "sentences": 0,
            "distractors": 1,
            "continuations": 1,
            "judged": 0,
        }
        problems = [
            f"{name} is {getattr(self, name)}, expected at least {number}"
            for name, number in least.items()
            if getattr(self, name) < number
        ]
        if not self.minutes > 0:
            problems.append(f"minutes is {self.minutes}, expected > 0")
        if not 0 < self.held_out < 1:
            problems.append(f"held_out is {self.held_out}, expected a share between 0 and 1")
        if problems:
            raise ConfigError("training: " + "; ".join(problems))


def fit_steps(
    config: DynamicTrainingConfig, *, seconds_per_step: float, spent: float, epoch_steps: float
) -> int:
    """Return the steps that fit into what is left of the time, and into the epochs allowed.

    >>> config = DynamicTrainingConfig(minutes=10, most_epochs=4)
    >>> fit_steps(config, seconds_per_step=0.5, spent=40, epoch_steps=1000)
    1000
    >>> fit_steps(config, seconds_per_step=0.5, spent=40, epoch_steps=30.5)
    122
    """
    left = _USED * 60 * config.minutes - spent
    fitting = min(left / seconds_per_step, config.most_epochs * epoch_steps)
    return max(_FEWEST_STEPS, int(fitting))
