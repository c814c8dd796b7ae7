"""Judge what `shortlist_rivals` and `autoregressive` found, query by query beside PIXAR.

    python -m benchmarks.pixar_quality.contrast_report OUT [--data ../shared/data/ir]

OUT is where both wrote. Means have intervals of 95 %, bootstrapped over queries; contrasts are with
PIXAR over all phrases, corrected for all that are made together. Writes results/shortlists.json
and results/autoregressive.json, each only where OUT has something for it.
"""

from __future__ import annotations

import argparse
import json
import logging
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.pixar_quality.pack import CACHE, read_corpus
from benchmarks.pixar_quality.report import (
    as_run,
    document_names,
    joined_identifiers,
    read_qrels,
    read_tests,
    search_texts,
)
from quoth import __version__
from quoth.evaluation.compare import compare
from quoth.records import Qrels, Query, Run

RESULTS = Path(__file__).parent / "results"
MEASURES = ("RR@10", "R@5", "R@20", "R@100")
LIST_WAYS = ("bag_cos.max", "ordered.max", "ordered.seal")
PIXAR_WAYS = ("bag_cos.max", "ordered.max", "ordered.seal")
BEAM_WAYS = ("sum.max", "sum.logsumexp", "sum.seal", "mean.max", "mean.logsumexp", "mean.seal")
BASELINE = "full.all"


def main() -> None:
    """Judge what is there."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--data", type=Path, default=Path("../shared/data/ir"))
    parser.add_argument("--packed", type=Path, default=CACHE / "pixar")
    parser.add_argument("--results", type=Path, default=RESULTS)
    given = parser.parse_args()
    logging.basicConfig(level=logging.INFO, format="%(message)s")
    facts = json.loads((given.folder / "shortlists.json").read_text())
    judge = Judge.open(given, facts["set"])
    _write(given.results / "shortlists.json", judge_shortlists(judge, facts))
    starts = sorted(given.folder.glob("autoregressive.*.latency.json"))
    if starts:
        found = judge_autoregressive(judge, facts, [path.name.split(".")[1] for path in starts])
        found["baselines"] = judge_bm25(judge, given, facts["set"])
        _write(given.results / "autoregressive.json", found)


@dataclass(frozen=True)
class Judge:
    """The test queries, what is relevant to them, and where rankings lie."""

    folder: Path
    tests: list[tuple[str, Query]]
    names: list[str]
    qrels: Qrels

    @classmethod
    def open(cls, given: argparse.Namespace, name: str) -> Judge:
        """Read queries and judgements of a packed set."""
        tests = read_tests(given.packed / name)
        names = document_names(given.packed / name)
        return cls(given.folder, tests, names, read_qrels(name, given.data, tests))

    def run(self, name: str, file: str, way: str) -> Run:
        """Read a ranking."""
        return as_run(name, np.load(self.folder / file)[way], self.tests, self.names)

    def compare(self, runs: Sequence[Run], *, baseline: str) -> dict[str, dict[str, Any]]:
        """Return mean, interval and contrast of each run in each measure."""
        asked = runs[0].hits.keys()
        qrels = Qrels({qid: self.qrels.grades[qid] for qid in asked})
        same = [Run(run.name, {qid: run.hits[qid] for qid in asked}) for run in runs]
        found: dict[str, dict[str, Any]] = {run.name: {} for run in runs}
        for row in compare(same, qrels, MEASURES, baseline=baseline).rows:
            figures = asdict(row)
            found[figures.pop("run_name")][figures.pop("measure")] = figures
        return found


def judge_shortlists(judge: Judge, facts: dict[str, Any]) -> dict[str, Any]:
    """Judge every method's shortlist beside all phrases."""
    rows = {f"{each['method']}.{each['vectors']}": dict(each) for each in facts["methods"]}
    files = {name: row.pop("file") for name, row in rows.items()}
    for row in rows.values():
        row["results"] = {}
    for way in LIST_WAYS:
        runs = [judge.run(name, file, way) for name, file in files.items()]
        for name, figures in judge.compare(runs, baseline=BASELINE).items():
            rows[name]["results"][way] = figures
    rest = {key: value for key, value in facts.items() if key != "methods"}
    return {"quoth": __version__, **rest, "rows": list(rows.values())}


def judge_autoregressive(
    judge: Judge, facts: dict[str, Any], starts: Iterable[str]
) -> dict[str, Any]:
    """Judge the control, from each start that was tried, beside PIXAR; latencies as they are."""
    rankings = {
        (system, way): f"shortlists.{name}.all.npz"
        for system, name in (("pixar", "full"), ("pixar_shortlist", "centroids"))
        for way in PIXAR_WAYS
    }
    arms = []
    for start in starts:
        training = _read(judge.folder / f"autoregressive.{start}.json")
        latency = _read(judge.folder / f"autoregressive.{start}.latency.json")
        arms.append({"start": start, "training": training, "latency": latency})
        for path in sorted(judge.folder.glob(f"autoregressive.{start}.beam-*.npz")):
            system = path.name.removeprefix("autoregressive.").removesuffix(".npz")
            rankings |= {(system, way): path.name for way in BEAM_WAYS}
    baseline = f"pixar {PIXAR_WAYS[0]}"
    runs = [judge.run(f"{system} {way}", file, way) for (system, way), file in rankings.items()]
    compared = judge.compare(runs, baseline=baseline)
    rows = [
        {"system": system, "way": way, "results": compared[f"{system} {way}"]}
        for system, way in rankings
    ]
    about = {key: facts[key] for key in ("set", "vocabulary", "about", "step", "device")}
    about["seconds"] = training_seconds(judge.folder, facts)
    return {"quoth": __version__, **about, "baseline": baseline, "arms": arms, "rows": rows}


def training_seconds(folder: Path, facts: dict[str, Any]) -> float | None:
    """Read how long PIXAR was trained, where `run_gpu` wrote into the same folder."""
    found = folder.glob(f"{facts['set']}.{facts['vocabulary']}.*.json")
    points = [point for path in found for point in _read(path)["curve"]]
    own = [each["seconds"] for each in points if each["step"] == facts["step"]]
    return own[0] if own else None


def judge_bm25(judge: Judge, given: argparse.Namespace, name: str) -> dict[str, Any]:
    """Search passages, and the identifiers joined per passage, by BM25."""
    documents = json.loads((given.packed / name / "documents.json").read_text())
    texts = {
        "identifiers": joined_identifiers(name, given),
        "passages": read_corpus(name, given.data).texts,
    }
    runs = []
    for label, own in texts.items():
        found = search_texts(own, documents, judge.tests)
        runs.append(Run(label, found.hits))
    return judge.compare(runs, baseline="passages")


def _read(path: Path) -> dict[str, Any]:
    content: dict[str, Any] = json.loads(path.read_text())
    return content


def _write(path: Path, content: dict[str, Any]) -> None:
    path.parent.mkdir(exist_ok=True)
    path.write_text(json.dumps(content, indent=1) + "\n")
    for row in content["rows"]:
        name = row.get("system") or f"{row['method']}.{row['vectors']}"
        way, results = row.get("way", LIST_WAYS[0]), row["results"]
        figures = results if "way" in row else results[way]
        told = {measure: round(figures[measure]["mean"], 3) for measure in MEASURES}
        logging.info("%s %s %s", name, way, told)


if __name__ == "__main__":
    main()
