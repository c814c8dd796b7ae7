"""Plan `quoth train pixar`: what is written, how many phrases there are, how long is trained.

As with `quoth learn`, a plan follows from sizes, the device's kind, its cores and the settings
alone, not from a clock, so that the same call makes the same plan. The rates were measured on two
busy cores; those of a GPU are estimates. They err on the slow side.
"""

from __future__ import annotations

from dataclasses import dataclass

from quoth.settings.pixar import PixarBuildConfig
from quoth.vocabulary.phrases.config import PhraseConfig

_USED = 0.85  # of the time; the rest is for starting, saving and what was not foreseen
_WRITING = 0.4  # of it, at most, for writing pseudo-queries
_FEWEST_STEPS = 20
_MOST_EPOCHS = 60  # a small collection is learned by heart long before
_FEWEST_PHRASES = 10_000  # fewer would cut words, and identifiers into many parts
_MOST_PHRASES = {"cpu": 50_000, "cuda": 500_000}
_BATCH = {"cpu": 64, "cuda": 512}
_MOST_CORES = 8
_SHORTLISTED = 50_000  # phrases up to which scoring all of them is fast enough


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
        """Return the rates of a device that is so many times as fast."""
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
    """Return the rates of a kind of device; `device` is cpu or cuda."""
    return CUDA if device == "cuda" else CPU.faster(min(max(1, cores), _MOST_CORES) / 2)


def choose_size(num_identifiers: int, config: PixarBuildConfig, *, device: str) -> int:
    """Choose how many phrases a vocabulary may have; few identifiers do not give as many.

    >>> config = PixarBuildConfig()
    >>> [choose_size(count, config, device="cpu") for count in (100, 24_000, 1_000_000)]
    [10000, 48000, 50000]
    """
    each = 2 if config.max_words == 1 else 1  # most words of a small collection occur once
    usual = min(_MOST_PHRASES[device], max(_FEWEST_PHRASES, each * num_identifiers))
    return config.size or usual


def choose_phrases(num_identifiers: int, config: PixarBuildConfig, *, device: str) -> PhraseConfig:
    """Choose the settings of a vocabulary for so many identifiers."""
    return PhraseConfig(
        size=choose_size(num_identifiers, config, device=device),
        max_words=config.max_words,
        min_count=config.min_count,
        min_use=config.min_count,
        cutter=config.cutter,
        seed=config.seed,
    )


def choose_method(num_phrases: int, config: PixarBuildConfig) -> str:
    """Choose the method of the shortlist: scoring all phrases is exact, and fast while few.

    >>> [choose_method(count, PixarBuildConfig()) for count in (20_000, 400_000)]
    ['full', 'centroids']
    """
    if config.shortlist != "auto":
        return config.shortlist
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
