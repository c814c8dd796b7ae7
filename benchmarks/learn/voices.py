"""What generated identifiers add as a third voice once hits are reranked, and what they cost.

    python -m benchmarks.learn.voices [--data ../shared/data/ir] [--sets cosqa,cranfield]

Everything runs through `Engine`, as a user would: add, encode (which calibrates fusion and
reranking), name the documents with the shipped PIXAR without training (`quoth train pixar
--no-generator --pixar.train false`), search by `auto`. Nothing but `fusion.generative` differs
between the shares, which are compared on the first test split, paired by query; a pair of query and
passage is read once for all of them. *range*: scores of generated identifiers are divided by how
far they usually reach, as known items tell; *min_max*: scaled query by query. Neither shares nor
sets are chosen here. With --written N, pseudo-queries, N a passage, name documents beside their
sentences.

Times are processor time of single queries, k = 10, the configurations in turns. Sets that were
measured before are kept. Writes results/voices.json.
"""

from __future__ import annotations

import argparse
import itertools
import json
import logging
import os
import random
import statistics
import tempfile
import time
from collections.abc import Mapping, Sequence
from contextlib import ExitStack, closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from benchmarks.learn.lab.report import interval
from benchmarks.learn.product import Remembering
from benchmarks.lexical.quality import read, splits
from quoth import __version__
from quoth.engine.engine import Engine
from quoth.engine.reranking import identify_reranker
from quoth.evaluation.files import read_queries
from quoth.evaluation.measures import evaluate_run
from quoth.jobs.context import open_context
from quoth.jobs.pixar.job import PixarRequest, train_generative
from quoth.jobs.pixar.judging import range_scores
from quoth.models.pretrained import find_shipped
from quoth.records import Qrels, Query, Run
from quoth.search.searcher import ignore_progress
from quoth.settings.pixar import PixarBuildConfig

RESULTS = Path(__file__).parent / "results" / "voices.json"
MEASURES = ("nDCG@10", "RR@10")
GENERATIVE = "generative"
TRIED = (("min_max", 0.0), ("min_max", 0.2), ("range", 0.1), ("range", 0.2), ("range", 0.3))
"""How scores of generated identifiers are scaled, and their share; with 0 they are not asked."""
NUM_TIMED = 4
"""Queries that are timed; the first of them warms up and does not count."""

_Settings = dict[str, dict[str, Any]]
CONFIGURATIONS: Mapping[str, tuple[str, _Settings]] = {
    "BM25": ("lexical", {}),
    "hybrid": ("hybrid", {}),
    "hybrid, PIXAR": ("hybrid", {"fusion": {"generative": 0.2}}),
    "reranked": ("auto", {}),
    "reranked, PIXAR": ("auto", {"fusion": {"generative": 0.2}}),
    "reranked, likelihood": ("auto", {"rerank": {"by": "both"}}),
}
"""What is timed, from the cheapest to the dearest: the searcher and the settings of each."""


def main() -> None:
    """Measure the sets that were asked for and write one JSON file."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, default=Path("../shared/data/ir"))
    parser.add_argument("--sets", default="")
    parser.add_argument("--queries", type=int, default=100, help="Most queries of a set.")
    parser.add_argument("--written", type=int, default=0, help="Pseudo-queries of a passage.")
    parser.add_argument("--out", type=Path, default=RESULTS)
    given = parser.parse_args()
    logging.basicConfig(level=logging.INFO, format="%(message)s")
    names = given.sets.split(",") if given.sets else sorted(p.name for p in given.data.iterdir())
    known = json.loads(given.out.read_text())["rows"] if given.out.exists() else []
    for name in names:
        row = measure_set(given.data / name, most=given.queries, written=given.written)
        known = [each for each in known if _key(each) != _key(row)] + [row]
        write(sorted(known, key=_key), given.out)


def write(rows: Sequence[Mapping[str, Any]], path: Path) -> None:
    """Write what was measured and its sums, a row to a line."""
    about = {
        "quoth": __version__,
        "reader": identify_reranker(find_shipped("reader")),
        "threads": torch.get_num_threads(),
        "cores": os.cpu_count(),
        "timed": f"median of {NUM_TIMED - 1} queries, one at a time, k = 10, in turns",
        "sums": sum_up([row for row in rows if not row["written"]]),
        "configurations": weigh_up([row for row in rows if not row["written"]]),
    }
    head = json.dumps(about, indent=1).removesuffix("\n}")
    body = ",\n".join(json.dumps(row) for row in rows)
    path.write_text(f'{head},\n "rows": [\n{body}\n]}}\n')


def sum_up(rows: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Compare every scale and share with no share at all, over the sets, before and after reading.

    Differences are paired by query; a mean is that of the sets' means, and its interval a
    bootstrap over the queries of each.
    """
    sums = []
    for searcher, (scale, share) in itertools.product(("hybrid", "auto"), TRIED[1:]):
        changes = {
            row["set"]: np.array(row["by_query"][f"{searcher} {scale} {share}"]["nDCG@10"])
            - np.array(row["by_query"][f"{searcher} min_max 0.0"]["nDCG@10"])
            for row in rows
        }
        sums.append({"searcher": searcher, "scale": scale, "share": share, **contrast(changes)})
    return sums


def contrast(changes: Mapping[str, NDArray[np.float64]]) -> dict[str, Any]:
    """Sum up what each query of each set gained: means of sets, and a bootstrapped interval."""
    low, high = interval(list(changes.values()))
    means = {name: round(float(own.mean()), 4) for name, own in changes.items()}
    return {
        "sets": len(means),
        "queries": sum(map(len, changes.values())),
        "difference": round(statistics.fmean(means.values()), 4),
        "low": round(low, 4),
        "high": round(high, 4),
        "worst": min(means, key=means.__getitem__),
        "worst_difference": min(means.values()),
        "by_set": means,
    }


def weigh_up(rows: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Put the quality of every configuration beside its time, both as means of the sets.

    Reading by likelihood as well was timed here, but what it adds was judged elsewhere
    (lab.report, over 14 collections), so it has that difference instead of a quality.
    """
    by_run = {
        "BM25": "lexical",
        "hybrid": "hybrid min_max 0.0",
        "hybrid, PIXAR": "hybrid range 0.2",
        "reranked": "auto min_max 0.0",
        "reranked, PIXAR": "auto range 0.2",
    }
    found = []
    for name in CONFIGURATIONS:
        times = [row["processor_ms_per_query"][name] for row in rows]
        scores = [row["by_query"][by_run[name]]["nDCG@10"] for row in rows if name in by_run]
        found.append(
            {
                "name": name,
                "ms": round(statistics.fmean(times), 1),
                "least_ms": min(times),
                "most_ms": max(times),
                "nDCG@10": round(statistics.fmean(map(statistics.fmean, scores)), 4)
                if scores
                else None,
            }
        )
    return found


def measure_set(folder: Path, *, most: int, written: int) -> dict[str, Any]:
    """Index one collection, name its documents, and search with every share."""
    models = Remembering()
    _split, qrels = next(splits(folder))
    judged = [q for q in read_queries(folder / "queries.jsonl.gz") if q.qid in qrels.grades]
    asked = judged if len(judged) <= most else random.Random(0).sample(judged, most)
    own = Qrels({query.qid: qrels.grades[query.qid] for query in asked})
    names = {"generator": "query-generator" if written else "none", "written": max(1, written)}
    base: _Settings = {"generative": names}
    with tempfile.TemporaryDirectory() as scratch:
        path = Path(scratch) / "c.quoth"
        with Engine(path, [base], ignore_progress, models=models) as engine:
            engine.add_documents(read(folder))
            began = time.process_time()
            calibration = engine.encode()
            encoding = time.process_time() - began
            naming = name_documents(engine)
            documents = engine.status()["documents"]
        logging.info("%s: encoded in %.0f s, named in %s", folder.name, encoding, naming)
        times = time_in_turns(path, base, asked, models)
        models.is_remembering = True
        found = {}
        for scale, share in TRIED:
            settings = base | {"fusion": {"generative": share}}
            ranges = keep_ranges(path, base, drop=scale == "min_max")
            with Engine(path, [settings], ignore_progress, models=models) as engine:
                for searcher in ("hybrid", "auto"):
                    run = replace(engine.run(asked, k=100, searcher=searcher), name=searcher)
                    found[f"{searcher} {scale} {share}"] = judge(run, asked, own)
        with Engine(path, [base], ignore_progress, models=models) as engine:
            for searcher in ("lexical", GENERATIVE):
                run = engine.run(asked, k=100, searcher=searcher)
                found[searcher] = judge(run, asked, own)
    means = {n: round(statistics.fmean(each["nDCG@10"]), 4) for n, each in found.items()}
    logging.info("%s %s %s", folder.name, means, times)
    return {
        "set": folder.name,
        "written": written,
        "queries": len(asked),
        "judged_queries": len(judged),
        "documents": documents,
        "fusion_weights": dict(calibration.weights),
        "rerank_share": None if calibration.rerank is None else calibration.rerank.share,
        "encoding_processor_s": round(encoding, 1),
        "naming": naming,
        "generative_width": ranges.get(GENERATIVE),
        "processor_ms_per_query": times,
        "by_query": found,
    }


def name_documents(engine: Engine) -> dict[str, Any]:
    """Name every document with the shipped network, as it is; says what that took."""
    config = PixarBuildConfig(train=False, judged_queries=0, looks=0)
    began, clock = time.process_time(), time.perf_counter()
    report = train_generative(engine, PixarRequest(config), note=logging.info)
    return {
        "processor_s": round(time.process_time() - began, 1),
        "seconds": round(time.perf_counter() - clock, 1),
        "stages": {name: round(each, 1) for name, each in report.seconds.items()},
        "identifiers": report.num_identifiers,
        "phrases": report.num_phrases,
        "megabytes": report.megabytes,
    }


def keep_ranges(path: Path, base: _Settings, *, drop: bool) -> dict[str, float]:
    """Let fusion forget how far scores of generated identifiers reach, or measure it anew."""
    with Engine.open(path, settings=[base]) as engine, open_context(engine, logging.info) as own:
        with closing(own.make_searchers(own.store, own.config)) as searchers:
            known = searchers.calibration
            assert known is not None
            ranges = {name: width for name, width in known.ranges.items() if name != GENERATIVE}
            searchers.keep_calibration(replace(known, ranges=ranges))
        if not drop:
            range_scores(own, seed=0)
        with closing(own.make_searchers(own.store, own.config)) as searchers:
            known = searchers.calibration
            return {} if known is None else dict(known.ranges)


def time_in_turns(
    path: Path, base: _Settings, queries: Sequence[Query], models: Remembering
) -> dict[str, float]:
    """Search queries one at a time, each by every configuration; medians in ms of the processor."""
    seconds: dict[str, list[float]] = {name: [] for name in CONFIGURATIONS}
    with ExitStack() as stack:
        engines = {
            name: stack.enter_context(
                Engine(path, [base | settings], ignore_progress, models=models)
            )
            for name, (_searcher, settings) in CONFIGURATIONS.items()
        }
        for query in queries[:NUM_TIMED]:
            for name, (searcher, _settings) in CONFIGURATIONS.items():
                began = time.process_time()
                engines[name].run([query], k=10, searcher=searcher)
                seconds[name].append(time.process_time() - began)
    return {name: round(1000 * statistics.median(each[1:]), 1) for name, each in seconds.items()}


def judge(run: Run, queries: Sequence[Query], qrels: Qrels) -> dict[str, list[float]]:
    """Return what each query scores by each measure, in their order."""
    scores = evaluate_run(run, qrels, MEASURES).scores
    return {
        measure: [round(scores[measure][query.qid], 4) for query in queries] for measure in MEASURES
    }


def _key(row: Mapping[str, Any]) -> tuple[str, int]:
    return row["set"], row["written"]


if __name__ == "__main__":
    main()
