"""Judge what learning found, alone and fused with BM25, against the collections' judgements.

    python -m benchmarks.learn.report FOLDER [FOLDER ...] [--data ../shared/data/ir]

A folder is what `benchmarks.learn.run_gpu` wrote; further folders with the same start and seed add
the states that the first ones lack (runs that were cut short are so completed later). Every state
of the encoder is judged by its own ranking and fused with BM25: an even mix, each searcher's scores
over its usual range on these queries (no judgement is needed for that); BM25 and the fusion before
learning also as the query generator reranks them. Differences are paired by query. Joins results of
several folders over time: rows of the same collection, start and seed are replaced. Writes
results/learn.json, or the file that `--out` names, with the measures that `--measures` does.
"""

from __future__ import annotations

import argparse
import json
import logging
import tempfile
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.lexical.quality import read, splits
from quoth import __version__
from quoth.engine.engine import Engine
from quoth.evaluation.compare import compare
from quoth.records import Hit, Qrels, Query, Run
from quoth.search.hybrid.fusion import convex, measure_ranges
from quoth.search.rerank_config import RerankConfig
from quoth.search.standings import mix

RESULTS = Path(__file__).parent / "results" / "learn.json"
TESTS = Path("benchmarks/.cache/learn/tests.json")
MEASURES = ("nDCG@10", "RR@10", "R@100")
DEPTH = 100
COMPARED = (
    *((state, "before") for state in ("warm-up", "rumbart", "acrobart", "rumbart~half")),
    *(
        (f"{state} + bm25", "before + bm25")
        for state in ("warm-up", "rumbart", "acrobart", "rumbart~half")
    ),
    ("rumbart", "warm-up"),
    ("rumbart", "control"),
    ("acrobart", "rumbart"),
    ("rumbart~half + bm25", "bm25"),
    ("bm25 reranked", "bm25"),
    ("before + bm25 reranked", "before + bm25"),
)
"""Which runs are tested against which."""


def make_parser(about: str, out: Path) -> argparse.ArgumentParser:
    """Say what can be asked of whoever reads the folders of runs."""
    parser = argparse.ArgumentParser(description=about)
    parser.add_argument("folders", type=Path, nargs="+", metavar="FOLDER")
    parser.add_argument("--data", type=Path, default=Path("../shared/data/ir"))
    parser.add_argument("--tests", type=Path, default=TESTS)
    parser.add_argument("--out", type=Path, default=out)
    return parser


def main() -> None:
    """Judge every collection of a folder."""
    parser = make_parser(__doc__.splitlines()[0], RESULTS)
    parser.add_argument("--measures", default=",".join(MEASURES))
    given = parser.parse_args()
    logging.basicConfig(level=logging.INFO, format="%(message)s")
    about = read_runs(given.folders)
    tests = json.loads(given.tests.read_text())
    known = json.loads(given.out.read_text()) if given.out.exists() else {"rows": []}
    rows = known["rows"]
    start, seed = about["settings"]["start"], int(about["settings"]["seed"])
    most = int(about["settings"]["test_queries"])
    measures = tuple(given.measures.split(","))
    for name in sorted({run["set"] for run in about["runs"]}):
        training = [run for run in about["runs"] if run["set"] == name]
        cut = {split: queries[:most] for split, queries in tests[name].items()}
        arrays = read_arrays(name, given.folders)
        for row in judge_set(given.data / name, arrays, cut, measures):
            row |= {"start": start, "seed": seed, "training": training}
            key = _key(row)
            rows = [each for each in rows if _key(each) != key] + [row]
    rows.sort(key=lambda row: (row["set"], row["split"], row["start"], row["seed"]))
    content = {
        "quoth": __version__,
        "device": about["device"],
        "measures": measures,
        "recipes": about["recipes"] if start == "pretrained" else known.get("recipes", {}),
        "rows": rows,
    }
    given.out.parent.mkdir(exist_ok=True)
    given.out.write_text(json.dumps(content, indent=1) + "\n")


def read_runs(folders: list[Path]) -> dict[str, Any]:
    """Join what was trained, a state that was trained twice as in the first folder."""
    first, *others = [json.loads((folder / "runs.json").read_text()) for folder in folders]
    for other in others:
        for setting in ("start", "seed", "test_queries"):
            if other["settings"][setting] != first["settings"][setting]:
                raise SystemExit(f"the folders differ in {setting}: they cannot be joined")
        known = {(run["set"], run["arm"]) for run in first["runs"]}
        first["runs"] += [run for run in other["runs"] if (run["set"], run["arm"]) not in known]
    return dict(first)


def read_arrays(name: str, folders: list[Path]) -> dict[str, Any]:
    """Join what was found, a state that was searched twice as in the first folder."""
    joined: dict[str, Any] = {}
    for path in (folder / f"{name}.npz" for folder in folders):
        found = np.load(path) if path.exists() else {}
        joined |= {key: found[key] for key in found if key not in joined}
    return joined


def judge_set(
    folder: Path,
    arrays: dict[str, Any],
    tests: dict[str, list[list[str]]],
    measures: Sequence[str],
) -> list[dict[str, Any]]:
    """Judge all states of one collection on each split."""
    states = [name.removesuffix(".rows") for name in arrays if name.endswith(".rows")]
    judged = dict(splits(folder))
    documents = list(read(folder))
    docids = {row: document.docid for row, document in enumerate(documents, start=1)}
    results, at = [], 0
    with tempfile.TemporaryDirectory() as scratch, Engine.open(Path(scratch) / "c.quoth") as engine:
        engine.add_documents(documents)
        for split, own in tests.items():
            queries = [Query(qid, text) for qid, text in own]
            bm25 = Run("bm25", engine.run(queries, k=DEPTH, searcher="lexical").hits)
            runs = [bm25]
            for state in states:
                rows = arrays[f"{state}.rows"][at : at + len(queries)]
                scores = arrays[f"{state}.scores"][at : at + len(queries)]
                dense = as_run(state, queries, rows, scores, docids)
                runs += [dense, fuse_evenly(bm25, dense)]
            if "read.row" in arrays:
                likely = read_scores(arrays, at, queries, docids)
                runs += [rerank(run, likely) for run in (bm25, runs[2])]
            at += len(queries)
            qrels = Qrels({q.qid: judged[split].grades[q.qid] for q in queries})
            results.append(describe(folder.name, split, runs, qrels, measures))
    return results


def describe(
    name: str, split: str, runs: list[Run], qrels: Qrels, measures: Sequence[str]
) -> dict[str, Any]:
    """Return the means of all runs, and what learning, fusing and reranking changed."""
    by_name = {run.name: run for run in runs}
    kept = [run for run in runs if not run.name.startswith(("gpl~", "tsdae~"))]
    means = [
        asdict(row)
        for run in kept
        for row in compare([run], qrels, measures, baseline=run.name).rows
    ]
    for row in means:
        del row["contrast"]
        if row["measure"] == measures[0]:
            logging.info("%-14s %-22s %.4f", name, row["run_name"], row["mean"])
    return {
        "set": name,
        "split": split,
        "queries": len(qrels.grades),
        "results": means,
        "differences": [
            asdict(compare([by_name[base], by_name[run]], qrels, (measure,), baseline=base).rows[1])
            | {"baseline": base}
            for run, base in COMPARED
            if run in by_name and base in by_name
            for measure in measures
        ],
    }


def as_run(name: str, queries: list[Query], rows: Any, scores: Any, docids: dict[int, str]) -> Run:
    """Turn arrays into a run."""
    hits = {
        query.qid: tuple(
            Hit(docids[int(row)], float(score))
            for row, score in zip(rows[at], scores[at], strict=True)
        )
        for at, query in enumerate(queries)
    }
    return Run(name, hits)


Likelihoods = dict[str, dict[str, float]]
"""qid → docid → log p(query | passage)."""


def read_scores(
    arrays: dict[str, Any], first: int, queries: list[Query], docids: dict[int, str]
) -> Likelihoods:
    """Return what the query generator said of the documents it read."""
    likely: Likelihoods = {query.qid: {} for query in queries}
    columns = (arrays["read.query"], arrays["read.row"], arrays["read.score"])
    for at, row, score in zip(*columns, strict=True):
        if first <= at < first + len(queries):
            likely[queries[at - first].qid][docids[int(row)]] = float(score)
    return likely


def rerank(run: Run, likely: Likelihoods) -> Run:
    """Rerank a run as deep as its documents were read, at most 50 deep."""
    config, hits = RerankConfig(by="likelihood", depth=50), {}
    for qid, own in run.hits.items():
        read = [likely[qid].get(hit.docid) for hit in own[: config.depth]]
        depth = next((at for at, score in enumerate(read) if score is None), len(read))
        standings = mix(
            own,
            [score for score in read[:depth] if score is not None],
            weight=config.likelihood_weight,
        )
        ranked = [Hit(hit.docid, each.score) for hit, each in zip(own, standings, strict=True)]
        hits[qid] = tuple(sorted(ranked, key=lambda hit: (-hit.score, hit.docid)))
    return Run(f"{run.name} reranked", hits)


def fuse_evenly(first: Run, second: Run) -> Run:
    """Add two runs up, each over its usual range."""
    runs = [first, second]
    ranges = measure_ranges(runs, depth=DEPTH)
    weights = {first.name: 0.5, second.name: 0.5}
    name = f"{second.name} + bm25"
    return convex(runs, weights=weights, normalise="range", ranges=ranges, k=DEPTH, name=name)


def _key(row: dict[str, Any]) -> tuple[Any, ...]:
    return row["set"], row["split"], row["start"], row["seed"]


if __name__ == "__main__":
    main()
