"""Keep the lexical runs of the test queries, for the hybrid.

python -m benchmarks.pixar_pretraining.lexical OUT [--data ../shared/data/ir]
"""

from __future__ import annotations

import argparse
import gzip
import json
import tempfile
from pathlib import Path

from benchmarks.hybrid.quality import sample
from benchmarks.lexical.quality import read, splits
from quoth.engine.engine import Engine
from quoth.evaluation.files import read_queries


def main() -> None:
    """Index and search each collection by its words."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("out", type=Path)
    parser.add_argument("--data", type=Path, default=Path("../shared/data/ir"))
    given = parser.parse_args()
    given.out.mkdir(parents=True, exist_ok=True)
    for folder in sorted(given.data.iterdir()):
        path = given.out / f"{folder.name}.json.gz"
        if path.exists():
            continue
        queries = read_queries(folder / "queries.jsonl.gz")
        asked = [query for _s, qrels in splits(folder) for query in sample(queries, qrels)[:1000]]
        with tempfile.TemporaryDirectory() as place, Engine.open(Path(place) / "c.quoth") as engine:
            engine.add_documents(read(folder))
            run = engine.run(asked, k=100, searcher="lexical")
        hits = {qid: [[hit.docid, hit.score] for hit in own] for qid, own in run.hits.items()}
        with gzip.open(path, "wt") as stream:
            json.dump(hits, stream)


if __name__ == "__main__":
    main()
