"""How familiar the reranker is with a collection, and what a gate by that would have done.

    python -m benchmarks.learn.familiar [--data ../shared/data/ir] [--sets cisi,scifact]

Queries are written for 200 passages of each collection, spread evenly, by the query generator that
`quoth learn` uses, and the reranker tells how relevant each passage is to its own query. The median
is what `learn.reranker_familiar` goes by. It needs neither vectors nor judgements. Beside it stands
what fine-tuning changed in the trials of `benchmarks.learn.repeats`, on the queries that only judge
and on training queries, which choose the limit. Sets that were measured before are kept. Writes
results/familiar.json.
"""

from __future__ import annotations

import argparse
import json
import logging
import statistics
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from benchmarks.learn.repeats import FOLDER, LearningTrial, correlate, read_trials
from benchmarks.learn.repeats import SOURCES as TRIALS
from benchmarks.lexical.quality import read
from quoth import __version__
from quoth.engine.engine import Engine
from quoth.engine.models import LoadedModels
from quoth.engine.reranking import identify_reranker
from quoth.jobs.context import open_context
from quoth.jobs.learn.queries import list_units, spread
from quoth.jobs.learn.reranker import familiarity
from quoth.models.glow.config import GlowConfig
from quoth.models.pretrained import find_shipped
from quoth.search.rerank_config import RerankConfig
from quoth.settings.learn import LearnConfig

RESULTS = FOLDER / "familiar.json"
WRITTEN = 200


def main() -> None:
    """Measure the sets that were asked for and write one JSON file."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, default=Path("../shared/data/ir"))
    parser.add_argument("--sets", default="")
    parser.add_argument("--out", type=Path, default=RESULTS)
    given = parser.parse_args()
    logging.basicConfig(level=logging.INFO, format="%(message)s")
    found = json.loads(given.out.read_text())["relevance"] if given.out.exists() else {}
    names = given.sets.split(",") if given.sets else sorted(p.name for p in given.data.iterdir())
    models = LoadedModels()
    for name in names:
        if name not in found:
            found[name] = round(measure(given.data / name, models), 3)
            logging.info("%s %.2f", name, found[name])
            given.out.write_text(json.dumps(sum_up(found), indent=1) + "\n")
    given.out.write_text(json.dumps(sum_up(found), indent=1) + "\n")


def measure(folder: Path, models: LoadedModels) -> float:
    """Return the median relevance of passages for the queries written for them."""
    config = LearnConfig()
    with tempfile.TemporaryDirectory() as scratch, Engine.open(Path(scratch) / "c.quoth") as engine:
        engine.add_documents(read(folder))
        with open_context(engine, lambda _text: None) as context:
            units = list_units(context.store, GlowConfig(), share=config.held_out, seed=config.seed)
    rows = spread(len(units), WRITTEN)
    written = models.generator(config.generator).generate(
        [units[row].source.whole for row in rows],
        per_passage=1,
        temperature=config.temperature,
        seed=config.seed,
    )
    by_row = dict(zip(rows, written, strict=True))
    return familiarity(units, by_row, score=models.reranker(RerankConfig()))


def sum_up(relevance: Mapping[str, float]) -> dict[str, Any]:
    """Put what trials changed beside the relevance, and say what a gate would have done."""
    limit = LearnConfig().reranker_familiar
    trials = [each for name, base in TRIALS.items() for each in read_trials(name, base)]
    known = [each for each in trials if each.set in relevance]
    return {
        "quoth": __version__,
        "reader": identify_reranker(find_shipped("reader")),
        "limit": limit,
        "relevance": dict(sorted(relevance.items(), key=lambda pair: pair[1])),
        "correlation": correlate_sets(relevance, known) if len(relevance) > 2 else None,
        "changes": mean_changes(known),
        "training": mean_changes(
            [
                each
                for name, base in TRIALS.items()
                for each in read_trials(name, base, chooses=True)
                if each.set in relevance
            ]
        ),
        "gated": gate(relevance, known, limit=limit),
        "left_out": gate_left_out(relevance, known),
    }


def mean_changes(trials: Sequence[LearningTrial]) -> dict[str, float]:
    """Return the mean change of each collection."""
    by_set: dict[str, list[float]] = {}
    for each in trials:
        by_set.setdefault(each.set, []).append(each.change)
    return {name: round(statistics.fmean(own), 5) for name, own in sorted(by_set.items())}


def correlate_sets(relevance: Mapping[str, float], trials: Sequence[LearningTrial]) -> float:
    """Correlate the relevance of collections with the mean change of their trials."""
    return correlate((relevance[name], own) for name, own in mean_changes(trials).items())


def gate(
    relevance: Mapping[str, float], trials: Sequence[LearningTrial], *, limit: float
) -> dict[str, Any]:
    """Say what fine-tuning changes over all collections if only those below a limit have it."""
    changes = mean_changes(trials)
    taken = sorted(name for name in changes if relevance[name] < limit)
    return {
        "taken": taken,
        "mean": round(sum(changes[name] for name in taken) / max(1, len(changes)), 5),
        "always": round(statistics.fmean(changes.values()), 5) if changes else 0.0,
        "worst": min((changes[name] for name in taken), default=0.0),
    }


def gate_left_out(
    relevance: Mapping[str, float], trials: Sequence[LearningTrial]
) -> dict[str, float]:
    """Choose the best limit on all collections but one, and say what it does to that one."""
    changes = mean_changes(trials)
    found = {}
    for name in changes:
        others = {each: own for each, own in changes.items() if each != name}
        limits = sorted(relevance[each] + 1e-6 for each in others)
        best = max(
            (*limits, 0.0),
            key=lambda limit: sum(own for each, own in others.items() if relevance[each] < limit),
        )
        found[name] = changes[name] if relevance[name] < best else 0.0
    return found


if __name__ == "__main__":
    main()
