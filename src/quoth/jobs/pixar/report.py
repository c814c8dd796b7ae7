"""What `quoth train pixar` found out: plain values, kept as JSON."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from quoth.jobs.job_record import JobRecord

MEASURE = "RR@10"


@dataclass(frozen=True, slots=True)
class JudgedKind:
    """RR@10 among the documents on one kind of queries that nothing was trained on."""

    queries: str
    num_queries: int
    lexical: float
    """BM25 over the documents, for comparison."""

    untrained: float
    """The model whose rows are the encoder's vectors of the phrases."""

    trained: float


@dataclass(frozen=True, slots=True)
class GenerativeReport(JobRecord):
    """Everything that is worth knowing of one training of generative search."""

    collection: str
    model: str
    device: str
    seed: int
    num_documents: int
    num_unnamed: int
    """Documents that nothing names, which generative search cannot find."""

    num_identifiers: int
    num_phrases: int
    num_slots: int
    mean_length: float
    """Phrases of an identifier, in the mean."""

    num_inputs: int
    """Queries that were trained on."""

    steps: int
    batch_size: int
    first_loss: float
    """All terms together, when the last of them has reached its full weight."""

    last_loss: float
    method: str
    """How the shortlist is made: full or centroids."""

    judged: tuple[JudgedKind, ...]
    installed: str
    """Which model search uses: trained, or untrained where training did not help."""

    megabytes: float
    """Size of all that is installed."""

    seconds: Mapping[str, float]
    """Time of each stage, that of interrupted runs included."""

    best_step: int = 0
    """Step whose state was kept, as it was the best on queries kept back for this; 0: the last."""

    is_old: bool = False
    """Whether this is the report of an earlier call with the same settings and documents."""

    def values(self) -> dict[str, float]:
        """Return the main numbers, for the report of `quoth learn`."""
        found: dict[str, float] = {
            "phrases": float(self.num_phrases),
            "identifiers": float(self.num_identifiers),
            "steps": float(self.steps),
        }
        for each in self.judged:
            found[f"{MEASURE} of {each.queries}, untrained"] = round(each.untrained, 4)
            found[f"{MEASURE} of {each.queries}, trained"] = round(each.trained, 4)
        return found


def verdict(report: GenerativeReport) -> str:
    """Say which model search uses, and how to search with it."""
    how = f"search with: quoth search {report.collection} QUERY --with generative"
    if report.installed == "trained":
        return f"Installed the trained model {report.model}; {how}"
    if not report.steps:
        return f"Installed {report.model} without training, as was asked for; {how}"
    return (
        f"Installed {report.model} untrained, as training did not better it: give more --minutes or"
        f" more identifiers (quoth learn writes some); {how}"
    )
