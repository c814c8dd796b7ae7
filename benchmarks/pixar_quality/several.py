"""What all identifiers of a document add beside its best one, without training on a collection.

    python -m benchmarks.pixar_quality.several [--data ../shared/data/ir] [--sets cacm,nq-mini]

Each collection is named and searched through `Engine` with the shipped PIXAR as it is: sentences
are identifiers, nothing is written and nothing trained. Every test query (of 1,000 at most) is then
searched for twice, by the best identifier alone (`generative.mean_share = 0`) and with the share
that is the default, which was chosen by held-out pairs of the training of the shipped network, not
by these queries. Differences are paired by query, intervals are bootstrapped. Sets that were
measured before are kept. Writes results/several.json after each set.
"""

from __future__ import annotations

import argparse
import json
import logging
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.hybrid.quality import sample
from benchmarks.lexical.quality import read, splits
from benchmarks.pixar_pretraining.report import spread
from quoth import __version__
from quoth.engine.engine import Engine
from quoth.evaluation.files import read_queries
from quoth.evaluation.measures import evaluate_run
from quoth.jobs.pixar.job import PixarRequest, train_generative
from quoth.records import Qrels, Query
from quoth.search.generative.config import NO_GENERATOR, GenerativeConfig
from quoth.settings.pixar import PixarBuildConfig

RESULTS = Path(__file__).parent / "results" / "several.json"
SETS = "cacm,cisi,cranfield,cosqa,nfcorpus-tok,nq-mini,squad-dev,wikiqa,tmdb,scifact"
MEASURE = "RR@10"
SHARES = {"best": 0.0, "mean": GenerativeConfig().mean_share}


def main() -> None:
    """Measure the sets that were asked for and write one JSON file."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, default=Path("../shared/data/ir"))
    parser.add_argument("--sets", default=SETS)
    parser.add_argument("--out", type=Path, default=RESULTS)
    given = parser.parse_args()
    logging.basicConfig(level=logging.INFO, format="%(message)s")
    rows = json.loads(given.out.read_text())["rows"] if given.out.exists() else []
    for name in given.sets.split(","):
        if name in [each["set"] for each in rows]:
            continue
        rows = sorted([*rows, measure_set(given.data / name)], key=lambda each: str(each["set"]))
        content = {"quoth": __version__, "measure": MEASURE, "shares": SHARES, "rows": rows}
        given.out.write_text(json.dumps(content, indent=1) + "\n")


def measure_set(folder: Path) -> dict[str, Any]:
    """Name a collection, search it both ways, and judge."""
    _split, qrels = next(splits(folder))
    queries = sample(read_queries(folder / "queries.jsonl.gz"), qrels)
    documents = list(read(folder))
    with tempfile.TemporaryDirectory() as scratch:
        path = Path(scratch) / "c.quoth"
        with Engine.open(path, settings=[_settings(0.0)]) as engine:
            engine.add_documents(documents)
            config = PixarBuildConfig(train=False, judged_queries=0, looks=0)
            report = train_generative(engine, PixarRequest(config), note=logging.info)
        found = {way: search(path, queries, qrels, share=own) for way, own in SHARES.items()}
    result: dict[str, Any] = {
        "set": folder.name,
        "documents": len(documents),
        "identifiers": report.num_identifiers,
        "queries": len(queries),
        "milliseconds": {way: own.pop("milliseconds") for way, own in found.items()},
    }
    scores = {way: np.array(own["scores"]) for way, own in found.items()}
    result |= {way: spread([own]) for way, own in scores.items()}
    result["difference"] = spread([scores["mean"] - scores["best"]])
    logging.info("%s", result)
    return result


def search(path: Path, queries: Sequence[Query], qrels: Qrels, *, share: float) -> dict[str, Any]:
    """Score every query, and time searching for all but the first, which loads the model."""
    with Engine.open(path, settings=[_settings(share)]) as engine:
        engine.run(queries[:1], k=10, searcher="generative")
        began = time.perf_counter()
        run = engine.run(queries, k=10, searcher="generative")
        seconds = time.perf_counter() - began
    asked = Qrels({query.qid: qrels.grades[query.qid] for query in queries})
    scores = evaluate_run(run, asked, (MEASURE,)).scores[MEASURE]
    return {
        "milliseconds": round(1000 * seconds / len(queries), 1),
        "scores": [scores[query.qid] for query in queries],
    }


def _settings(share: float) -> dict[str, dict[str, Any]]:
    return {"generative": {"generator": NO_GENERATOR, "mean_share": share}}


if __name__ == "__main__":
    main()
