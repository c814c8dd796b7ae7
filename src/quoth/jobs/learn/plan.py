"""Plan `quoth learn`: how many queries are written and how long is trained, for a time to fit into.

A plan follows from the collection's size, the device's kind, its cores and the settings alone, not
from a clock, so that the same call makes the same plan and two runs give the same report. The rates
were measured on two cores of a server with bf16 units, and those of a GPU on a large one that ran
the same recipes. They err on the slow side; where a machine is slower still, learning takes
longer instead of stopping half way.

What shows in what people see is fitting the reranker. Where there is one, the encoder is trained
only if its method is asked for by name: once hits are reranked, its training has shown nothing
(benchmarks/learn).

On a CPU the warm-up is what helps an encoder: a step of RUMBArt reads k passages per query with two
networks, and costs as much as three to six times as many queries in the warm-up. It is planned only
where enough of its steps fit to be worth anything.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from quoth.errors import ConfigError
from quoth.jobs.learn.fitting_sizes import FITTING_SIZES, FittingSizes
from quoth.settings.learn import LearnConfig

if TYPE_CHECKING:
    from quoth.jobs.ray import ClusterHelp

SHORTEST = 50
"""Steps of the second stage below which it is left out, unless it is asked for by name."""

ENCODER_GAIN = "expected: nothing to +0.4 points of nDCG@10 fused, nothing once reranked"
RERANKER_GAIN = "expected: -1 to +1.5 points of nDCG@10, nothing where it knows such questions"
"""What the stages gave over collections of many kinds (benchmarks/learn)."""

_FEWEST_STEPS = 10
_FEWEST_WRITTEN = 200
_USED = 0.85  # of the time; the rest is for starting, labelling and what was not foreseen
_WRITING = 0.45  # of what is left for writing and training together
_MOST_CORES = 8  # beyond, networks this small gain little
_WRITTEN_FITTED = 25  # queries written for such a step: held-out and unfound ones are left out
_FITTING, _FITTING_BESIDE = 0.85, 0.45  # of the time, at most; where the encoder is trained, too
_CAUSAL, _SLOWER = "causal-query-generator", 8  # writes so many times slower than the small one
_FEWEST_FITTED = 15  # steps below which the reranker is left as it is


@dataclass(frozen=True, slots=True)
class LearnRequest:
    """What one call asks for, beside the settings."""

    pairs: Path | None = None
    """Labelled pairs to learn from, instead of pseudo-queries."""

    queries: Path | None = None
    """Queries that people asked, without answers, to learn from beside the pseudo-queries."""

    pack: Path | None = None
    """Stop before training, and write what is trained on to this file."""

    unpack: Path | None = None
    """Take what another machine trained from this folder."""

    restart: bool = False
    """Begin again, whatever an earlier call left."""

    remote: ClusterHelp | None = None
    """Who writes queries and trains, if not this process."""

    def __post_init__(self) -> None:
        if self.pairs is not None and self.queries is not None:
            raise ConfigError(
                "give --pairs or --queries, not both: pairs have queries of their own"
            )
        if self.pack is not None and self.unpack is not None:
            raise ConfigError("give --pack or --unpack, not both: pack, train, then unpack")


@dataclass(frozen=True, slots=True)
class Rates:
    """How fast one kind of device is."""

    writing: float
    """Queries written per second."""

    encoding: float
    """Passages encoded per second, for search."""

    refreshing: float
    """Passages encoded per second in full precision, while training."""

    warming: float
    """Seconds per query of a warm-up step."""

    joint: float
    """Seconds per query and neighbour of a step after the warm-up."""

    fitting: float
    """Seconds per passage of a step that fits the reranker."""

    reading: float
    """Seconds per passage that a reranker reads."""

    def faster(self, times: float) -> Rates:
        """Return the rates of a device that is so many times as fast."""
        return Rates(
            self.writing * times,
            self.encoding * times,
            self.refreshing * times,
            self.warming / times,
            self.joint / times,
            self.fitting / times,
            self.reading / times,
        )


CPU = Rates(
    writing=14.0,
    encoding=50.0,
    refreshing=30.0,
    warming=0.08,
    joint=0.4,
    fitting=0.09,
    reading=0.02,
)
"""Two cores."""
CUDA = Rates(
    writing=1000.0,
    encoding=50.0,
    refreshing=3000.0,
    warming=0.001,
    joint=0.001,
    fitting=0.001,
    reading=0.02,
)
"""One large GPU; for search, vectors are made on the CPU even there."""


@dataclass(frozen=True, slots=True)
class LearnPlan:
    """What is done, how much of it, and how long each part may take."""

    num_written: int
    """Passages that queries are written for."""

    queries_per_passage: int
    warm_up_steps: int
    warm_up_batch: int
    method: str
    """What follows the warm-up: rumbart, distil, acrobart or none."""

    steps: int
    batch_size: int
    k: int
    max_subwords: int
    learning_rate: float
    validations: int
    """Looks at held-out queries while a stage trains, beside the one before it."""

    validation_queries: int
    validation_passages: int
    seconds: Mapping[str, float]
    note: str = ""
    """What a user should know about the plan, in plain words."""

    reranker_steps: int = 0
    """Steps that fit the reranker to the collection; 0 leaves it as it is."""

    @property
    def trains_encoder(self) -> bool:
        """Whether the encoder is trained at all."""
        return self.warm_up_steps > 0 or self.steps > 0


@dataclass(frozen=True, slots=True)
class _Checks:
    """Validations of one stage, and how much each looks at."""

    count: int
    queries: int
    passages: int

    @classmethod
    def on(cls, device: str, num_passages: int) -> _Checks:
        """Look at as much as a kind of device has time for."""
        return (
            cls(3, 300, min(400, num_passages)) if device == "cpu" else cls(5, 2000, num_passages)
        )

    def seconds(self, rates: Rates) -> float:
        """Return the time that all of them take; a query is a quarter of a passage."""
        return (self.count + 1) * (self.queries / 4 + self.passages) / rates.refreshing


def make_plan(
    num_passages: int,
    config: LearnConfig,
    *,
    device: str,
    cores: int = 2,
    is_packed: bool = False,
    has_queries: bool = False,
) -> LearnPlan:
    """Fit the stages into the time; `device` is cpu or cuda.

    With `is_packed`, training happens on another machine: only writing is done here, by the CPU.
    Queries that people asked train the encoder.
    """
    here = CPU.faster(min(max(1, cores), _MOST_CORES) / 2)
    training = CUDA if device == "cuda" else here
    fitting = FITTING_SIZES[device]
    writing = _writing(config, CUDA if device == "cuda" and not is_packed else here)
    sizes = _sizes(device, config)
    is_alone = config.method == "auto" and not (is_packed or has_queries)
    reranker_steps = _fit_reranker(config, training, here, fitting, is_alone=is_alone)
    fixed = _fixed_seconds(num_passages, config, here)
    if reranker_steps:
        fixed["reranker"] = fitting.num_judged * here.reading
        fixed["judge"] += fixed["reranker"]
        fixed["reranker"] += reranker_steps * fitting.num_fitted * training.fitting
    if is_packed:  # the rest is done when it is unpacked, in a time of its own
        fixed = {"vectors before": fixed["vectors before"]}
    left = max(0.0, _USED * 60 * config.minutes - sum(fixed.values()))
    if reranker_steps and is_alone:
        return _without_encoder(num_passages, config, fixed, reranker_steps, writing, sizes)
    wanted = max(_WRITING * left * writing, _WRITTEN_FITTED * reranker_steps)
    num_written, each = _fit_writing(wanted, num_passages, config)
    seconds = fixed | {"queries": num_written * each / writing}
    left = max(0.0, left - seconds["queries"])
    checks = _Checks.on(device, num_passages)
    validating = checks.seconds(training)
    step = training.warming * sizes["warm_up_batch"]
    warm_up_steps = _fit_steps(left - validating, step, config.warm_up_steps)
    seconds["warm-up"] = warm_up_steps * step + validating
    left = max(0.0, left - seconds["warm-up"] - validating)
    step = training.joint * sizes["batch_size"] * sizes["k"]
    step += num_passages / training.refreshing / 100
    method, steps, note = _choose_method(config, device, fits=int(left / step))
    if method != "none":
        seconds["training"] = steps * step + validating
    return LearnPlan(
        num_written,
        each,
        warm_up_steps,
        method=method,
        steps=steps,
        learning_rate=config.learning_rate,
        validations=checks.count,
        validation_queries=checks.queries,
        validation_passages=checks.passages,
        seconds=seconds,
        note=_warn(note, seconds, config),
        reranker_steps=reranker_steps,
        **sizes,
    )


def _writing(config: LearnConfig, rates: Rates) -> float:
    """Return how many queries are written in a second."""
    return rates.writing / (_SLOWER if Path(config.generator).name == _CAUSAL else 1)


def _warn(note: str, seconds: Mapping[str, float], config: LearnConfig) -> str:
    """Add that the time will not do, if so."""
    if sum(seconds.values()) <= 60 * config.minutes:
        return note
    return f"{note}; {config.minutes:g} minutes are short: this will take longer".lstrip("; ")


def _fixed_seconds(num_passages: int, config: LearnConfig, here: Rates) -> dict[str, float]:
    """Return the time of what is done however much is trained."""
    return {
        "vectors before": num_passages / here.encoding,
        "encode": num_passages / here.encoding,
        "judge": 30 + 4 * config.judged_queries / here.encoding,
        "identifiers": 5 + num_passages / 400,
    }


def _without_encoder(
    num_passages: int,
    config: LearnConfig,
    fixed: Mapping[str, float],
    reranker_steps: int,
    writing: float,
    sizes: Mapping[str, int],
) -> LearnPlan:
    """Plan to fit the reranker alone."""
    num_written, each = _fit_writing(_WRITTEN_FITTED * reranker_steps, num_passages, config)
    kept = ("vectors before", "identifiers", "reranker")
    seconds = {name: fixed[name] for name in kept} | {"queries": num_written * each / writing}
    note = (
        "the encoder stays as it is, as its training shows nothing once hits are reranked; ask for"
        " it with --learn.method"
    )
    note = _warn(note, seconds, config)
    return LearnPlan(
        num_written,
        each,
        0,
        method="none",
        steps=0,
        learning_rate=config.learning_rate,
        validations=0,
        validation_queries=0,
        validation_passages=0,
        seconds=seconds,
        note=note,
        reranker_steps=reranker_steps,
        **sizes,
    )


def describe_plan(plan: LearnPlan) -> str:
    """Say in a line what will be done and how long it may take."""
    minutes = {name: seconds / 60 for name, seconds in plan.seconds.items()}
    training = minutes.get("warm-up", 0.0) + minutes.get("training", 0.0)
    method = f" and {plan.steps} of {plan.method}" if plan.method != "none" else ""
    written = plan.num_written * plan.queries_per_passage
    fitting = minutes.get("reranker", 0.0)
    rest = sum(minutes.values()) - minutes["queries"] - training - fitting
    told = (
        f"the plan: about {sum(minutes.values()):.0f} minutes, {minutes['queries']:.0f} for writing"
        f" {written:,} queries,"
        + (
            f" {training:.0f} for {plan.warm_up_steps} steps of warm-up{method} ({ENCODER_GAIN}),"
            if plan.trains_encoder
            else ""
        )
        + (
            f" {fitting:.0f} for {plan.reranker_steps} steps of fitting the reranker"
            f" ({RERANKER_GAIN}),"
            if fitting
            else ""
        )
        + f" {rest:.0f} for vectors and judging"
    )
    return f"{told}; {plan.note}" if plan.note else told


def _sizes(device: str, config: LearnConfig) -> dict[str, int]:
    """Return the sizes that suit a device, unless others are set."""
    usual = {"warm_up_batch": 128, "batch_size": 32, "k": 8, "max_subwords": 256}
    if device == "cpu":
        usual = {"warm_up_batch": 64, "batch_size": 8, "k": 4, "max_subwords": 96}
    return {name: getattr(config, name) or number for name, number in usual.items()}


def _fit_writing(num_queries: float, num_passages: int, config: LearnConfig) -> tuple[int, int]:
    """Choose how many passages are written for, and how much for each: rather all than many each.

    >>> _fit_writing(250, 100, LearnConfig(queries_per_passage=3))
    (100, 2)
    >>> _fit_writing(400, 1000, LearnConfig())
    (400, 1)
    """
    most = min(num_passages, config.max_passages)
    each = min(config.queries_per_passage, int(num_queries / max(1, most)))
    if each >= 1:
        return most, each
    return min(most, max(_FEWEST_WRITTEN, int(num_queries))), 1


def _fit_reranker(
    config: LearnConfig, training: Rates, here: Rates, sizes: FittingSizes, *, is_alone: bool
) -> int:
    """Return the steps that fit the reranker; it comes first."""
    if not config.reranker:
        return 0
    share = _FITTING if is_alone else _FITTING_BESIDE
    seconds = share * _USED * 60 * config.minutes - sizes.num_judged * here.reading
    fits = int(seconds / (sizes.num_fitted * training.fitting))
    return min(config.reranker_steps, fits) if fits >= _FEWEST_FITTED else 0


def _fit_steps(seconds: float, step: float, most: int) -> int:
    """Return the steps that fit, some at the least.

    >>> _fit_steps(100.0, 2.0, 80), _fit_steps(1.0, 2.0, 80), _fit_steps(1.0, 2.0, 4)
    (50, 10, 4)
    """
    return min(most, max(_FEWEST_STEPS, int(seconds / step)))


def _choose_method(config: LearnConfig, device: str, *, fits: int) -> tuple[str, int, str]:
    """Choose what follows the warm-up, with how many steps, and say why if it is left out."""
    if config.method == "none":
        return "none", 0, ""
    if config.method != "auto":
        return config.method, min(config.steps, max(_FEWEST_STEPS, fits)), ""
    if fits < min(SHORTEST, config.steps):
        reason = (
            f"only {fits} steps of RUMBArt would fit after the warm-up, too few to help: give more"
            " --minutes, a GPU, or ask for it with --learn.method"
        )
        return "none", 0, reason
    return "rumbart" if device == "cuda" else "distil", min(config.steps, fits), ""
