"""What `quoth train pixar` found out: plain values, kept as JSON, and how they are shown."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from rich.console import Group
from rich.text import Text

from quoth.cli.show import count, make_safe, table
from quoth.errors import Damaged
from quoth.jobs.report.plots import duration

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
class GenerativeReport:
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

    def to_record(self) -> dict[str, Any]:
        """Give everything as plain values for JSON."""
        return asdict(self)

    @classmethod
    def from_record(cls, record: Mapping[str, Any]) -> GenerativeReport:
        """Read what `to_record` gave; anything else is damaged."""
        try:
            judged = tuple(JudgedKind(**each) for each in record["judged"])
            return cls(**{**record, "judged": judged})
        except (KeyError, TypeError) as error:
            raise Damaged(
                f"this is no report of this version of Quoth ({error}); train again with --restart"
            ) from error

    def values(self) -> dict[str, float]:
        """Give the main numbers, for the report of `quoth learn`."""
        found: dict[str, float] = {
            "phrases": float(self.num_phrases),
            "identifiers": float(self.num_identifiers),
            "steps": float(self.steps),
        }
        for each in self.judged:
            found[f"{MEASURE} of {each.queries}, untrained"] = round(each.untrained, 4)
            found[f"{MEASURE} of {each.queries}, trained"] = round(each.trained, 4)
        return found


def render_generative(report: GenerativeReport) -> Group:
    """Lay out a report for the terminal: quality first, then sizes and times."""
    rows = [
        [each.queries, f"{each.num_queries:,}"]
        + [f"{value:.4f}" for value in (each.lexical, each.untrained, each.trained)]
        for each in report.judged
    ]
    title = f"{MEASURE} on held-out queries among {count(report.num_documents, 'document')}"
    columns = ["queries", "number", "BM25", "untrained", "trained"]
    return Group(
        table(title, columns, rows) if rows else Text("nothing was held out to judge by"),
        table("what was built", ["what", "value"], [[*row] for row in _facts(report).items()]),
        table(
            "stages",
            ["stage", "time"],
            [[name, duration(seconds)] for name, seconds in report.seconds.items()],
        ),
        Text(make_safe(verdict(report))),
    )


def verdict(report: GenerativeReport) -> str:
    """Say which model search uses, and how to search with it."""
    how = f"search with: quoth search {report.collection} QUERY --with generative"
    if report.installed == "trained":
        return f"Installed the trained model {report.model}; {how}"
    return (
        f"Installed {report.model} untrained, as training did not better it: give more --minutes or"
        f" more identifiers (quoth learn writes some); {how}"
    )


def _facts(report: GenerativeReport) -> dict[str, str]:
    kept = f", the best after {report.best_step:,}" if report.best_step else ""
    unnamed = {"documents without a name": f"{report.num_unnamed:,}"} if report.num_unnamed else {}
    return unnamed | {
        "identifiers": f"{report.num_identifiers:,}, of {report.mean_length:.2f} phrases",
        "phrases": f"{report.num_phrases:,}, shortlist: {report.method}",
        "slots": f"{report.num_slots:,}",
        "queries to learn from": f"{report.num_inputs:,}",
        "steps": f"{report.steps:,} of {report.batch_size:,} queries ({report.device}){kept}",
        "loss": f"{report.first_loss:.3f} → {report.last_loss:.3f}",
        "size": f"{report.megabytes:,.1f} MB",
        "seed": str(report.seed),
    }
