"""Judge symbols of one number without the cap of 16 slots, and the paper's losses one by one.

    python -m benchmarks.pixar_quality.uncapped FOLDER [--data ../shared/data/ir]

FOLDER holds a folder for each run of `run_gpu --most-slots 64`, by whatever name; its own JSON file
tells what a run is. Runs that differ in their seed alone are one row: the mean of their scores,
query by query. Each is compared with phrases trained alike, paired by query, and the arms of the
losses and of the network with the one that has all. Writes results/uncapped.json.
"""

from __future__ import annotations

import argparse
import json
import logging
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.citations.report import mean_of
from benchmarks.pixar_quality.pack import CACHE
from benchmarks.pixar_quality.report import as_run, document_names, read_qrels, read_tests
from quoth import __version__
from quoth.evaluation.measures import evaluate_run
from quoth.records import Qrels

RESULTS = Path(__file__).parent / "results" / "uncapped.json"
MEASURES = ("RR@10", "R@5", "R@100")
PHRASES = "phrases-30522"
Scores = Mapping[str, Mapping[str, NDArray[np.float64]]]
"""Of each query, by ranking and measure."""


@dataclass(frozen=True)
class Kind:
    """What was trained, whatever its seed."""

    vocabulary: str
    losses: str
    network: str

    @property
    def basis(self) -> Kind:
        """What it is compared with: phrases in its place, or all parts in place of some."""
        if self.vocabulary != PHRASES:
            return Kind(PHRASES, self.losses, self.network)
        return Kind(PHRASES, "bags" if self.losses == "bags" else "all", "{}")


def main() -> None:
    """Judge the last rankings of every run."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--data", type=Path, default=Path("../shared/data/ir"))
    parser.add_argument("--packed", type=Path, default=CACHE / "pixar")
    parser.add_argument("--out", type=Path, default=RESULTS)
    given = parser.parse_args()
    logging.basicConfig(level=logging.INFO, format="%(message)s")
    found: dict[Kind, list[tuple[dict[str, Any], Scores]]] = {}
    for path in sorted(given.folder.glob("*/*.json")):
        trial = json.loads(path.read_text())
        network = json.dumps(trial["network"], sort_keys=True)
        kind = Kind(trial["vocabulary"], trial["losses"], network)
        found.setdefault(kind, []).append((trial, judge(trial, path.parent, given)))
    means = {kind: average([scores for _trial, scores in own]) for kind, own in found.items()}
    rows = [describe(kind, [trial for trial, _scores in own], means) for kind, own in found.items()]
    trials = [trial for own in found.values() for trial, _scores in own]
    content = {
        "quoth": __version__,
        "device": trials[0]["device"],
        "steps": trials[0]["recipe"]["steps"],
        "batch": trials[0]["recipe"]["batch_size"],
        "queries": len(next(iter(next(iter(means.values())).values()))["RR@10"]),
        "rows": rows,
    }
    given.out.write_text(json.dumps(content, indent=1) + "\n")
    for row in rows:
        logging.info("%s %s %s", row["vocabulary"], row["losses"], row["network"])
        for way, own in row["rankings"].items():
            logging.info("    %s %.4f %s", way, own["RR@10"], own.get("against"))


def judge(trial: Mapping[str, Any], folder: Path, given: argparse.Namespace) -> Scores:
    """Score every query by each ranking of the last look of a run."""
    packed = given.packed / trial["set"]
    tests, names = read_tests(packed), document_names(packed)
    qrels = read_qrels(trial["set"], given.data, tests)
    arrays = np.load(folder / trial["curve"][-1]["file"])
    scores = {}
    for way in arrays.files:
        run = as_run(way, arrays[way], tests, names)
        asked = Qrels({qid: qrels.grades[qid] for qid in run.hits})
        own = evaluate_run(run, asked, MEASURES).scores
        scores[way] = {
            measure: np.array([each[qid] for qid in run.hits]) for measure, each in own.items()
        }
    return scores


def average(runs: list[Scores]) -> Scores:
    """Return the mean of several seeds, query by query, of the rankings that all have."""
    ways = [way for way in runs[0] if all(way in own for own in runs)]
    return {
        way: {
            measure: np.asarray(np.mean([own[way][measure] for own in runs], axis=0))
            for measure in MEASURES
        }
        for way in ways
    }


def describe(
    kind: Kind, trials: list[dict[str, Any]], means: Mapping[Kind, Scores]
) -> dict[str, Any]:
    """Return what was trained, its means, and how far it is from what it is compared with."""
    own, basis = means[kind], means.get(kind.basis, {})
    rankings: dict[str, dict[str, Any]] = {}
    for way, scores in own.items():
        rankings[way] = {measure: float(each.mean()) for measure, each in scores.items()}
        if way in basis and kind.basis != kind:
            apart = scores["RR@10"] - basis[way]["RR@10"]
            rankings[way]["against"] = mean_of(apart.tolist())
    return {
        "vocabulary": kind.vocabulary,
        "losses": kind.losses,
        "network": json.loads(kind.network),
        "seeds": sorted(trial["recipe"]["seed"] for trial in trials),
        "slots": trials[0]["slots"],
        "seconds": round(sum(trial["curve"][-1].get("seconds", 0.0) for trial in trials), 1),
        "rankings": rankings,
    }


if __name__ == "__main__":
    main()
