"""What `quoth learn` found out: plain values, kept as JSON beside what was learnt.

Every quality is measured on queries that nothing was trained on, with a 95 % interval over those
queries; a difference is paired by query, so it is surer than the two intervals beside it suggest.
No torch here: a report is read and shown where nothing can be trained.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from statistics import fmean

from quoth.evaluation.significance import difference_interval, mean_interval
from quoth.jobs.job_record import JobRecord


@dataclass(frozen=True, slots=True)
class Estimate:
    """A mean over queries with its 95 % interval, found by bootstrap."""

    mean: float
    low: float
    high: float


@dataclass(frozen=True, slots=True)
class Quality:
    """One searcher on one kind of held-out queries, before and after learning."""

    searcher: str
    """lexical, dense or hybrid."""

    queries: str
    """The kind of queries: known items (also by overlap), pseudo-queries, or labelled pairs."""

    num_queries: int
    measure: str

    before: Estimate | None
    """None where the searcher did not exist before."""

    after: Estimate

    difference: Estimate | None
    """After minus before, paired by query."""


@dataclass(frozen=True, slots=True)
class Stage:
    """One part of the work, such as one training."""

    name: str
    seconds: float
    peak_megabytes: float
    steps: int
    best_step: int

    curve: tuple[tuple[int, float], ...]
    """Steps, each with the held-out RR@10 after it."""

    stopped_because: str


@dataclass(frozen=True, slots=True)
class LearningReport(JobRecord):
    """Everything that is worth knowing of one learning."""

    collection: str
    quoth: str
    """The version of Quoth."""

    seed: int
    device: str
    num_documents: int
    num_passages: int
    num_queries_by_kind: Mapping[str, int]
    encoder_before: str
    encoder_after: str
    installed: bool
    reason: str
    quality: tuple[Quality, ...]
    stages: tuple[Stage, ...]

    leak: Mapping[str, float]
    """How many held-out queries were trained on, and how far words alone give the others away."""

    identifiers: Mapping[str, float]
    """How many pseudo-queries were kept as names of their documents, and of how many."""

    supervision: str
    """One sentence: what people labelled for this, if anything."""

    seconds: float
    peak_megabytes: float

    examples: tuple[tuple[str, tuple[str, ...]], ...]
    """Passages, each with the pseudo-queries written for it."""

    reranker_fitted: bool = False
    """Whether search uses a reranker that was fitted to the collection."""

    second_look: bool = False
    """Whether search looks at its best hits a second time from now on."""

    reranker_reason: str = ""

    generative: Mapping[str, float] = field(default_factory=dict)
    """What training generative search came to; empty where it was not asked for."""


def estimate(values: Sequence[float], *, seed: int, num_resamples: int = 1000) -> Estimate:
    """Return the mean of one score per query, with its interval.

    >>> estimate([0.5, 0.5], seed=0)
    Estimate(mean=0.5, low=0.5, high=0.5)
    """
    interval = mean_interval(values, seed=seed, num_resamples=num_resamples)
    return Estimate(fmean(values), interval.low, interval.high)


def paired_difference(
    before: Sequence[float], after: Sequence[float], *, seed: int, num_resamples: int = 1000
) -> Estimate:
    """Return the mean of after minus before over the same queries, with its interval.

    >>> paired_difference([0.25, 0.5], [0.5, 0.75], seed=0)
    Estimate(mean=0.25, low=0.25, high=0.25)
    """
    interval = difference_interval(after, before, seed=seed, num_resamples=num_resamples)
    mean = fmean(new - old for old, new in zip(before, after, strict=True))
    return Estimate(mean, interval.low, interval.high)
