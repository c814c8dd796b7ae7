"""Does the reranker learn more of a teacher than of the passage that a query was written for?

    python -m benchmarks.learn.taught --generator FOLDER [--sets cisi,scifact] [--arms NAME;NAME]

As `benchmarks.learn.after`, but what the reranker is fitted to is a distribution over the passages
found: that of the reranker before, with log p(query | passage) of a query generator added, which is
the best ranking known here and too slow for searching (*SmolLM2*: FOLDER, a causal generator;
*small*: the one that writes the queries; *old*: the reranker alone, so as not to forget). A share
goes to the passage that the query was written for, as by default all of it. Needs a GPU to end
within minutes. Sets that were measured before are kept. Writes results/taught.json.
"""

from __future__ import annotations

import argparse
import json
import logging
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import torch
from torch import Tensor

from benchmarks.learn import after
from benchmarks.learn.voices import contrast
from benchmarks.on_gpu import GpuModels, read_on_gpu
from quoth.engine.models import LoadedModels
from quoth.jobs.learn import reranker
from quoth.search.rerank import ReadPassage, join_passage
from quoth.training.loop import Progress
from quoth.training.recipes.fitted_reader import (
    FitExample,
    FitRecipe,
    OpenReader,
    PassageLists,
    fit_reader,
)

RESULTS = Path(__file__).parent / "results" / "taught.json"
SMALL = "query-generator"
_READ = 64  # examples at once


@dataclass(frozen=True)
class Lesson:
    """What a reranker is fitted to."""

    voice: str = ""
    """The query generator whose likelihood is added: small or causal; none where empty."""
    factor: float = 0.0
    """How much that likelihood counts."""
    temperature: float = 1.0
    own: float = 0.0
    """Share of the passage that a query was written for."""
    settings: Mapping[str, Any] = field(default_factory=dict)
    """Of `learn`, beside its defaults: 60 steps, half the way."""


_LONG = {"reranker_steps": 240, "reranker_share": 1.0}
LESSONS: Mapping[str, Lesson] = {
    "old, own ½": Lesson(own=0.5),
    "small 0.1, own 0.3": Lesson("small", 0.1, 2.0, 0.3),
    "SmolLM2 0.4": Lesson("causal", 0.4, 2.0),
    "SmolLM2 0.4, 240 steps, whole": Lesson("causal", 0.4, 2.0, 0.0, _LONG),
    "SmolLM2 0.4, own 0.3, 240 steps, whole": Lesson("causal", 0.4, 2.0, 0.3, _LONG),
}


def main() -> None:
    """Measure the sets that were asked for and write one JSON file."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, default=Path("../shared/data/ir"))
    parser.add_argument("--generator", required=True, help="Folder of a causal query generator.")
    parser.add_argument("--sets", default="")
    parser.add_argument("--queries", type=int, default=200, help="Most queries of a split.")
    parser.add_argument("--arms", default=";".join(LESSONS))
    parser.add_argument("--out", type=Path, default=RESULTS)
    given = parser.parse_args()
    logging.basicConfig(level=logging.INFO, format="%(message)s")
    rows = json.loads(given.out.read_text())["rows"] if given.out.exists() else []
    models = GpuModels() if read_on_gpu() else LoadedModels()
    names = given.sets.split(",") if given.sets else sorted(p.name for p in given.data.iterdir())
    arms = {name: LESSONS[name] for name in given.arms.split(";")}
    for name in names:
        known = [row for row in rows if row["set"] != name]
        with tempfile.TemporaryDirectory() as scratch:
            generators = {"small": SMALL, "causal": given.generator}
            teacher = Teacher(models, generators)
            trial = TaughtTrial(given.data / name, Path(scratch), models, most=given.queries)
            trial.lessons, trial.teacher = arms, teacher
            settings = {arm: dict(own.settings) for arm, own in arms.items()}
            for row in trial.measure({"before": {}}, settings, ["0"], voices=False):
                rows = [*known, row]
                write(sorted(rows, key=lambda each: each["set"]), given.out)


def write(rows: Sequence[Mapping[str, Any]], path: Path) -> None:
    """Write what was measured and its sums, a row to a line."""
    sums = {
        name: after.sum_up(rows, chooses=chooses)
        for name, chooses in (("training", True), ("test", False))
    }
    sums["above_learned"] = above_learned(rows, json.loads(after.RESULTS.read_text())["rows"])
    head = json.dumps({"chosen_on": after.CHOSEN_ON, **sums}, indent=1).removesuffix("\n}")
    body = ",\n".join(json.dumps(row) for row in rows)
    path.write_text(f'{head},\n "rows": [\n{body}\n]}}\n')


def above_learned(
    rows: Sequence[Mapping[str, Any]], learned: Sequence[Mapping[str, Any]]
) -> list[dict[str, Any]]:
    """Compare every lesson with `quoth learn` as it is, paired by test query."""
    known = {row["set"]: row for row in learned}
    changes: dict[str, dict[str, Any]] = {}
    for row in rows:
        split = next(each for each in row["by_query"] if each != after.CHOSEN_ON.get(row["set"]))
        usual = np.array(known[row["set"]]["by_query"][split]["learned"])
        for state in LESSONS.keys() & row["by_query"][split].keys():
            change = np.array(row["by_query"][split][state]) - usual
            changes.setdefault(state, {})[row["set"]] = change
    return [{"state": each, **contrast(changes[each])} for each in LESSONS if each in changes]


class TaughtTrial(after.Trial):
    """A collection whose reranker is taught."""

    lessons: Mapping[str, Lesson]
    teacher: Teacher

    def _learn(self, path: Path, name: str, settings: Mapping[str, Any]) -> None:
        self.teacher.lesson = self.lessons[name]
        with mock.patch.object(reranker, "fit_reader", self.teacher.fit):
            super()._learn(path, name, settings)


class Teacher:
    """Fits rerankers to what a lesson says of the passages found."""

    def __init__(self, models: LoadedModels, generators: Mapping[str, str]) -> None:
        self.lesson = Lesson()
        self._models = models
        self._generators = generators

    def fit(
        self,
        reader: OpenReader,
        examples: Sequence[FitExample],
        recipe: FitRecipe,
        *,
        device: torch.device,
        progress: Callable[[Progress], None] | None = None,
    ) -> None:
        """Train a reader in place, as `fit_reader` does by default."""
        lists = PassageLists(reader, examples, recipe.max_subwords).to(device).eval()
        targets = self._targets(examples, _read_all(lists, len(examples)))

        def loss(rows: Sequence[int], scores: Sequence[Tensor]) -> Tensor:
            pairs = zip(scores, (targets[row].to(device) for row in rows), strict=True)
            return torch.stack([taught_loss(*each, self.lesson) for each in pairs]).mean()

        fit_reader(reader, examples, recipe, device=device, loss=loss, progress=progress)

    def _targets(self, examples: Sequence[FitExample], before: Sequence[Tensor]) -> list[Tensor]:
        lesson = self.lesson
        likely = self._likelihoods(examples) if lesson.factor else [0.0 * own for own in before]
        return [
            torch.softmax((own + lesson.factor * said) / lesson.temperature, 0)
            for own, said in zip(before, likely, strict=True)
        ]

    def _likelihoods(self, examples: Sequence[FitExample]) -> list[Tensor]:
        """Return log p(query | passage) of the passages of each example."""
        pairs = [(each.query, own) for each in examples for own in each.passages]
        generator = self._models.generator(self._generators[self.lesson.voice])
        cuda = torch.cuda.is_available()
        with torch.autocast("cuda" if cuda else "cpu", dtype=torch.bfloat16, enabled=cuda):
            found = generator.score(
                [query for query, _own in pairs],
                [join_passage(ReadPassage(own.title, own.text)) for _query, own in pairs],
            )
        sizes = [len(each.passages) for each in examples]
        return list(torch.split(torch.as_tensor(np.asarray(found)), sizes))


@torch.no_grad()
def _read_all(lists: PassageLists, count: int) -> list[Tensor]:
    """Return the scores of all rows, as they are before training."""
    batches = (range(at, min(at + _READ, count)) for at in range(0, count, _READ))
    return [own.cpu() for rows in batches for own in lists(rows)]


def taught_loss(scores: Tensor, target: Tensor, lesson: Lesson) -> Tensor:
    """Compare scores with what is taught; the first passage is the query's own."""
    heat = lesson.temperature
    taught = -(target * torch.log_softmax(scores / heat, 0)).sum() * heat**2
    own = -torch.log_softmax(scores, 0)[0]
    return lesson.own * own + (1.0 - lesson.own) * taught


if __name__ == "__main__":
    main()
