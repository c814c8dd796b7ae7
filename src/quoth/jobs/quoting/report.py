"""What `quoth train dynamic-lm` found out: plain values, kept as JSON."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from quoth.jobs.job_record import JobRecord


@dataclass(frozen=True, slots=True)
class PhraseScores:
    """How well phrases are chosen where the text is known, on held-out samples of one kind."""

    num_samples: int
    mixed_loss: float
    """Mean of −log p over subwords and phrases."""

    phrase_recall: float
    """Share of the right phrases that have the highest score."""

    phrase_precision: float
    """Share of the phrases with the highest score that are right."""


@dataclass(frozen=True, slots=True)
class HeldOutMeasures(JobRecord):
    """What a model is worth on documents that nothing was trained on."""

    perplexity: float
    """Of their passages as plain text, without phrases."""

    scores: Mapping[str, PhraseScores]
    """By kind of samples: texts, and quotations where there are any."""


@dataclass(frozen=True, slots=True)
class DynamicReport(JobRecord):
    """Everything that is worth knowing of one training of a language model."""

    collection: str
    model: str
    start: str
    """The model it started from."""

    device: str
    seed: int
    counts: Mapping[str, int]
    """Samples by kind, trained on and held out."""

    steps: int
    losses: tuple[tuple[int, float], ...]
    before: HeldOutMeasures
    after: HeldOutMeasures
    abstention: str
    """Where the calibration of abstention comes from."""

    seconds: Mapping[str, float]
    """Time of each stage, interrupted training included."""

    peak_megabytes: float
    is_installed: bool = False
    is_old: bool = False
    """Whether this is the report of an earlier call with the same settings and documents."""


def how_to_use(report: DynamicReport) -> str:
    """Say how the model is asked."""
    if report.is_installed:
        return f"Installed: quoth ask {report.collection} QUESTION now answers with {report.model}"
    return (
        f"Use it with: quoth ask {report.collection} QUESTION --answer.model {report.model};"
        " --install makes the collection use it"
    )
