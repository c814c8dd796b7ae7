"""`quoth train pixar` on a CPU, and what its side adds to the hybrid of two.

    python -m benchmarks.pixar_quality.hybrid [--sets squad-dev] --vectors UNITS SHARDS

Identifiers are those that `pack` kept (written by the query generator, found again by BM25); no
label is used. Everything runs through `Engine`. Judged on test queries: each searcher alone, and
the hybrid with several shares of the generative side. Writes results/hybrid.json.
"""

from __future__ import annotations

import argparse
import gzip
import json
import logging
import tempfile
import time
from collections import defaultdict
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from benchmarks.hybrid.encode import load
from benchmarks.hybrid.quality import sample, take_vectors
from benchmarks.lexical.quality import read, splits
from benchmarks.pixar_quality.pack import CACHE, JOINED
from quoth import __version__
from quoth.engine.engine import Engine
from quoth.evaluation.compare import compare
from quoth.evaluation.files import read_queries
from quoth.jobs.pixar.job import PixarRequest, train_generative
from quoth.records import Qrels
from quoth.settings.pixar import PixarBuildConfig

RESULTS = Path(__file__).parent / "results" / "hybrid.json"
MEASURES = ("nDCG@10", "RR@10", "R@100")
SHARES = (0.0, 0.05, 0.1, 0.2, 0.3)
MOST = 500


def main() -> None:
    """Train and judge each set."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, default=Path("../shared/data/ir"))
    parser.add_argument("--sets", default="squad-dev")
    parser.add_argument("--minutes", type=float, default=10)
    parser.add_argument("--vectors", type=Path, nargs=2, metavar=("UNITS", "SHARDS"), required=True)
    given = parser.parse_args()
    logging.basicConfig(level=logging.INFO, format="%(message)s")
    encoded = load(*given.vectors)
    rows = json.loads(RESULTS.read_text())["rows"] if RESULTS.exists() else []
    for name in given.sets.split(","):
        row = measure(given, name, encoded[name])
        rows = [each for each in rows if each["set"] != name] + [row]
        RESULTS.parent.mkdir(exist_ok=True)
        content = {"quoth": __version__, "measures": MEASURES, "rows": rows}
        RESULTS.write_text(json.dumps(content, indent=1) + "\n")


def measure(given: argparse.Namespace, name: str, encoded: tuple[Any, Any, Any]) -> dict[str, Any]:
    """Index, train and judge one set."""
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch) / "c.quoth"
        with Engine.open(folder) as engine:
            engine.add_documents(read(given.data / name))
            with engine._writing() as (store, _config):
                store.put_identifiers(kept_identifiers(name), origin="pseudo-query")
            take_vectors(engine, encoded)
            engine.encode()
            began = time.perf_counter()
            request = PixarRequest(PixarBuildConfig(minutes=given.minutes))
            trained = train_generative(engine, request)
            seconds = time.perf_counter() - began
        split, qrels = next(splits(given.data / name))
        queries = sample(read_queries(given.data / name / "queries.jsonl.gz"), qrels)[:MOST]
        runs = []
        for label, searcher, share in ways():
            with Engine.open(folder, settings=[{"fusion": {"generative": share}}]) as engine:
                runs.append(replace(engine.run(queries, k=100, searcher=searcher), name=label))
        judged = Qrels({query.qid: qrels.grades[query.qid] for query in queries})
        found = compare(runs, judged, MEASURES, baseline="hybrid 0.0")
        logging.info("%s", {(r.run_name, r.measure): round(r.mean, 4) for r in found.rows})
        return {
            "set": name,
            "split": split,
            "queries": len(queries),
            "minutes": round(seconds / 60, 1),
            "report": asdict(replace(trained, collection=name)),
            "results": [asdict(row) for row in found.rows],
        }


def ways() -> list[tuple[str, str, float]]:
    """List what is judged: label, searcher, share of the generative side."""
    alone = [(name, name, 0.0) for name in ("lexical", "dense", "generative")]
    return [*alone, *((f"hybrid {share}", "hybrid", share) for share in SHARES)]


def kept_identifiers(name: str) -> dict[str, list[str]]:
    """Return the identifiers of each document of a set, as `pack` kept them."""
    joined = next((each for each, parts in JOINED.items() if name in parts), name)
    folder = CACHE / "pixar" / joined
    with gzip.open(folder / "kept.json.gz", "rt") as stream:
        kept = json.load(stream)
    names = json.loads((folder / "documents.json").read_text())
    found: dict[str, list[str]] = defaultdict(list)
    for docid, texts in zip(names, kept, strict=True):
        if docid.startswith(f"{name}/"):
            found[docid.removeprefix(f"{name}/")] += texts
    return {docid: list(dict.fromkeys(texts)) for docid, texts in found.items()}


if __name__ == "__main__":
    main()
