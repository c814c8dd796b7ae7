"""Fusion while only some passages have their vectors, as an interrupted `quoth encode` leaves them.

    python -m benchmarks.hybrid.coverage [--data ../shared/data/ir] [--sets cranfield,cisi]

Documents are cut into passages of 60 words, so that they have several. All are encoded once; then
collections are made that hold the first so many vectors, in the order in which `quoth encode` makes
them (the opening of every document first) or document by document. Searching is `Engine.run` on
each: as it is, and with documents that lack vectors counted as no match and weights as ever.
`--keep` names a folder for the encoded collections, to measure again without encoding again. Writes
results/coverage.json.
"""

from __future__ import annotations

import argparse
import json
import logging
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
from numpy.typing import NDArray

from benchmarks.hybrid.quality import sample
from benchmarks.lexical.quality import read, splits
from quoth import __version__
from quoth.engine.engine import Engine
from quoth.evaluation.compare import compare
from quoth.evaluation.files import read_queries
from quoth.index.dense.index import DenseIndex
from quoth.index.dense.storage import Quantised
from quoth.records import Qrels, Query, Run
from quoth.search.dense.record import EncodingRecord
from quoth.search.hybrid.searcher import HybridSearcher

RESULTS = Path(__file__).parent / "results" / "coverage.json"
MAX_WORDS = 60
SETTINGS = [{"passages": {"max_words": MAX_WORDS}, "rerank": {"by": "none"}}]
SHARES = (0.1, 0.25, 0.5, 1.0)
ORDERS = ("openings first", "document by document")
TREATMENTS = ("unknown", "no match")
MEASURES = ("nDCG@10",)


def main() -> None:
    """Measure the sets that were asked for and write one JSON file."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, default=Path("../shared/data/ir"))
    parser.add_argument("--sets", default="cranfield,cisi")
    parser.add_argument("--keep", type=Path)
    parser.add_argument("--out", type=Path, default=RESULTS)
    given = parser.parse_args()
    logging.basicConfig(level=logging.INFO, format="%(message)s")
    rows = []
    with tempfile.TemporaryDirectory() as scratch:
        for name in given.sets.split(","):
            whole = (given.keep or Path(scratch)) / f"{name}.quoth"
            rows.append(measure_set(given.data / name, whole, Path(scratch) / "part.quoth"))
            content = {"quoth": __version__, "max_words": MAX_WORDS, "rows": rows}
            given.out.write_text(json.dumps(content, indent=1) + "\n")


def measure_set(folder: Path, whole: Path, part: Path) -> dict[str, Any]:
    """Encode a collection, and compare all shares, orders and treatments with BM25 alone."""
    (split, qrels), *_ = splits(folder)
    queries = sample(read_queries(folder / "queries.jsonl.gz"), qrels)
    with Engine.open(whole, settings=SETTINGS) as engine:
        if not whole.exists():
            engine.add_documents(read(folder))
        calibration = engine._searchers.calibration or engine.encode()
        status = engine.status()
        runs = [search(engine, queries, name) for name in ("lexical", "hybrid")]
        model = engine._searchers.dense_side()._words.identify(engine._searchers.dense()._encoder)
        vectors = read_vectors(engine, model)
    cases = []
    for order in ORDERS:
        for share in SHARES:
            covered = make_part(whole, part, model, choose(vectors, order, share))
            for treatment in TREATMENTS:
                name = f"{order}, {share:.0%}, {treatment}"
                with treating(treatment), Engine.open(part, settings=SETTINGS) as engine:
                    runs.append(replace(search(engine, queries, "hybrid"), name=name))
                    said = engine._searchers.coverage("hybrid")
                cases.append({"name": name, "order": order, "share": share} | covered)
                cases[-1] |= {"treatment": treatment, "said": said}
    judged = Qrels({query.qid: qrels.grades[query.qid] for query in queries})
    comparison = compare(runs, judged, MEASURES, baseline="lexical")
    logging.info("%s", {row.run_name: round(row.mean, 4) for row in comparison.rows})
    return {
        "set": folder.name,
        "split": split,
        "queries": len(queries),
        "documents": status["documents"],
        "vectors": len(vectors),
        "weights": dict(calibration.weights),
        "cases": cases,
        "results": [asdict(row) for row in comparison.rows],
    }


def search(engine: Engine, queries: list[Query], name: str) -> Run:
    """Search without reranking, which has nothing to do with vectors."""
    found = engine.run(queries, k=100, searcher=name, rerank=False)
    return replace(found, name=name)


Labelled = list[tuple[int, int, NDArray[Any], float]]
"""Row, unit, stored numbers and scale of each vector."""


def read_vectors(engine: Engine, model: dict[str, Any]) -> Labelled:
    """Read all vectors of a collection, as they are stored."""
    folder = engine.folder / "dense" / str(model["name"])
    index = DenseIndex.open(folder, model=model, config=engine.config.dense)
    rows, units, stored = index.read(index.rows())
    return list(zip(rows.tolist(), units.tolist(), stored.codes, stored.scales, strict=True))


def choose(vectors: Labelled, order: str, share: float) -> Labelled:
    """Take the share of vectors that an encoding in an order makes first."""
    is_later = order == ORDERS[0]
    ranked = sorted(vectors, key=lambda each: (is_later and each[1] > 0, each[0], each[1]))
    return ranked[: round(share * len(ranked))]


def make_part(whole: Path, part: Path, model: dict[str, Any], kept: Labelled) -> dict[str, Any]:
    """Copy a collection with some of its vectors, as an interrupted encoding leaves it."""
    shutil.rmtree(part, ignore_errors=True)
    shutil.copytree(whole, part, ignore=shutil.ignore_patterns("dense", "hybrid"))
    rows, units, codes, scales = (list(column) for column in zip(*kept, strict=True))
    with Engine.open(part, settings=SETTINGS) as engine:
        store, folder = engine._reader(), part / "dense" / str(model["name"])
        EncodingRecord(folder).begin(store.change, log=store.log_digest(store.change))
        index = DenseIndex.open(folder, model=model, config=engine.config.dense)
    stored = Quantised(np.stack(codes), np.array(scales, dtype=np.float32))
    index.add_stored(np.array(rows, dtype=np.int64), np.array(units, dtype=np.int32), stored)
    return {"vectors": len(kept), "documents": len(set(rows))}


@contextmanager
def treating(treatment: str) -> Iterator[None]:
    """Count documents that lack vectors as Quoth does, or as no match."""
    if treatment == TREATMENTS[0]:
        yield
        return
    with mock.patch.object(HybridSearcher, "_partial", lambda _self: []):
        yield


if __name__ == "__main__":
    main()
