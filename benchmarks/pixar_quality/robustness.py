"""Documents that a model was not trained on, and queries with typing errors: what is lost.

    python -m benchmarks.pixar_quality.robustness --set squad-dev --steps 200
    python -m benchmarks.pixar_quality.robustness --set squad --rankings FOLDER

The first trains here, through `Engine`: nine documents in ten are added and trained for, then the
others are added without training. The second judges what `run_gpu` found for `robustness_pack`.
Both judge BM25 over the passages and vectors (not trained either) beside it, over all documents.
Identifiers of new documents were written as those of the old ones. Writes results/robustness.json.
"""

from __future__ import annotations

import argparse
import json
import logging
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.lexical.quality import read
from benchmarks.pixar_quality.hybrid import kept_identifiers
from benchmarks.pixar_quality.pack import parts_of
from benchmarks.pixar_quality.robustness_pack import OLD, PACKED, choose_new, group_queries
from quoth import __version__
from quoth.engine.engine import Engine
from quoth.evaluation.measures import evaluate_run
from quoth.jobs.pixar.job import PixarRequest, train_generative
from quoth.jobs.pixar.report import GenerativeReport
from quoth.records import Document, Hit, Qrels, Query, Run
from quoth.settings.pixar import PixarBuildConfig

RESULTS = Path(__file__).parent / "results" / "robustness.json"
MEASURES = ("RR@10", "R@10", "R@100")
K = 100
Groups = Mapping[str, Sequence[Query]]
Figures = dict[str, dict[str, float]]
"""Group → measure → mean."""


def main() -> None:
    """Measure one set, here or from what was found elsewhere."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, default=Path("../shared/data/ir"))
    parser.add_argument("--set", dest="name", default="squad-dev")
    parser.add_argument("--rankings", type=Path)
    parser.add_argument("--way", default="bag_cos.max", help="ranking of run_gpu that is judged")
    parser.add_argument("--packed", type=Path, default=PACKED)
    parser.add_argument("--steps", type=int, default=200)
    parser.add_argument("--batch", type=int, default=64)
    parser.add_argument("--new-share", type=float, default=0.1)
    parser.add_argument("--queries", type=int, default=300, help="most of each group")
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    logging.basicConfig(level=logging.INFO, format="%(message)s")
    found = measure_rankings(given) if given.rankings else [measure_here(given)]
    rows = json.loads(RESULTS.read_text())["rows"] if RESULTS.exists() else []
    replaced = {_key(each) for each in found}
    rows = [each for each in rows if _key(each) not in replaced] + found
    RESULTS.parent.mkdir(exist_ok=True)
    content = {"quoth": __version__, "measures": MEASURES, "rows": sorted(rows, key=_key)}
    RESULTS.write_text(json.dumps(content, indent=1) + "\n")


def measure_here(given: argparse.Namespace) -> dict[str, Any]:
    """Train on most documents, add the others, and search for all groups."""
    documents = list(read(given.data / given.name))
    docids = [each.docid for each in documents]
    new = choose_new(docids, share=given.new_share, seed=given.seed)
    groups, qrels = group_queries(given.data / given.name, new, seed=given.seed, most=given.queries)
    names = kept_identifiers(given.name)
    settings = [{"generative": {"generator": "none"}}]
    with (
        tempfile.TemporaryDirectory() as scratch,
        Engine.open(Path(scratch) / "c.quoth", settings=settings) as engine,
    ):
        add(engine, [each for each in documents if each.docid not in new], names)
        began = time.perf_counter()
        report = train(engine, given)
        seconds = time.perf_counter() - began
        before = judge_searcher(engine, "generative", {OLD: groups[OLD]}, qrels)
        add(engine, [each for each in documents if each.docid in new], names)
        found = {"generative": judge_searcher(engine, "generative", groups, qrels)}
        found |= judge_others(engine, groups, qrels)
    return {
        "set": given.name,
        "trained on": "cpu",
        "steps": report.steps,
        "best_step": report.best_step,
        "batch_size": report.batch_size,
        "minutes": round(seconds / 60, 1),
        "identifiers": report.num_identifiers,
        "phrases": report.num_phrases,
        "installed": report.installed,
        "documents": len(docids),
        "new": len(new),
        "queries": {group: len(own) for group, own in groups.items()},
        "before adding": before,
        "results": found,
    }


def add(engine: Engine, documents: Sequence[Document], names: Mapping[str, list[str]]) -> None:
    """Add documents and what was written for them."""
    engine.add_documents(documents)
    own = {each.docid: names[each.docid] for each in documents if names.get(each.docid)}
    with engine._writing() as (store, _config):
        store.put_identifiers(own, origin="pseudo-query")


def train(engine: Engine, given: argparse.Namespace) -> GenerativeReport:
    """Train for so many steps."""
    config = PixarBuildConfig(steps=given.steps, batch_size=given.batch, seed=given.seed)
    return train_generative(engine, PixarRequest(config), note=logging.info)


def judge_others(engine: Engine, groups: Groups, qrels: Qrels) -> dict[str, Figures]:
    """Judge what needs no training."""
    engine.encode()
    return {name: judge_searcher(engine, name, groups, qrels) for name in ("lexical", "dense")}


def judge_searcher(engine: Engine, searcher: str, groups: Groups, qrels: Qrels) -> Figures:
    """Search for each group."""
    return {
        group: judge(engine.run(queries, k=K, searcher=searcher), queries, qrels)
        for group, queries in groups.items()
        if queries
    }


def judge(run: Run, queries: Sequence[Query], qrels: Qrels) -> dict[str, float]:
    """Return the means of a run on some queries."""
    asked = Qrels({query.qid: qrels.grades[query.qid] for query in queries})
    means = evaluate_run(run, asked, MEASURES).means
    logging.info("%s: %s", queries[0].qid.partition("/")[0], dict(means))
    return {measure: round(value, 4) for measure, value in means.items()}


def measure_rankings(given: argparse.Namespace) -> list[dict[str, Any]]:
    """Judge the points of a training on a GPU, and the others over the same documents."""
    folder = given.packed / given.name
    tests = json.loads((folder / "tests.json").read_text())
    groups: dict[str, list[Query]] = {}
    for group, qid, text in tests:
        groups.setdefault(group, []).append(Query(qid, text))
    source = parts_of(given.name)[0]
    new = {docid.removeprefix(f"{source}/") for docid in json.loads(_read(folder / "new.json"))}
    _groups, plain = group_queries(given.data / source, new, seed=given.seed)
    qrels = Qrels(
        {
            qid: {f"{source}/{docid}": grade for docid, grade in own.items()}
            for qid, own in plain.grades.items()
        }
    )
    with tempfile.TemporaryDirectory() as scratch, Engine.open(Path(scratch) / "c.quoth") as engine:
        engine.add_documents(_joined(given.data, given.name))
        others = judge_others(engine, groups, qrels)
    names = list(dict.fromkeys(json.loads(_read(folder / "documents.json"))))
    found = []
    for path in sorted(given.rankings.glob(f"{given.name}.*.json")):
        trial = json.loads(path.read_text())
        for point in trial["curve"]:
            ranked = np.load(given.rankings / point["file"])[given.way]
            runs = as_runs(ranked, groups, names)
            generative = {each: judge(runs[each], groups[each], qrels) for each in groups}
            found.append(
                {
                    "set": given.name,
                    "trained on": trial["device"],
                    "steps": point["step"],
                    "batch_size": trial["recipe"]["batch_size"],
                    "minutes": round(point.get("seconds", 0.0) / 60, 1),
                    "identifiers": trial["about"]["identifiers"],
                    "phrases": trial["about"]["size"],
                    "documents": trial["about"]["documents"],
                    "new": trial["about"]["new_documents"],
                    "queries": {group: len(own) for group, own in groups.items()},
                    "results": {"generative": generative, **others},
                }
            )
    return found


def as_runs(ranked: Any, groups: Groups, names: Sequence[str]) -> dict[str, Run]:
    """Cut rankings, one row a query in the order of the groups, into a run for each group."""
    rows = iter(ranked.tolist())
    return {
        group: Run(
            group,
            {
                query.qid: tuple(
                    Hit(names[row], 1.0 / (at + 1)) for at, row in enumerate(next(rows)) if row >= 0
                )
                for query in queries
            },
        )
        for group, queries in groups.items()
    }


def _joined(data: Path, name: str) -> list[Document]:
    return [
        Document(f"{part}/{each.docid}", each.fields)
        for part in parts_of(name)
        for each in read(data / part)
    ]


def _read(path: Path) -> str:
    return path.read_text(encoding="utf-8")


def _key(row: dict[str, Any]) -> tuple[str, str, int]:
    return row["set"], row["trained on"], row["steps"]


if __name__ == "__main__":
    main()
