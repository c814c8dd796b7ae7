"""What `quoth train glow` is asked for, and what it found out."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from quoth.jobs.job_record import JobRecord
from quoth.models.glow.config import GlowConfig
from quoth.text.words import AnalyserConfig
from quoth.training.recipes.glow_config import GlowRecipe
from quoth.training.retriever.held_out import HeldOutScores


@dataclass(frozen=True, slots=True)
class GlowRequest:
    """What is to be trained, from what, and where."""

    pairs: Path
    out: Path
    recipe: GlowRecipe
    encoder: GlowConfig
    base: str
    analyser: AnalyserConfig = AnalyserConfig()  # noqa: RUF009 - frozen
    """Finds words that weigh; that of the collection goes before."""

    collection: Path | None = None
    held_out: float = 0.1
    device: str = "auto"
    checkpoint_every: int = 100
    resume: bool = True


@dataclass(frozen=True, slots=True)
class GlowReport(JobRecord):
    """What a training did; scores are None where nothing was held out."""

    out: Path
    num_pairs: int
    num_queries: int
    num_passages: int
    steps: int
    losses: tuple[tuple[int, float], ...]
    device: str
    num_layers: int
    base_layers: int
    """Layers of the encoder that was trained, and of the base, as many of whose it kept."""

    before: HeldOutScores | None
    """Of the base as it is, with all its layers and without weights."""

    start: HeldOutScores | None
    """Of the network that training began with."""

    after: HeldOutScores | None
    is_old: bool = False
    """Whether this is the report of an earlier run with the same settings."""

    def summary(self) -> dict[str, Any]:
        """Return what a user wants to know, as plain values for JSON."""
        scores = {
            name: {"RR@10": each.mrr, "nDCG@10": each.ndcg}
            for name, each in (
                ("before", self.before),
                ("start", self.start),
                ("after", self.after),
            )
            if each is not None
        }
        return {
            "encoder": str(self.out),
            "pairs": self.num_pairs,
            "held_out_queries": self.num_queries,
            "passages": self.num_passages,
            "steps": self.steps,
            "losses": [list(each) for each in self.losses],
            "device": self.device,
            "layers": self.num_layers,
            "layers_of_the_base": self.base_layers,
            "held_out": scores,
        }
