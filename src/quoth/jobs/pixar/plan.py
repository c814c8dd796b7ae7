"""Plan `quoth train pixar`: what is written, how many phrases there are, how long is trained.

As with `quoth learn`, a plan follows from sizes, the device's kind, its cores and the settings
alone, not from a clock, so that the same call makes the same plan. The rates were measured on two
busy cores; those of a GPU are estimates. They err on the slow side.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, get_type_hints

from quoth.errors import ConfigError
from quoth.vocabulary.phrases.config import CUTTERS, NUM_BYTES

_USED = 0.85  # of the time; the rest is for starting, saving and what was not foreseen
_WRITING = 0.4  # of it, at most, for writing pseudo-queries
_FEWEST_STEPS = 20
_MOST_EPOCHS = 60  # a small collection is learned by heart long before
_FEWEST_PHRASES = 10_000  # fewer would cut words, and identifiers into many parts
_MOST_PHRASES = {"cpu": 30_000, "cuda": 500_000}
_BATCH = {"cpu": 64, "cuda": 512}
_MOST_CORES = 8
_SHORTLISTED = 50_000  # phrases up to which scoring all of them is fast enough


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


def read_settings(texts: Sequence[str]) -> dict[str, Any]:
    """Read settings as a command line gives them, each as pixar.field=value.

    >>> read_settings(["pixar.steps=40", "cutter=longest"])
    {'steps': 40, 'cutter': 'longest'}
    """
    kinds: dict[str, Any] = get_type_hints(PixarBuildConfig)
    found: dict[str, Any] = {}
    problems = []
    for text in texts:
        name, equals, value = text.partition("=")
        key = name.strip().removeprefix("pixar.").replace("-", "_")
        if not equals or key not in kinds:
            known = ", ".join(kinds)
            problems.append(f"--set {text} names no setting; expected FIELD=VALUE, of {known}")
            continue
        try:
            found[key] = kinds[key](value.strip())
        except ValueError:
            problems.append(f"--set {text}: expected {_EXPECTED[kinds[key]]}")
    if problems:
        raise ConfigError("; ".join(problems))
    return found


_EXPECTED: Mapping[type, str] = {int: "a whole number", float: "a number", str: "text"}


@dataclass(frozen=True, slots=True)
class BuildRates:
    """How fast one kind of device is."""

    writing: float
    """Pseudo-queries written per second."""

    reading: float
    """Short texts encoded per second."""

    step: float
    """Seconds of a step, however small: moving the encoder's weights."""

    query: float
    """Seconds of a step per query, whatever the vocabulary."""

    row: float
    """Seconds of a step per query and thousand phrases."""

    head: float
    """Seconds of a step per thousand phrases, whatever the batch: moving the rows."""

    def faster(self, times: float) -> BuildRates:
        """Give the rates of a device that is so many times as fast."""
        return BuildRates(
            self.writing * times,
            self.reading * times,
            self.step / times,
            self.query / times,
            self.row / times,
            self.head / times,
        )


CPU = BuildRates(writing=17.0, reading=400.0, step=0.2, query=0.013, row=0.0004, head=0.004)
"""Two cores."""
CUDA = BuildRates(writing=600.0, reading=8_000.0, step=0.01, query=1e-4, row=3e-6, head=5e-5)
"""One large GPU."""


@dataclass(frozen=True, slots=True)
class WritingPlan:
    """How many pseudo-queries are written."""

    num_documents: int
    """Documents that they are written for, evenly spread."""

    each: int
    """Pseudo-queries per document."""

    seconds: float


@dataclass(frozen=True, slots=True)
class TrainingPlan:
    """How long is trained, on how much at once."""

    steps: int
    batch_size: int
    seconds: float


def plan_writing(
    num_documents: int, config: PixarBuildConfig, *, most_each: int, rates: BuildRates
) -> WritingPlan:
    """Fit writing into its share of the time: rather for all documents than many for each.

    >>> plan_writing(1000, PixarBuildConfig(minutes=5), most_each=5, rates=CPU)
    WritingPlan(num_documents=1000, each=1, seconds=58.8)
    """
    if not num_documents:
        return WritingPlan(0, 0, 0.0)
    most = _WRITING * _USED * 60 * config.minutes * rates.writing
    each = min(most_each, max(1, int(most / num_documents)))
    count = min(num_documents, max(1, int(most / each)))
    return WritingPlan(count, each, round(count * each / rates.writing, 1))


def plan_training(
    num_inputs: int,
    num_phrases: int,
    config: PixarBuildConfig,
    *,
    device: str,
    rates: BuildRates,
    spent: float,
) -> TrainingPlan:
    """Fit training into what the stages before have left, going by their plans, not by a clock."""
    batch = min(config.batch_size or _BATCH[device], num_inputs)
    thousands = num_phrases / 1000
    step = rates.step + batch * (rates.query + rates.row * thousands) + rates.head * thousands
    left = _USED * 60 * config.minutes - spent - _other_seconds(num_phrases, config, rates)
    enough = max(_FEWEST_STEPS, -(-_MOST_EPOCHS * num_inputs // batch))
    steps = config.steps or min(enough, max(_FEWEST_STEPS, int(left / step)))
    return TrainingPlan(steps, batch, round(steps * step, 1))


def choose_rates(device: str, *, cores: int) -> BuildRates:
    """Give the rates of a kind of device; `device` is cpu or cuda."""
    return CUDA if device == "cuda" else CPU.faster(min(max(1, cores), _MOST_CORES) / 2)


def choose_size(num_identifiers: int, config: PixarBuildConfig, *, device: str) -> int:
    """Choose how many phrases a vocabulary may have; few identifiers do not give as many.

    >>> config = PixarBuildConfig()
    >>> [choose_size(count, config, device="cpu") for count in (100, 24_000, 1_000_000)]
    [10000, 24000, 30000]
    """
    usual = min(_MOST_PHRASES[device], max(_FEWEST_PHRASES, num_identifiers))
    return config.size or usual


def choose_method(num_phrases: int) -> str:
    """Choose the method of the shortlist: scoring all phrases is exact, and fast while few.

    >>> choose_method(20_000), choose_method(400_000)
    ('full', 'centroids')
    """
    return "full" if num_phrases <= _SHORTLISTED else "centroids"


def describe_training(plan: TrainingPlan, *, num_phrases: int, num_inputs: int) -> str:
    """Say in a line what will be trained, and how long it may take."""
    return (
        f"the plan: about {plan.seconds / 60:.1f} minutes for {plan.steps:,} steps of"
        f" {plan.batch_size:,} among {num_inputs:,} queries, over {num_phrases:,} phrases"
    )


def _other_seconds(num_phrases: int, config: PixarBuildConfig, rates: BuildRates) -> float:
    """Estimate what is neither writing nor training: rows' start, judging, the shortlist."""
    read = num_phrases + 2 * config.judged_queries + config.looks * config.look_queries
    return 20 + config.looks + read / rates.reading
