"""BM25, vectors and their fusion on every collection, the fusion calibrated without labels.

    python -m benchmarks.hybrid.quality [--data ../shared/data/ir] [--vectors FOLDER]

Everything runs through `Engine`: add, encode (which calibrates), run. Where documents were encoded
elsewhere (`benchmarks.hybrid.encode`, on a machine with an accelerator), `--vectors` takes them
from there. Writes results/quality.json.
"""

from __future__ import annotations

import argparse
import json
import logging
import random
import tempfile
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.hybrid.encode import load
from benchmarks.lexical.quality import read, splits
from quoth import __version__
from quoth.engine.engine import Engine
from quoth.evaluation.compare import compare
from quoth.evaluation.files import read_queries
from quoth.index.dense.index import DenseIndex
from quoth.records import Document, Qrels, Query

RESULTS = Path(__file__).parent / "results" / "quality.json"
MEASURES = ("nDCG@10", "RR@10", "R@100")
SEARCHERS = ("lexical", "dense", "hybrid")
MAX_QUERIES = 1000


def main() -> None:
    """Measure the sets that were asked for and write one JSON file."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, default=Path("../shared/data/ir"))
    parser.add_argument("--sets", default="")
    parser.add_argument("--vectors", type=Path, nargs=2, metavar=("UNITS", "SHARDS"))
    parser.add_argument("--out", type=Path, default=RESULTS)
    given = parser.parse_args()
    logging.basicConfig(level=logging.INFO, format="%(message)s")
    names = given.sets.split(",") if given.sets else sorted(p.name for p in given.data.iterdir())
    rows: list[dict[str, Any]] = []
    encoded = load(*given.vectors) if given.vectors else {}
    for name in names:
        rows += measure_set(given.data / name, encoded.get(name))
        content = {"quoth": __version__, "measures": MEASURES, "rows": rows}
        given.out.write_text(json.dumps(content, indent=1) + "\n")


def measure_set(folder: Path, encoded: tuple[Any, Any, Any] | None) -> list[dict[str, Any]]:
    """Index one collection, calibrate, and compare the searchers on its test splits."""
    with tempfile.TemporaryDirectory() as scratch, Engine.open(Path(scratch) / "c.quoth") as engine:
        engine.add_documents(read(folder))
        if encoded is not None:
            take_vectors(engine, encoded)
        calibration = engine.encode()
        logging.info("%s: %s; %s", folder.name, dict(calibration.weights), calibration.reason)
        queries = read_queries(folder / "queries.jsonl.gz")
        return [
            measure_split(engine, sample(queries, qrels), qrels)
            | {"set": folder.name, "split": split, "calibration": calibration.to_record()}
            for split, qrels in splits(folder)
        ]


def measure_split(engine: Engine, queries: list[Query], qrels: Qrels) -> dict[str, Any]:
    """Compare the searchers on one set of judged queries."""
    runs = [replace(engine.run(queries, k=100, searcher=name), name=name) for name in SEARCHERS]
    judged = Qrels({query.qid: qrels.grades[query.qid] for query in queries})
    comparison = compare(runs, judged, MEASURES, baseline="lexical")
    logging.info("%s", {(r.run_name, r.measure): round(r.mean, 4) for r in comparison.rows})
    return {"queries": len(queries), "results": [asdict(row) for row in comparison.rows]}


def sample(queries: tuple[Query, ...], qrels: Qrels) -> list[Query]:
    """Take the judged queries, at most `MAX_QUERIES` of them by a fixed seed."""
    judged = [query for query in queries if query.qid in qrels.grades]
    if len(judged) <= MAX_QUERIES:
        return judged
    return random.Random(0).sample(judged, MAX_QUERIES)


def take_vectors(engine: Engine, encoded: tuple[Any, Any, Any]) -> None:
    """Put vectors that were encoded elsewhere into the collection's dense index.

    Documents without the body field are left to `Engine.encode`, which knows what stands in for it.
    """
    store = engine._reader()
    dense = engine.make_searchers(store).dense_side()
    body = dense._encoder.config.fields[-1]
    rows, units, vectors = encoded
    stored = {each.row: each.document for each in store.live_documents()}
    usual = np.array([body in stored[row].fields for row in rows.tolist()])
    check_vectors(dense, stored, (rows[usual], units[usual], vectors[usual]))
    index = DenseIndex.open(
        dense.folder, model=dense._encoder.identity(), config=engine.config.dense
    )
    index.add(rows[usual], units[usual], vectors[usual])


def check_vectors(dense: Any, stored: dict[int, Document], encoded: tuple[Any, Any, Any]) -> None:
    """Encode some documents here and make sure that the given vectors are theirs."""
    rows, _units, vectors = encoded
    for row in random.Random(0).sample(sorted(set(rows.tolist())), 20):
        units = list(dense._units(stored[row], dense._cut(stored[row])))
        own = dense._encoder.encode_documents(units).vectors
        given = vectors[rows == row]
        if len(own) != len(given) or (own * given).sum(1).min() < 0.995:
            raise SystemExit(f"{stored[row].docid}: the vectors are not those of this document")


if __name__ == "__main__":
    main()
