"""Judge what a pretrained PIXAR found in collections that it never saw, alone and in the hybrid.

    python -m benchmarks.pixar_pretraining.report FOLDER --lexical RUNS [--data ../shared/data/ir]

FOLDER holds what `train`, `judge`, `dense` and `ablate` wrote, stages.json with the held-out
figures of every stage of the training, and, where vocabularies are compared, phrases.json,
phrases-all.json and words.json, which `judge` wrote for one network; RUNS holds the lexical runs of
the test queries (`lexical.py`). The way from identifiers to documents was chosen by held-out pairs
of the training, not by these queries. Weights of the hybrid of two are those that calibration found
(`pixar_quality/results/hybrid-sets.json`). Writes results/pretraining.json.
"""

from __future__ import annotations

import argparse
import gzip
import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.hybrid.quality import sample
from benchmarks.lexical.quality import splits
from benchmarks.pixar_pretraining.judge import HALF
from quoth import __version__
from quoth.evaluation.files import read_queries
from quoth.evaluation.measures import evaluate_run
from quoth.records import Hit, Qrels, Run
from quoth.search.hybrid.fusion import fuse, measure_ranges
from quoth.search.hybrid.fusion_config import FusionConfig

RESULTS = Path(__file__).parent / "results" / "pretraining.json"
EARLIER = Path("benchmarks/pixar_quality/results/hybrid-sets.json")
SHARES = (0.1, 0.2, 0.3)
RESAMPLES = 2_000
TWO = "hybrid of two"


def main() -> None:
    """Judge all sets and write one file."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--lexical", type=Path, required=True)
    parser.add_argument("--data", type=Path, default=Path("../shared/data/ir"))
    parser.add_argument("--way", default="bag_max titled max")
    parser.add_argument("--kept", default="bag_max titled.max")
    parser.add_argument("--out", type=Path, default=RESULTS)
    given = parser.parse_args()
    judged = json.loads((given.folder / "trained.json").read_text())
    found = {name: own for name, own in judged.items() if not name.endswith(HALF)}
    earlier = {row["set"]: row for row in json.loads(EARLIER.read_text())["rows"]}
    trained = json.loads((given.folder / "train.json").read_text())
    ablation = given.folder / "ablation.json"
    arrays = np.load(given.folder / "trained.npz")
    dense = np.load(given.folder / "dense.npz")
    rows = [
        judge_set(name, own, given, earlier[name], (arrays, dense)) for name, own in found.items()
    ]
    ways = list(rows[0]["means"])
    gains = [row.pop("gains") for row in rows]
    content = {
        "quoth": __version__,
        "training": {name: own for name, own in trained.items() if name != "log"},
        "ablation": json.loads(ablation.read_text()) if ablation.exists() else {},
        "stages": json.loads((given.folder / "stages.json").read_text()),
        "vocabularies": compare_vocabularies(given.folder, given.way),
        "way": given.way,
        "sets": rows,
        "means": {way: spread([own["RR@10"][way] for own in found.values()]) for way in ways},
        "earlier": float(np.mean([row["earlier"] for row in rows])),
        "gains": {name: spread([own[name] for own in gains]) for name in gains[0]},
        "new_documents": [judge_new(name, judged, given) for name in judged if name.endswith(HALF)],
        "hybrid": {
            name: float(np.mean([row["hybrid"][name] for row in rows]))
            for name in rows[0]["hybrid"]
        },
    }
    given.out.parent.mkdir(exist_ok=True)
    given.out.write_text(json.dumps(content, indent=1) + "\n")
    print(
        json.dumps(
            {k: content[k] for k in ("earlier", "hybrid", "gains", "new_documents")}, indent=1
        )
    )


def judge_set(
    name: str,
    found: dict[str, Any],
    given: argparse.Namespace,
    earlier: dict[str, Any],
    runs: tuple[Any, Any],
) -> dict[str, Any]:
    """Judge one set: the ways alone, and three searchers together."""
    folder = given.data / name
    queries, grades, qids = read_queries(folder / "queries.jsonl.gz"), {}, []
    for _split, qrels in splits(folder):
        for query in sample(queries, qrels)[:1000]:
            qids.append(query.qid)
            grades[query.qid] = dict(qrels.grades[query.qid])
    with gzip.open(folder / "corpus.jsonl.gz", "rt") as stream:
        docids = [json.loads(line)["_id"] for line in stream]
    arrays, dense = runs
    with gzip.open(given.lexical / f"{name}.json.gz", "rt") as stream:
        lexical = {qid: tuple(Hit(*hit) for hit in own) for qid, own in json.load(stream).items()}
    three = [
        Run("lexical", lexical),
        as_run("dense", dense[f"{name}.rows"], dense[f"{name}.scores"], qids, docids),
        as_run(
            "generative",
            arrays[f"{name}.{given.kept}.rows"],
            arrays[f"{name}.{given.kept}.scores"],
            qids,
            docids,
        ),
    ]
    ranges = measure_ranges(three, depth=100)
    weights, config = earlier["weights"], FusionConfig()
    fused = [replace(fuse(three[:2], config, weights=weights, ranges=ranges, k=100), name=TWO)]
    for share in SHARES:
        own = replace(config, generative=share).with_generative(weights)
        made = fuse(three, config, weights=own, ranges=ranges, k=100)
        fused.append(replace(made, name=f"three, {share}"))
    judged = [evaluate_run(run, Qrels(grades), ("nDCG@10", "RR@10")) for run in (*three, *fused)]
    scores = {own.run_name: own.means["nDCG@10"] for own in judged}
    by_query = {own.run_name: own.scores["nDCG@10"] for own in judged}
    before = [r for r in earlier["results"] if r["run_name"] == "generative"]
    return {
        "set": name,
        **{key: value for key, value in found.items() if key != "RR@10"},
        "means": {way: float(np.mean(own)) for way, own in found["RR@10"].items()},
        "interval": spread([found["RR@10"][given.way]])["interval"],
        "earlier": next(r["mean"] for r in before if r["measure"] == "RR@10"),
        "lexical": judged[0].means["RR@10"],
        "hybrid": scores,
        "gains": {
            f"three, {share}": [by_query[f"three, {share}"][q] - by_query[TWO][q] for q in grades]
            for share in SHARES
        },
    }


def compare_vocabularies(folder: Path, way: str) -> list[dict[str, Any]]:
    """Compare vocabularies of the same collections under one network, with the first of them."""
    paths = [folder / f"{name}.json" for name in ("words", "phrases", "phrases-all")]
    found = [(each.stem, json.loads(each.read_text())) for each in paths if each.exists()]
    rows = []
    for name, own in found:
        whole = [each for each in own if not each.endswith(HALF)]
        scores = [np.array(own[each]["RR@10"][way]) for each in whole]
        first = [np.array(found[0][1][each]["RR@10"][way]) for each in whole]
        rows.append(
            {
                "name": name,
                "largest": max(own[each]["phrases"] for each in whole),
                "mean_length": float(np.mean([own[each]["mean_length"] for each in whole])),
                **spread(scores),
                "difference": spread([x - y for x, y in zip(scores, first, strict=True)]),
            }
        )
    return rows


def judge_new(name: str, judged: dict[str, Any], given: argparse.Namespace) -> dict[str, Any]:
    """Compare documents that phrases were chosen by with the rest, which are new ones.

    Each sort has the queries whose relevant documents are all of it, and their RR@10 with phrases
    chosen by all documents and by half of them.
    """
    whole = name.removesuffix(HALF)
    folder, ranks = given.data / whole, []
    with gzip.open(folder / "corpus.jsonl.gz", "rt") as stream:
        row_by_docid = {json.loads(line)["_id"]: row for row, line in enumerate(stream)}
    queries = read_queries(folder / "queries.jsonl.gz")
    for _split, qrels in splits(folder):
        for query in sample(queries, qrels)[:1000]:
            own = [row_by_docid[d] for d, g in qrels.grades[query.qid].items() if g > 0]
            ranks.append({row % 2 for row in own})
    result: dict[str, Any] = {"set": whole}
    for kind, wanted in (("old", {0}), ("new", {1})):
        at = [place for place, kinds in enumerate(ranks) if kinds == wanted]
        all_phrases, half = (
            [judged[each]["RR@10"][given.way][place] for place in at] for each in (whole, name)
        )
        result[kind] = {
            "queries": len(at),
            "phrases of all": spread([all_phrases])["mean"] if at else None,
            "phrases of half": spread([half]) if at else None,
        }
    return result


def as_run(name: str, rows: Any, scores: Any, qids: Sequence[str], docids: Sequence[str]) -> Run:
    """Name the documents of a ranking."""
    return Run(
        name,
        {
            qid: tuple(
                Hit(docids[row], float(score))
                for row, score in zip(own.tolist(), each.tolist(), strict=True)
            )
            for qid, own, each in zip(qids, rows, scores, strict=True)
        },
    )


def spread(sets: Sequence[Sequence[float] | NDArray[Any]]) -> dict[str, Any]:
    """Return the mean of the sets' means, and its 95 % interval when queries are drawn again."""
    chance = np.random.default_rng(0)
    drawn = np.zeros(RESAMPLES)
    for own in sets:
        values = np.asarray(own)
        at = chance.integers(len(values), size=(RESAMPLES, len(values)))
        drawn += values[at].mean(1) / len(sets)
    low, high = np.percentile(drawn, [2.5, 97.5])
    return {
        "mean": float(np.mean([np.mean(own) for own in sets])),
        "interval": [float(low), float(high)],
    }


if __name__ == "__main__":
    main()
