"""What the generative side, trained on a GPU, adds to the hybrid of two on all sets.

    python -m benchmarks.pixar_quality.hybrid_sets others --vectors UNITS SHARDS
    python -m benchmarks.pixar_quality.hybrid_sets judge FOLDER

*others* indexes each set, calibrates the hybrid of two, and keeps its two runs for the test queries
that `pack` wrote (benchmarks/.cache/hybrid-runs/). *judge* fuses them with the rankings that
`run_gpu --scores` wrote, as `quoth search` would, under several shares of the generative side, each
with its scores scaled per query (`min_max`) or by their usual range over the queries (`range`; no
judgement is used). The generative side alone is compared with BM25 over the same identifiers. A
share is also chosen for each set by what is best in the mean of the others.
Writes results/hybrid-sets.json.
"""

from __future__ import annotations

import argparse
import gzip
import json
import logging
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.hybrid.encode import load
from benchmarks.hybrid.quality import take_vectors
from benchmarks.lexical.quality import read
from benchmarks.pixar_quality.pack import CACHE
from benchmarks.pixar_quality.report import (
    as_run,
    contrast,
    document_names,
    read_qrels,
    read_tests,
    search_identifiers,
)
from quoth import __version__
from quoth.engine.engine import Engine
from quoth.evaluation.compare import Row, compare
from quoth.records import Hit, Qrels, Query, Run
from quoth.search.hybrid.calibration import Calibration
from quoth.search.hybrid.fusion import UsualRanges, fuse, measure_ranges
from quoth.search.hybrid.fusion_config import FusionConfig

RESULTS = Path(__file__).parent / "results" / "hybrid-sets.json"
MEASURES = ("nDCG@10", "RR@10", "R@100")
SHARES = (0.05, 0.1, 0.15, 0.2, 0.3)
SCALES = ("min_max", "range")
DEPTH = 100
TWO = "hybrid of two"


def main() -> None:
    """Search with the others, or judge the three together."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, default=Path("../shared/data/ir"))
    parser.add_argument("--packed", type=Path, default=CACHE / "pixar")
    parser.add_argument("--runs", type=Path, default=CACHE / "hybrid-runs")
    parser.add_argument("--sets", default="", help="all where not given")
    kinds = parser.add_subparsers(dest="kind", required=True)
    others = kinds.add_parser("others")
    others.add_argument("--vectors", type=Path, nargs=2, required=True)
    judge = kinds.add_parser("judge")
    judge.add_argument("folder", type=Path)
    judge.add_argument("--out", type=Path, default=RESULTS)
    given = parser.parse_args()
    logging.basicConfig(level=logging.INFO, format="%(message)s")
    given.sets = (
        given.sets.split(",") if given.sets else sorted(p.name for p in given.data.iterdir())
    )
    if given.kind == "others":
        search_others(given)
    else:
        judge_all(given)


# --- the hybrid of two ----------------------------------------------------------------------------


def search_others(given: argparse.Namespace) -> None:
    """Keep the runs of the other two searchers, and how they are weighed."""
    encoded = load(*given.vectors)
    given.runs.mkdir(parents=True, exist_ok=True)
    for name in given.sets:
        path = given.runs / f"{name}.json.gz"
        if path.exists():
            continue
        queries = [query for _split, query in read_tests(given.packed / name)]
        calibration, runs = search_two(given.data / name, encoded[name], queries)
        content = {
            "calibration": calibration.to_record(),
            "runs": {
                each: {qid: [[h.docid, h.score] for h in hits] for qid, hits in run.hits.items()}
                for each, run in runs.items()
            },
        }
        with gzip.open(path, "wt") as stream:
            json.dump(content, stream)
        logging.info("%s: %s", name, dict(calibration.weights))


def search_two(
    folder: Path, encoded: tuple[Any, Any, Any], queries: list[Query]
) -> tuple[Calibration, dict[str, Run]]:
    """Index and calibrate one set, and search it by words and by vectors."""
    with tempfile.TemporaryDirectory() as scratch, Engine.open(Path(scratch) / "c.quoth") as engine:
        engine.add_documents(read(folder))
        take_vectors(engine, encoded)
        calibration = engine.encode()
        names = ("lexical", "dense")
        return calibration, {each: engine.run(queries, k=DEPTH, searcher=each) for each in names}


@dataclass(frozen=True)
class Others:
    """The runs of two searchers, and what was found out about fusing them."""

    runs: tuple[Run, ...]
    weights: Mapping[str, float]
    ranges: UsualRanges


def read_others(path: Path) -> Others:
    """Read what `search_others` kept."""
    with gzip.open(path, "rt") as stream:
        content = json.load(stream)
    calibration = Calibration.from_record(content["calibration"])
    runs = [
        Run(name, {qid: tuple(Hit(*hit) for hit in hits) for qid, hits in own.items()})
        for name, own in content["runs"].items()
    ]
    return Others(tuple(runs), calibration.weights, calibration.usual_ranges())


# --- the hybrid of three --------------------------------------------------------------------------


def judge_all(given: argparse.Namespace) -> None:
    """Judge each set, then choose shares across sets."""
    rows = [judge_set(name, given) for name in given.sets]
    content = {
        "quoth": __version__,
        "measures": MEASURES,
        "rows": rows,
        "chosen": [choose(rows, measure) for measure in MEASURES],
    }
    given.out.write_text(json.dumps(content, indent=1) + "\n")


def judge_set(name: str, given: argparse.Namespace) -> dict[str, Any]:
    """Judge the searchers alone and together on one set."""
    found = sorted(given.folder.glob(f"{name}.*.json"))
    if not found:
        raise SystemExit(f"there is no trained model of {name} in {given.folder}")
    trial = json.loads(found[-1].read_text())
    tests = read_tests(given.packed / name)
    qrels = read_qrels(name, given.data, tests)
    arrays = np.load(given.folder / trial["curve"][-1]["file"])
    names = document_names(given.packed / name)
    generative = generative_run(arrays, tests, names)
    alone = as_run(generative.name, arrays["bag_cos.max"], tests, names)
    others = read_others(given.runs / f"{name}.json.gz")
    runs = [*others.runs, generative, *hybrids(others, generative)]
    qids = generative.hits.keys()
    runs = [Run(run.name, {qid: run.hits[qid] for qid in qids}) for run in runs]
    judged = Qrels(
        {
            qid: {docid.partition("/")[2]: grade for docid, grade in qrels.grades[qid].items()}
            for qid in qids
        }
    )
    compared = compare(runs, judged, MEASURES, baseline=TWO)
    logging.info("%s %s", name, _brief(compared.rows))
    return {
        "set": name,
        "queries": len(qids),
        "identifiers": trial["about"]["identifiers"],
        "vocabulary": trial["vocabulary"],
        "losses": trial["losses"],
        "steps": trial["recipe"]["steps"],
        "weights": dict(others.weights),
        "results": [asdict(row) for row in compared.rows],
        "against_bm25": contrast(alone, search_identifiers(trial, given, tests), qrels),
    }


def generative_run(arrays: Any, tests: list[tuple[str, Query]], names: list[str]) -> Run:
    """Read the ranking of a model; documents lose the name of their set."""
    hits = {}
    ranked = zip(tests, arrays["bag_cos.max"], arrays["bag_cos.max.scores"], strict=False)
    for (_split, query), rows, scores in ranked:
        hits[query.qid] = tuple(
            Hit(names[row].partition("/")[2], float(score))
            for row, score in zip(rows.tolist(), scores.tolist(), strict=True)
            if row >= 0
        )
    return Run("generative", hits)


def hybrids(others: Others, generative: Run) -> Iterator[Run]:
    """Fuse two, then three in every way."""
    config = FusionConfig()
    two = fuse(others.runs, config, weights=others.weights, ranges=others.ranges, k=DEPTH)
    yield replace(two, name=TWO)
    own = measure_ranges([generative], depth=others.ranges.depth).widths
    known = replace(others.ranges, widths={**others.ranges.widths, **own})
    for scale in SCALES:
        for share in SHARES:
            three = fuse(
                [*others.runs, generative],
                config,
                weights=replace(config, generative=share).with_generative(others.weights),
                ranges=known if scale == "range" else others.ranges,
                k=DEPTH,
            )
            yield replace(three, name=f"{scale} {share}")


def choose(rows: list[dict[str, Any]], measure: str) -> dict[str, Any]:
    """Choose for each set the way that is best in the mean of the other sets."""
    table = {
        row["set"]: {
            each["run_name"]: each["mean"] for each in row["results"] if each["measure"] == measure
        }
        for row in rows
    }
    ways = [TWO, *(f"{scale} {share}" for scale in SCALES for share in SHARES)]
    chosen = {}
    for name in table:
        left = [own for other, own in table.items() if other != name] or [table[name]]
        chosen[name] = max(ways, key=lambda way: float(np.mean([own[way] for own in left])))
    return {
        "measure": measure,
        "ways": chosen,
        "two": float(np.mean([own[TWO] for own in table.values()])),
        "three": float(np.mean([table[name][way] for name, way in chosen.items()])),
    }


def _brief(rows: tuple[Row, ...]) -> dict[str, float]:
    return {row.run_name: round(row.mean, 4) for row in rows if row.measure == MEASURES[0]}


if __name__ == "__main__":
    main()
