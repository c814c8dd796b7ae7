"""BM25 on every collection: fields with the default boosts against title and text joined.

    python -m benchmarks.lexical.quality [--data ../shared/data/ir] [--sets scifact,cranfield]

Both sides are Quoth with default settings; the joined side is given documents whose only field is
title and text in one. Writes results/quality.json.
"""

from __future__ import annotations

import argparse
import json
import logging
import tempfile
from collections.abc import Iterator
from dataclasses import asdict, replace
from pathlib import Path

from quoth import __version__
from quoth.cli.evaluating import run_timed
from quoth.engine.engine import Engine
from quoth.evaluation.compare import compare
from quoth.evaluation.files import read_qrels, read_queries
from quoth.records import Document, Problem, Qrels, Query, Run
from quoth.text.readers.config import ReaderConfig
from quoth.text.readers.reading import read_documents

RESULTS = Path(__file__).parent / "results" / "quality.json"
MEASURES = ("nDCG@10", "RR@10", "R@100")
SPLITS = ("test", "dl19", "dl20", "train")


def main() -> None:
    """Measure the sets that were asked for and write one JSON file."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, default=Path("../shared/data/ir"))
    parser.add_argument("--sets", default="")
    parser.add_argument("--out", type=Path, default=RESULTS)
    given = parser.parse_args()
    logging.basicConfig(level=logging.INFO, format="%(message)s")
    names = given.sets.split(",") if given.sets else sorted(p.name for p in given.data.iterdir())
    rows = [row for name in names for row in measure_set(given.data / name)]
    content = {"quoth": __version__, "measures": MEASURES, "rows": rows}
    given.out.write_text(json.dumps(content, indent=1) + "\n")


def measure_set(folder: Path) -> Iterator[dict[str, object]]:
    """Index a collection both ways and compare them on each of its test splits."""
    documents = list(read(folder))
    with tempfile.TemporaryDirectory() as scratch:
        fields = Engine.open(Path(scratch) / "fields.quoth")
        joined = Engine.open(Path(scratch) / "joined.quoth")
        fields.add_documents(documents)
        joined.add_documents(map(join, documents))
        queries = read_queries(folder / "queries.jsonl.gz")
        for split, qrels in splits(folder):
            asked = [query for query in queries if query.qid in qrels.grades]
            yield measure_split(fields, joined, asked, qrels) | {
                "set": folder.name,
                "split": split,
                "documents": len(documents),
                "fields": list(fields.status()["fields"]),
            }
        fields.close()
        joined.close()


def measure_split(
    fields: Engine, joined: Engine, queries: list[Query], qrels: Qrels
) -> dict[str, object]:
    """Compare fields with joined text on one set of judged queries."""
    runs: list[Run] = []
    latencies = {}
    for name, engine in (("joined", joined), ("fields", fields)):
        run, latency = run_timed(engine, queries, searcher="lexical", k=100, syntax=False)
        runs.append(replace(run, name=name))
        latencies[name] = asdict(latency)
    comparison = compare(runs, qrels, MEASURES, baseline="joined")
    logging.info("%s", {(r.run_name, r.measure): round(r.mean, 4) for r in comparison.rows})
    return {
        "queries": len(queries),
        "results": [asdict(row) for row in comparison.rows],
        "latency": latencies,
    }


def read(folder: Path) -> Iterator[Document]:
    """Read a BEIR folder; a problem in it ends the benchmark."""

    def stop(problem: Problem) -> None:
        raise SystemExit(str(problem))

    for located in read_documents([str(folder)], config=ReaderConfig(), report=stop):
        yield located.document


def join(document: Document) -> Document:
    """Make one text of title and text, and drop every other field."""
    parts = [text for name in ("title", "text") for text in document.fields.get(name, ())]
    return Document(document.docid, {"text": ("\n\n".join(parts) or " ",)})


def splits(folder: Path) -> Iterator[tuple[str, Qrels]]:
    """Yield the test splits of a collection; training judgements where there is nothing else."""
    found = [each for each in SPLITS if (folder / "qrels" / f"{each}.tsv.gz").exists()]
    for split in [each for each in found if each != "train"] or found:
        yield split, read_qrels(folder / "qrels" / f"{split}.tsv.gz")


if __name__ == "__main__":
    main()
